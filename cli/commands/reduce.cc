// The command `reduce`: parts of one result put together.
#include <fmt/format.h>

#include <utility>

#include "base/output_file.h"
#include "base/resources.h"
#include "cli/case/case.h"
#include "cli/case/case_run.h"
#include "cli/case/filter_border.h"
#include "cli/case/operands.h"
#include "cli/case/shared_flags.h"
#include "cli/options/commands.h"
#include "cli/parts/part_operands.h"
#include "cli/parts/part_run.h"
#include "cli/parts/reduction.h"
#include "cli/text/row.h"
#include "cli/text/values.h"
#include "tensor/statistics.h"
#include "tensor/tensor_hash.h"

namespace convgrad::cli {
namespace {

struct ReduceOptions {
  std::optional<std::string> images, output, partial;
  NpyWriteOptions write;
  FilterFormat filter_format = FilterFormat::kHWIO;
  int64_t max_bytes = 0;
  int num_threads = 1;
};

ReduceOptions ParseReduceOptions(const Arguments& arguments) {
  const auto text = [&](FlagId id) {
    const std::string* value = arguments.Find(id);
    return value == nullptr ? std::nullopt : std::optional(*value);
  };
  ReduceOptions options;
  options.images = text(FlagId::kImages);
  options.output = text(FlagId::kOutput);
  options.partial = text(FlagId::kPartial);
  if (options.output && options.partial) {
    ThrowUsage("flag/conflict", "--output and --partial", "one rounds the sum, the other does not",
               "give one of them");
  }
  options.write = ParseWriteOptions(arguments.flags());
  options.filter_format = ParseFilterFormat(arguments.flags());
  const std::string* limit = arguments.Find(FlagId::kMaxMemory);
  options.max_bytes =
      limit == nullptr ? AvailableMemory() / 5 * 4 : ParseMemory("--max-memory", *limit);
  const int threads = ParseThreads(arguments.flags());
  options.num_threads = threads == 0 ? UsableCpus() : threads;
  return options;
}

// Holds the hashes of the parts' images against operands that the flags name.
class OperandCheck {
 public:
  OperandCheck(const Arguments& arguments, const PartList& parts, int64_t max_bytes)
      : arguments_(arguments), parts_(parts), max_bytes_(max_bytes) {
    for (const auto& [role, id] : kFlags) {
      if (!arguments.Has(id)) continue;
      const auto& operands = InfoOf(parts.problem().op).operands;
      if (role == operands[0] || role == operands[1]) continue;
      ThrowUsage("operand/unexpected", FlagOf(role),
                 fmt::format("{} has no such operand", InfoOf(parts.problem().op).name));
    }
  }

  void Run(const ReduceOptions& options, const Parallel& parallel) const {
    for (const auto& [role, id] : kFlags) {
      if (const std::string* path = arguments_.Find(id)) Check(role, *path, options, parallel);
    }
  }

 private:
  static constexpr std::pair<Role, FlagId> kFlags[] = {{Role::kInput, FlagId::kInput},
                                                       {Role::kFilter, FlagId::kFilter},
                                                       {Role::kOutBackprop, FlagId::kOutBackprop}};

  void Check(Role role, const std::string& path, const ReduceOptions& options,
             const Parallel& parallel) const {
    NpyReadOptions reading;
    reading.view_as = parts_.problem().dtype;
    reading.max_copied_bytes = max_bytes_;
    const StoredTensor file = ReadTensor(path, reading);
    const bool is_filter = role == Role::kFilter;
    CheckOperand(
        parts_, role, path,
        is_filter
            ? FilterBorder(parts_.problem(), options.filter_format).Ours(file.tensor, parallel)
            : file.tensor);
    file.CheckUnchanged();
  }

  const Arguments& arguments_;
  const PartList& parts_;
  const int64_t max_bytes_;
};

// One reduction from its command line to its entry in the report.
class ReduceRun {
 public:
  ReduceRun(Session& session, const ReduceOptions& options, const PartList& parts)
      : session_(session),
        entry_(session.report.cases.back()),
        options_(options),
        parts_(parts),
        parallel_(options.num_threads) {
    entry_.problem = parts.problem();
    entry_.filter_format = options.filter_format;
    entry_.name = parts.problem().ToLine();
    if (!options.partial || options.images) parts.CheckComplete(options.images);
    if (options.output) {
      target_ = ParseTensorTarget(*options.output, InfoOf(parts.problem().op).result);
      file_.emplace(target_->path.file, OutputFileOptions{options.write.no_clobber});
      file_->Reserve(parts.problem().ResultBytes());
    } else if (options.partial) {
      file_.emplace(*options.partial, OutputFileOptions{options.write.no_clobber});
    }
  }

  void Run() {
    OperandCheck(session_.arguments, parts_, options_.max_bytes).Run(options_, parallel_);
    const Progress progress(session_.console,
                            fmt::format("putting {} parts together", parts_.paths().size()));
    if (parts_.AreSums()) {
      const SummedParts summed = SumParts(parts_, options_.max_bytes, parallel_);
      ListParts(summed.sha256);
      options_.partial ? WriteSummed(summed.sums)
                       : WriteResult(RoundSums(parts_.problem(), summed.sums, parallel_));
    } else {
      const JoinedParts joined = JoinParts(parts_, options_.max_bytes);
      ListParts(joined.sha256);
      options_.partial ? WriteJoined(joined.result) : WriteResult(joined.result);
    }
    entry_.status = CaseStatus::kComputed;
    entry_.exit_code = ExitCode::kOk;
  }

  std::string Summary() const {
    std::string text = fmt::format("{}\n", parts_.problem().ToLine());
    text += Row("parts", fmt::format("{}, images {}", parts_.paths().size(), Ranges()));
    if (entry_.part) {
      text += Row("file", fmt::format("{}, {}", EscapeControls(entry_.part->path),
                                      FormatExactBytes(entry_.part->bytes)));
      return text + Row("sha256", entry_.part->sha256);
    }
    const OutputRecord& output = *entry_.output;
    text += Row("result", fmt::format("{} {}{}", InfoOf(parts_.problem().op).result,
                                      ToString(Border().ResultShape()),
                                      output.path ? ", written to " + EscapeControls(*output.path)
                                                  : "; nothing was written: there is no --output"));
    text += Row("special", fmt::format("{} NaN, {} infinite, {} subnormal", output.special.nan,
                                       output.special.inf, output.special.subnormal));
    return text + Row("sha256", *output.sha256);
  }

 private:
  FilterBorder Border() const { return {parts_.problem(), options_.filter_format}; }

  // Neighbours as one, the first few.
  std::string Ranges() const {
    std::vector<ImageRange> joined;
    for (const PartRange& range : parts_.ranges()) {
      if (!joined.empty() && joined.back().end == range.images.begin) {
        joined.back().end = range.images.end;
      } else {
        joined.push_back(range.images);
      }
    }
    constexpr size_t kShown = 10;
    std::string text;
    for (size_t i = 0; i < std::min(kShown, joined.size()); ++i) {
      text += (i == 0 ? "" : ", ") + NameOf(joined[i]);
    }
    return joined.size() > kShown ? text + ", ..." : text;
  }

  void ListParts(const std::vector<std::string>& hashes) {
    for (size_t part = 0; part < hashes.size(); ++part) {
      entry_.inputs.push_back(
          {"part", parts_.paths()[part], hashes[part], InfoOf(parts_.problem().dtype).name});
    }
  }

  void WriteSummed(const FixedPointSums& sums) {
    PartHeader header = parts_.Joined();
    header.sums = PartSumsOf(sums);
    PartWriter writer(*file_, header);
    WriteSums(writer, sums);
    entry_.part = RecordOf(*options_.partial, header, writer.Finish());
  }

  void WriteJoined(const Tensor& result) {
    const PartHeader header = parts_.Joined();
    PartWriter writer(*file_, header);
    writer.Write(result.raw(), result.num_bytes());
    entry_.part = RecordOf(*options_.partial, header, writer.Finish());
  }

  void WriteResult(const Tensor& ours) {
    const Tensor result = Border().Result(ours, parallel_);
    OutputRecord output;
    output.path = options_.output;
    output.special = CountSpecial(result);
    if (file_) {
      NpyWriteOptions write = options_.write;
      write.hash = true;
      output.sha256 = WriteTensor(*file_, *target_, result, write);
    } else {
      output.sha256 = DataHash(result);
    }
    entry_.output = output;
  }

  Session& session_;
  CaseRecord& entry_;
  const ReduceOptions options_;
  const PartList& parts_;
  const Parallel parallel_;
  std::optional<TensorTarget> target_;
  std::optional<OutputFile> file_;
};

}  // namespace

ExitCode Reduce(Session& session) {
  BeginCase(session);
  const ReduceOptions options = ParseReduceOptions(session.arguments);
  const PartList parts(session.arguments.operands());
  ReduceRun run(session, options, parts);
  run.Run();
  session.console.Result(run.Summary());
  return session.report.cases.back().exit_code;
}

}  // namespace convgrad::cli
