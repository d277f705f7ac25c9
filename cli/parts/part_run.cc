#include "cli/parts/part_run.h"

#include <fmt/format.h>

#include <chrono>
#include <utility>

#include "base/checked.h"
#include "base/resources.h"
#include "cli/case/case_run.h"
#include "cli/case/operands.h"
#include "cli/parts/part_problem.h"
#include "cli/text/row.h"
#include "cli/text/values.h"
#include "conv/exact_parts.h"
#include "files/part_file.h"
#include "tensor/tensor_hash.h"

namespace convgrad::cli {
namespace {

using Clock = std::chrono::steady_clock;

double MillisecondsSince(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

bool IsSum(const Problem& problem) {
  return InfoOf(problem.op).direction == Direction::kBackpropFilter;
}

CaseSpec RequireExact(CaseSpec spec) {
  const OpInfo& op = InfoOf(spec.conv.op);
  if (op.direction == Direction::kBackpropFilter && spec.execution.precision != Precision::kExact) {
    ThrowUsage("part/precision", "--partial",
               fmt::format("{} is a sum over images: only exact sums are the same however they are "
                           "cut",
                           op.name),
               "give --precision exact");
  }
  return spec;
}

}  // namespace

PartRun::PartRun(CaseSpec spec, std::string path, const std::string* first_image,
                 const Console& console, CaseRecord& entry)
    : console_(console),
      entry_(entry),
      spec_(RequireExact(std::move(spec))),
      operands_(spec_, console),
      path_(std::move(path)) {
  entry_.use_cudnn_on_gpu = spec_.use_cudnn_on_gpu;
  entry_.filter_format = spec_.conv.filter_format;
  entry_.problem = problem();
  if (spec_.name.empty()) entry_.name = problem().ToLine();
  entry_.inputs = operands_.Records();
  entry_.run = IsSum(problem()) ? PlanExactSums(problem(), spec_.execution)
                                : PlanRun(problem(), spec_.execution);
  CheckMemory();
  if (first_image != nullptr) {
    first_image_ =
        ParseInteger("--first-image", *first_image, 0, kMaxDimension - operands_.batch());
  }
  if (problem().geometry.batch == 0) {
    ThrowUsage("images/range", "--partial", "there is no image", "give operands with images");
  }
  OpenFile();
}

void PartRun::CheckMemory() const {
  if (IsSum(problem())) {
    CheckExactSumsMemory(problem(), operands_.CopiedBytes(), spec_.execution);
  } else {
    operands_.CheckMemory();
  }
}

// A full disk is better met now than after the computation.
void PartRun::OpenFile() {
  file_.emplace(path_, OutputFileOptions{spec_.write.no_clobber});
  file_->Reserve(IsSum(problem()) ? problem().NumResults() * int64_t{sizeof(uint64_t)}
                                  : problem().ResultBytes());
}

void PartRun::Run() {
  const Clock::time_point begin = Clock::now();
  const Parallel parallel(entry_.run->num_threads);
  {
    const Progress progress(console_, "reading operands");
    operands_.Load(parallel);
  }
  TimingRecord timing;
  timing.load_ms = MillisecondsSince(begin);
  entry_.timing = timing;
  MakeHeader();
  IsSum(problem()) ? RunSums() : RunImages();
  entry_.timing->total_ms = MillisecondsSince(begin);
  entry_.status = CaseStatus::kComputed;
  entry_.exit_code = ExitCode::kOk;
}

std::string PartRun::Summary() const {
  const PartRecord& part = *entry_.part;
  const std::string of_batch =
      header_.batch ? fmt::format(" of {}", *header_.batch) : std::string();
  const std::string what =
      header_.sums ? fmt::format("exact sums of {} elements, {} words each", header_.sums->elements,
                                 header_.sums->words)
                   : fmt::format("{}, {}", InfoOf(problem().op).result, header_.precision);
  return fmt::format("{}\n", problem().ToLine()) +
         Row("part", fmt::format("images {}{}: {}", NameOf(Range()), of_batch, what)) +
         Row("file", fmt::format("{}, {}", EscapeControls(path_), FormatExactBytes(part.bytes))) +
         Row("sha256", part.sha256) +
         Row("computed in",
             fmt::format("{} ({}, {}, {} threads)", DescribeTiming(entry_), entry_.run->algorithm,
                         NameOf(entry_.run->isa), entry_.run->num_threads));
}

ImageRange PartRun::Range() const {
  const int64_t first = first_image_.value_or(0);
  return {first + operands_.images().begin, first + operands_.images().end};
}

// All but the hashes of the images and what is known when the sums are.
void PartRun::MakeHeader() {
  header_.problem = LineOfAnyBatch(problem());
  header_.precision = NameOf(spec_.execution.precision);
  if (!first_image_) header_.batch = operands_.batch();
  for (int i = 0; i < 2; ++i) {
    const bool is_filter = RoleOf(i) == Role::kFilter;
    if (!is_filter && first_image_) continue;  // a piece is no sample of the whole
    header_.operands.emplace_back(NameOf(RoleOf(i)), is_filter ? DataHash(operands_.whole(i))
                                                               : SampleHash(operands_.whole(i)));
  }
  header_.images = {{Range().begin, Range().end, {}}};
}

template <class WriteData>
void PartRun::WritePart(const WriteData& write_data) {
  const Progress progress(console_, "writing");
  const Clock::time_point begin = Clock::now();
  PartWriter writer(*file_, header_);
  write_data(writer);
  entry_.part = RecordOf(path_, header_, writer.Finish());
  entry_.timing->write_ms = MillisecondsSince(begin);
}

void PartRun::RunSums() {
  const Clock::time_point begin = Clock::now();
  DataHasher hashers[] = {DataHasher(problem().dtype, operands_.first().shape()),
                          DataHasher(problem().dtype, operands_.second().shape())};
  const Parallel parallel(entry_.run->num_threads);
  const auto hash_images = [&](int64_t first, int64_t last) {
    parallel.For(2, [&](int64_t i) {
      const Tensor& tensor = Operand(static_cast<int>(i));
      const int64_t bytes = tensor.num_bytes() / problem().geometry.batch;
      hashers[i].Update(static_cast<const std::byte*>(tensor.raw()) + first * bytes,
                        (last - first) * bytes);
    });
  };
  const Progress progress(console_, "summing images " + NameOf(Range()));
  const FixedPointSums sums =
      ComputeExactSums(problem(), operands_.first(), operands_.second(), operands_.CopiedBytes(),
                       spec_.execution, hash_images);
  entry_.timing->compute_ms = MillisecondsSince(begin);
  operands_.CheckUnchanged();
  for (int i = 0; i < 2; ++i) {
    header_.images.front().operands.emplace_back(NameOf(RoleOf(i)), hashers[i].Finish());
  }
  header_.sums = PartSumsOf(sums);
  WritePart([&](PartWriter& writer) { WriteSums(writer, sums); });
}

void PartRun::RunImages() {
  const Clock::time_point begin = Clock::now();
  Tensor result;
  {
    const Progress progress(console_, "computing images " + NameOf(Range()));
    result =
        Compute(problem(), operands_.first(), operands_.second(), spec_.execution, &*entry_.run);
  }
  entry_.timing->compute_ms = MillisecondsSince(begin);
  for (int i = 0; i < 2; ++i) {
    if (RoleOf(i) == Role::kFilter) continue;
    header_.images.front().operands.emplace_back(NameOf(RoleOf(i)), DataHash(Operand(i)));
  }
  operands_.CheckUnchanged();
  header_.image_bytes = problem().ResultBytes() / problem().geometry.batch;
  WritePart([&](PartWriter& writer) { writer.Write(result.raw(), result.num_bytes()); });
}

PartSums PartSumsOf(const FixedPointSums& sums) {
  return {sums.count(), sums.window().first, sums.window().count, !sums.states().empty()};
}

void WriteSums(PartWriter& writer, const FixedPointSums& sums) {
  writer.Write(sums.words(), sums.WordBytes());
  writer.Write(sums.states().data(), std::ssize(sums.states()));
}

PartRecord RecordOf(const std::string& path, const PartHeader& header, const std::string& sha256) {
  PartRecord record;
  record.path = path;
  record.sha256 = sha256;
  record.bytes = PartFileBytes(header);
  for (const PartImages& range : header.images) record.images.emplace_back(range.begin, range.end);
  if (header.sums) record.words = header.sums->words;
  return record;
}

ExitCode RunPart(Session& session) {
  const Arguments& arguments = session.arguments;
  CaseRecord& entry = BeginCase(session);
  CaseSpec spec = ParseCase(RequestOf(arguments));
  session.report.execution = spec.execution;
  if (arguments.Has(FlagId::kOutput)) {
    ThrowUsage("flag/conflict", "--output and --partial", "a part is no result yet",
               "leave --output to reduce");
  }
  PartRun run(std::move(spec), *arguments.Find(FlagId::kPartial),
              arguments.Find(FlagId::kFirstImage), session.console, entry);
  run.Run();
  session.console.Result(run.Summary());
  return entry.exit_code;
}

std::string DescribePartSize(const Problem& problem) {
  if (!IsSum(problem)) return "";
  const int64_t elements = problem.NumResults();
  const int words = WidestWindow(problem.dtype).count;
  const auto bytes = CheckedMul(elements, words * int64_t{sizeof(uint64_t)});
  if (!bytes) return "";
  return fmt::format("at most {} ({} bytes an element), as a rule a third",
                     FormatExactBytes(*bytes), words * sizeof(uint64_t));
}

}  // namespace convgrad::cli
