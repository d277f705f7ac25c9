#include "cli/case/case_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <future>
#include <utility>

#include "base/deadline.h"
#include "base/resources.h"
#include "cli/case/diagnose.h"
#include "cli/case/images.h"
#include "cli/case/review.h"
#include "cli/case/shared_flags.h"
#include "cli/record/pending.h"
#include "tensor/statistics.h"
#include "tensor/tensor_hash.h"
#include "verify/compare/other_type.h"
#include "verify/probe/invariance.h"
#include "verify/probe/probe.h"

namespace convgrad::cli {
namespace {

// Hashed in half a millisecond.
constexpr int64_t kThreadWorthwhileBytes = int64_t{1} << 20;

// Time on CPUs, of all threads of the process.
double CpuMilliseconds() {
  timespec time = {};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_nsec) / 1e6;
}

bool HasNonFinite(const Tensor& tensor) {
  const SpecialCounts counts = CountSpecial(tensor);
  return counts.nan + counts.inf > 0;
}

}  // namespace

void RequireGolden(const CaseSpec& spec, const std::string& name) {
  if (spec.expect || spec.actual) return;
  throw Error(ExitCode::kWrong, "golden/none", name, "the case names no golden in expect",
              "name one and record it, or leave --require-golden out");
}

CaseRecord& BeginCase(Session& session) {
  CaseRecord entry;
  entry.name = session.arguments.Get(FlagId::kName, session.arguments.operands().front());
  entry.repro = session.arguments.ReproLine();
  session.report.cases.push_back(entry);
  return session.report.cases.back();
}

CaseOptions CaseOptionsOf(const Arguments& arguments) {
  CaseOptions options;
  const bool hashes = !arguments.Has(FlagId::kNoHash);
  options.profile_errors = arguments.Has(FlagId::kReport) || arguments.Has(FlagId::kHtml);
  options.hash_inputs = hashes && arguments.Has(FlagId::kReport);
  // Without a file, the hash is what there is to show of the result.
  options.hash_result = hashes && (options.hash_inputs || !arguments.Has(FlagId::kOutput));
  return options;
}

CaseRun::CaseRun(CaseSpec spec, const CaseOptions& options, const Console& console,
                 CaseRecord& entry)
    : spec_(std::move(spec)), options_(options), console_(console), entry_(entry) {
  entry_.use_cudnn_on_gpu = spec_.use_cudnn_on_gpu;
  entry_.filter_format = spec_.conv.filter_format;
  spec_.compare.profile_failures = options_.profile_errors;
  operands_.emplace(spec_, console_);
  CheckSumsFit(spec_.compare, problem().dtype);
  entry_.problem = problem();
  if (spec_.name.empty()) entry_.name = problem().ToLine();
  entry_.inputs = operands_->Records();
  if (spec_.execution.num_threads == 0) {
    const bool is_small = problem().Flops() < options_.one_thread_flops;
    spec_.execution.num_threads = is_small ? 1 : options_.num_threads;
  }
  operands_->CheckTensorMemory();
  entry_.run = PlanRun(problem(), spec_.execution);
  DescribePlan();
  operands_->CheckMemory();
  parallel_.emplace(entry_.run->num_threads);
  if (spec_.invariance) RequireImages(problem());
  OpenOutput();
  OpenGolden();
}

void CaseRun::DescribePlan() const {
  const RunInfo& run = *entry_.run;
  console_.Detail(fmt::format("problem: {}", problem().ToLine()));
  console_.Detail(fmt::format("algorithm: {} ({}), precision {}, {}, {} threads, tiles {}",
                              run.algorithm, run.why, NameOf(run.precision), NameOf(run.isa),
                              run.num_threads, run.tiles));
  console_.Detail(fmt::format("memory: {}, {} of it scratch", FormatBytes(run.memory_bytes),
                              FormatBytes(run.scratch_bytes)));
}

void CaseRun::OpenOutput() {
  if (!spec_.output) return;
  output_target_ = ParseTensorTarget(*spec_.output, InfoOf(problem().op).result);
  if (options_.make_directories) MakeDirectoriesOf(output_target_->path.file);
  output_.emplace(output_target_->path.file, OutputFileOptions{spec_.write.no_clobber});
  // A full disk is better met now than after the computation.
  output_->Reserve(problem().ResultBytes());
}

void CaseRun::OpenGolden() {
  if (spec_.actual) {
    yours_ = Yours{spec_.actual_in_memory ? StoredInMemory(*spec_.actual_in_memory)
                                          : ReadTensor(*spec_.actual, GoldenReading()),
                   {}};
    parts_ = ReadParts(spec_, GoldenReading());
    return;
  }
  if (options_.require_golden) RequireGolden(spec_, entry_.name);
  if (!spec_.expect) return;
  if (options_.record && spec_.NamesGoldenFile()) {
    if (options_.make_directories) MakeDirectoriesOf(TensorFileOf(*spec_.expect));
    recorder_.emplace(ParseTensorTarget(*spec_.expect, InfoOf(problem().op).result),
                      *options_.record, GoldenReading());
    return;
  }
  try {
    golden_ = LoadGolden(*spec_.expect, GoldenReading());
    if (golden_->LostItsFile()) {
      console_.Note(*spec_.expect + ": there is no such file any more; the hash beside it is used");
    }
  } catch (const Error& error) {
    const bool is_unfit =
        error.exit_code() == ExitCode::kWrong || error.exit_code() == ExitCode::kData;
    if (!options_.pending || !spec_.NamesGoldenFile() || !is_unfit) throw;
    golden_error_ = error;
  }
}

NpyReadOptions CaseRun::GoldenReading() const {
  NpyReadOptions options;
  options.view_as = problem().dtype;
  options.allow_trailing = spec_.allow_trailing;
  options.max_copied_bytes = MaxCopiedBytes(spec_.execution.max_memory_bytes);
  return options;
}

void CaseRun::LoadAndCompute() {
  TimingRecord timing;
  {
    const Progress progress(console_, "reading operands");
    operands_->Load(*parallel_);
  }
  timing.load_ms = since_begin_.Milliseconds();
  const Stopwatch computing;
  const double cpu_begin = CpuMilliseconds();
  if (options_.result) {
    ComputedElsewhere computed = options_.result(*operands_, *parallel_);
    result_.computed = std::move(computed.result);
    timing.compute_ms = computed.compute_ms;
    elsewhere_ms_ = computed.total_ms;
  } else {
    const Progress progress(console_, fmt::format("computing {}", InfoOf(problem().op).name));
    result_.computed =
        Compute(problem(), operands_->first(), operands_->second(), spec_.execution, &*entry_.run);
  }
  timing.compute_ms += computing.Milliseconds();
  timing.compute_cpu_ms = CpuMilliseconds() - cpu_begin;
  timing.total_ms = elsewhere_ms_ + since_begin_.Milliseconds();
  operands_->CheckUnchanged();
  result_.written = operands_->border().Result(result_.computed, *parallel_);
  entry_.timing = timing;
}

// Against the exact values; by bits, against the reference algorithm, which rounds in the same
// order.
CheckResult CaseRun::CompareWithReference() const {
  const Tensor& first = operands_->first();
  const Tensor& second = operands_->second();
  if (spec_.compare.tolerance.kind != Tolerance::Kind::kBits) {
    return CompareToReference(problem(), first, second, result_.computed, spec_.compare,
                              *parallel_);
  }
  Execution execution = spec_.execution;
  execution.algorithm = "reference";
  const Tensor reference = Compute(problem(), first, second, execution);
  return CompareToGolden(problem(), first, second, result_.computed, reference, spec_.compare,
                         *parallel_);
}

CheckResult CaseRun::Compare() {
  if (spec_.execution.max_memory_bytes > 0) {
    int64_t& most = spec_.compare.most_scratch_bytes;
    most = std::min(most, operands_->SpareBytes());
  }
  const Tensor& first = operands_->first();
  const Tensor& second = operands_->second();
  const FilterBorder border = operands_->border();
  if (golden_) {
    if (golden_->file) golden_->tensor = border.OurResult(golden_->file->tensor, *parallel_);
    return CompareWith(*golden_, problem(), first, second, result_, spec_.compare, *parallel_);
  }
  if (!yours_) return CompareWithReference();
  yours_->tensor = border.OurResult(yours_->file.tensor, *parallel_);
  RoundOperands();
  return CompareYours(*yours_, problem(), rounded_.first.value_or(first),
                      rounded_.second.value_or(second), border.ResultShape(), spec_.compare,
                      *parallel_);
}

void CaseRun::RoundOperands() {
  if (!spec_.compare.operand_rounding) return;
  rounded_.first = RoundedThrough(*spec_.compare.operand_rounding, operands_->first(), *parallel_);
  rounded_.second =
      RoundedThrough(*spec_.compare.operand_rounding, operands_->second(), *parallel_);
}

void CaseRun::Check() {
  if (!spec_.is_checked) return;
  const Progress progress(console_, "checking");
  if (spec_.probe) {
    entry_.probe = Probe(problem(), spec_.execution, spec_.seed);
    operands_->border().Turn(*entry_.probe, *parallel_);
  }
  if (spec_.invariance) {
    entry_.invariance = yours_ ? CompareParts(problem(), yours_->file.tensor, spec_.actual_parts,
                                              parts_, *parallel_)
                               : CheckInvariance(problem(), operands_->first(), operands_->second(),
                                                 result_.computed, spec_.execution, *parallel_);
  }
  if (recorder_) return;
  if (!golden_error_) {
    entry_.check = Compare();
    if (entry_.check->status != Verdict::kPassed) Diagnose();
    operands_->border().Turn(*entry_.check, *parallel_);
  }
  if (NeedsReview()) {
    pending_errors_ = MeasureErrors(*operands_, result_, golden_, *parallel_);
  }
}

void CaseRun::Diagnose() {
  CheckResult& check = *entry_.check;
  const bool is_recorded = golden_ && golden_->record && !golden_->record->inputs.empty();
  if (check.status == Verdict::kFailed && is_recorded) {
    NameChangedInputs(*golden_->record, operands_->HashedRecords(*parallel_), check);
  }
  if (!yours_ && !(golden_ && golden_->file)) return;
  Doubted doubted = {problem(), operands_->first(), operands_->second(), result_.computed, {}};
  if (rounded_.first) {
    doubted.first = *rounded_.first;
    doubted.second = *rounded_.second;
    doubted.right.reset();
  }
  doubted.made = yours_ ? yours_->tensor : golden_->tensor;
  doubted.is_yours = yours_.has_value();
  doubted.spare_bytes = operands_->SpareBytes();
  AddDiagnosis(doubted, spec_, *parallel_, check);
}

OutputRecord DescribeResult(const Operands& operands, const Tensor& result) {
  OutputRecord record;
  const SpecialCounts counts = CountSpecial(result);
  record.special = counts;
  const bool is_known =
      counts.inf == 0 || (!HasNonFinite(operands.first()) && !HasNonFinite(operands.second()));
  if (is_known) record.overflow = counts.inf;
  return record;
}

void CaseRun::WriteResult() {
  const Progress progress(console_, "writing");
  const bool is_recorded = recorder_ && !ProbeFailed();
  if (is_recorded) recorder_->Accept(result_.written);
  // Where no thread is to be had, or none is worth its start, these run when they are asked for.
  const bool is_alone = parallel_->num_threads() == 1 ||
                        problem().OperandBytes() + problem().ResultBytes() < kThreadWorthwhileBytes;
  const auto policy = is_alone ? std::launch::deferred : std::launch::async | std::launch::deferred;
  const Deadline* deadline = CurrentDeadline();
  auto inputs = std::async(policy, [&] {
    const ScopedDeadline same_deadline(deadline);
    return options_.hash_inputs ? operands_->HashedRecords(*parallel_) : operands_->Records();
  });
  auto described = std::async(policy, [&] {
    const ScopedDeadline same_deadline(deadline);
    return DescribeResult(*operands_, result_.computed);
  });
  const Stopwatch writing;
  std::string hash;
  if (output_) {
    spec_.write.hash = options_.hash_result;
    hash = WriteTensor(*output_, *output_target_, result_.written, spec_.write);
    entry_.timing->write_ms = writing.Milliseconds();
  } else if (options_.hash_result) {
    hash = DataHash(result_.written);
  }
  entry_.inputs = inputs.get();
  if (NeedsReview()) {
    entry_.pending = LeaveForReview(*options_.pending, spec_, problem(), result_.written,
                                    entry_.inputs, pending_errors_, GoldenReading(), console_);
  }
  if (options_.hash_golden && yours_) ListYours();
  if (options_.hash_golden && golden_) ListGolden();
  if (is_recorded) {
    recorder_->Write(result_.written, problem(), spec_.execution.precision, entry_.inputs);
  }
  entry_.output = described.get();
  entry_.output->path = spec_.output;
  if (options_.hash_result) entry_.output->sha256 = hash;
  entry_.timing->total_ms = elsewhere_ms_ + since_begin_.Milliseconds();
}

bool CaseRun::ProbeFailed() const {
  const auto failed = [](const std::optional<CheckResult>& result) {
    return result && result->status != Verdict::kPassed;
  };
  return failed(entry_.probe) || failed(entry_.invariance);
}

bool CaseRun::NeedsReview() const {
  if (!options_.pending || !spec_.NamesGoldenFile() || ProbeFailed()) return false;
  return golden_error_ || ExitCodeOf(entry_.check->status, spec_.allow_suspect) != ExitCode::kOk;
}

void CaseRun::ListYours() {
  const auto list = [&](const char* role, const std::string& path, const StoredTensor& file) {
    entry_.inputs.push_back({role, path, DataHash(file.tensor), InfoOf(file.header.dtype).name,
                             file.header.fortran_order});
  };
  list(kActualRole, *spec_.actual, yours_->file);
  for (size_t i = 0; i < parts_.size(); ++i) {
    list(kActualPartRole, spec_.actual_parts[i], parts_[i]);
  }
}

void CaseRun::ListGolden() {
  if (!golden_->file && !golden_->record) return;
  InputRecord listed;
  listed.role = kGoldenRole;
  listed.path = *spec_.expect;
  if (golden_->file) {
    const TensorHeader& header = golden_->file->header;
    listed.sha256 = DataHash(golden_->file->tensor);
    listed.dtype = InfoOf(header.dtype).name;
    listed.fortran_order = header.fortran_order;
  } else {
    listed.sha256 = golden_->record->sha256;
    listed.dtype = golden_->record->dtype;
    listed.hash_only = true;
  }
  if (golden_->record) listed.record_sha256 = golden_->record->text_sha256;
  entry_.inputs.push_back(std::move(listed));
}

// The worst of what was checked decides.
void CaseRun::Conclude() {
  if (golden_error_) throw Error(*golden_error_);
  Verdict verdict = Verdict::kPassed;
  for (const auto& result : {entry_.probe, entry_.invariance, entry_.check}) {
    if (result) verdict = std::max(verdict, result->status);
  }
  entry_.status = StatusOf(verdict);
  if (!entry_.probe && !entry_.invariance && !entry_.check) entry_.status = CaseStatus::kComputed;
  if (recorder_ && verdict == Verdict::kPassed) {
    const bool is_kept = recorder_->IsKept(spec_.execution.precision, entry_.inputs);
    entry_.status = is_kept ? CaseStatus::kKept : CaseStatus::kRecorded;
  }
  entry_.exit_code = ExitCodeOf(verdict, spec_.allow_suspect);
}

void RunCase(CaseRun& run) {
  run.LoadAndCompute();
  run.Check();
  run.WriteResult();
  run.Conclude();
}

CaseStatus StatusOf(Verdict verdict) {
  switch (verdict) {
    case Verdict::kPassed: return CaseStatus::kPassed;
    case Verdict::kSuspect: return CaseStatus::kSuspect;
    case Verdict::kFailed: return CaseStatus::kFailed;
  }
  ThrowInternal("unknown verdict");
}

std::string DescribeTiming(const CaseRecord& entry) {
  const double milliseconds = entry.timing->compute_ms;
  const double gflops = static_cast<double>(entry.problem->Flops()) / milliseconds / 1e6;
  return fmt::format("{:.4g} ms, {:.4g} GFLOP/s", milliseconds, gflops);
}

std::string PythonHint(const std::string& path, DType dtype, BFloat16Form form) {
  const bool is_typed =
      form == BFloat16Form::kF4 || FormatOfName(TensorFileOf(path)) != TensorFormat::kNpy;
  if (dtype != DType::kBFloat16 || is_typed || path == "-") return "";
  return fmt::format("numpy.load('{}').view(ml_dtypes.bfloat16)", path);
}

}  // namespace convgrad::cli
