#include "cli/case/case_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <future>
#include <utility>

#include "base/deadline.h"
#include "base/resources.h"
#include "cli/record/pending.h"
#include "tensor/statistics.h"
#include "tensor/tensor_hash.h"
#include "verify/diagnosis/diagnosis.h"
#include "verify/probe/probe.h"

namespace convgrad::cli {
namespace {

using Clock = std::chrono::steady_clock;

// Hashed in half a millisecond.
constexpr int64_t kThreadWorthwhileBytes = int64_t{1} << 20;

double MillisecondsSince(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

// Time on CPUs, of all threads of the process.
double CpuMilliseconds() {
  timespec time = {};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_nsec) / 1e6;
}

[[noreturn]] void ThrowNoGolden(const std::string& name) {
  throw Error(ExitCode::kWrong, "golden/none", name, "the case names no golden in expect",
              "name one and record it, or leave --require-golden out");
}

bool HasNonFinite(const Tensor& tensor) {
  const SpecialCounts counts = CountSpecial(tensor);
  return counts.nan + counts.inf > 0;
}

}  // namespace

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
  options.hash_inputs = hashes && arguments.Has(FlagId::kReport);
  // Without a file, the hash is what there is to show of the result.
  options.hash_result = hashes && (options.hash_inputs || !arguments.Has(FlagId::kOutput));
  return options;
}

CaseRun::CaseRun(CaseSpec spec, const CaseOptions& options, const Console& console,
                 CaseRecord& entry)
    : begin_(Clock::now()),
      spec_(std::move(spec)),
      options_(options),
      console_(console),
      entry_(entry) {
  entry_.use_cudnn_on_gpu = spec_.use_cudnn_on_gpu;
  entry_.filter_format = spec_.conv.filter_format;
  operands_.emplace(spec_, console_);
  entry_.problem = problem();
  if (spec_.name.empty()) entry_.name = problem().ToLine();
  entry_.inputs = operands_->Records();
  if (spec_.execution.num_threads == 0) {
    const bool is_small = problem().Flops() < options_.one_thread_flops;
    spec_.execution.num_threads = is_small ? 1 : options_.num_threads;
  }
  entry_.run = PlanRun(problem(), spec_.execution);
  DescribePlan();
  operands_->CheckMemory();
  parallel_.emplace(entry_.run->num_threads);
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
  output_.emplace(*spec_.output, OutputFileOptions{spec_.write.no_clobber});
  // A full disk is better met now than after the computation.
  output_->Reserve(problem().ResultBytes());
}

void CaseRun::OpenGolden() {
  if (!spec_.expect) {
    if (options_.require_golden) ThrowNoGolden(entry_.name);
    return;
  }
  if (options_.record && spec_.NamesGoldenFile()) {
    recorder_.emplace(*spec_.expect, *options_.record, GoldenReading());
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
  timing.load_ms = MillisecondsSince(begin_);
  const Clock::time_point begin = Clock::now();
  const double cpu_begin = CpuMilliseconds();
  {
    const Progress progress(console_, fmt::format("computing {}", InfoOf(problem().op).name));
    result_.computed =
        Compute(problem(), operands_->first(), operands_->second(), spec_.execution, &*entry_.run);
  }
  timing.compute_ms = MillisecondsSince(begin);
  timing.compute_cpu_ms = CpuMilliseconds() - cpu_begin;
  timing.total_ms = MillisecondsSince(begin_);
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

void CaseRun::Check() {
  if (!spec_.is_checked) return;
  const Progress progress(console_, "checking");
  if (spec_.probe) {
    entry_.probe = Probe(problem(), spec_.execution, spec_.seed);
    operands_->border().Turn(*entry_.probe, *parallel_);
  }
  if (recorder_ || golden_error_) return;
  TakeGolden();
  entry_.check = golden_ ? CompareWith(*golden_, problem(), operands_->first(), operands_->second(),
                                       result_, spec_.compare, *parallel_)
                         : CompareWithReference();
  if (entry_.check->status == Verdict::kFailed) NameChangedInputs();
  if (entry_.check->status != Verdict::kPassed) DiagnoseGolden();
  operands_->border().Turn(*entry_.check, *parallel_);
}

// A filter of another shape stays as it is: nothing is compared with it.
void CaseRun::TakeGolden() {
  if (!golden_ || !golden_->file) return;
  golden_->tensor = golden_->file->tensor;
  const FilterBorder border = operands_->border();
  if (!border.ChangesResult() || golden_->tensor.shape() != border.ResultShape()) return;
  golden_->tensor = border.Ours(golden_->tensor, *parallel_);
}

void CaseRun::DiagnoseGolden() {
  if (!golden_ || !golden_->file || entry_.check->policy == "none") return;
  WrongGolden wrong = {problem(),        operands_->first(), operands_->second(),
                       result_.computed, golden_->tensor,    spec_.compare.golden_accumulator};
  // A few seconds beside a comparison that took none, a minute beside one that did.
  constexpr int64_t kQuickTerms = int64_t{1} << 30, kMostTerms = int64_t{1} << 34;
  const bool was_quick =
      spec_.compare.tolerance.kind != Tolerance::Kind::kAuto || entry_.check->policy == "bits";
  wrong.max_terms = was_quick ? kQuickTerms : kMostTerms;
  const int64_t limit = spec_.execution.max_memory_bytes;
  wrong.spare_bytes = limit > 0 ? limit - entry_.run->memory_bytes : AvailableMemory() / 5 * 4;
  std::optional<Diagnosis> diagnosis = Diagnose(wrong, *parallel_);
  // By the data, a right golden passes: then our own result is what failed, and the detail says so.
  if (!was_quick && diagnosis && diagnosis->hypothesis == kRightGolden) return;
  entry_.check->diagnosis = std::move(diagnosis);
}

// A golden of other inputs says nothing about this result.
void CaseRun::NameChangedInputs() {
  if (!golden_ || !golden_->record || golden_->record->inputs.empty()) return;
  std::string changed;
  for (const RecordedInput& now : RecordedInputsOf(operands_->HashedRecords(*parallel_))) {
    for (const RecordedInput& then : golden_->record->inputs) {
      if (then.role != now.role || then.sha256 == now.sha256) continue;
      changed += (changed.empty() ? "" : ", ") + now.role;
    }
  }
  if (changed.empty()) return;
  std::string& detail = entry_.check->detail;
  detail += fmt::format("{}not what they were when the golden was recorded: {}",
                        detail.empty() ? "" : "; ", changed);
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
  const Clock::time_point begin = Clock::now();
  std::string hash;
  if (output_) {
    spec_.write.hash = options_.hash_result;
    hash = WriteNpy(*output_, result_.written, spec_.write);
    entry_.timing->write_ms = MillisecondsSince(begin);
  } else if (options_.hash_result) {
    hash = DataHash(result_.written);
  }
  entry_.inputs = inputs.get();
  if (NeedsReview()) WritePending();
  if (options_.hash_golden && golden_) ListGolden();
  if (is_recorded)
    recorder_->Write(result_.written, problem(), spec_.execution.precision, entry_.inputs);
  entry_.output = described.get();
  entry_.output->path = spec_.output;
  if (options_.hash_result) entry_.output->sha256 = hash;
  entry_.timing->total_ms = MillisecondsSince(begin_);
}

bool CaseRun::ProbeFailed() const {
  return entry_.probe && entry_.probe->status != Verdict::kPassed;
}

bool CaseRun::NeedsReview() const {
  if (!options_.pending || !spec_.NamesGoldenFile() || ProbeFailed()) return false;
  return golden_error_ || ExitCodeOf(entry_.check->status, spec_.strict) != ExitCode::kOk;
}

void CaseRun::WritePending() {
  const std::string path = PendingPath(*options_.pending, spec_.golden_name);
  MakePendingPlace(*options_.pending, spec_.golden_name);
  RecordOptions record;
  record.force = record.allow_non_finite = true;
  GoldenRecorder recorder(path, record, GoldenReading());
  recorder.Accept(result_.written);
  recorder.Write(result_.written, problem(), spec_.execution.precision, entry_.inputs);
  entry_.pending = {path, *spec_.expect};
}

void CaseRun::ListGolden() {
  if (!golden_->file && !golden_->record) return;
  InputRecord listed;
  listed.role = kGoldenRole;
  listed.path = *spec_.expect;
  if (golden_->file) {
    const NpyHeader& header = golden_->file->header;
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
  if (golden_error_) throw *golden_error_;
  Verdict verdict = Verdict::kPassed;
  for (const auto& result : {entry_.probe, entry_.check}) {
    if (result) verdict = std::max(verdict, result->status);
  }
  entry_.status = StatusOf(verdict);
  if (!entry_.probe && !entry_.check) entry_.status = CaseStatus::kComputed;
  if (recorder_ && verdict == Verdict::kPassed) entry_.status = CaseStatus::kRecorded;
  entry_.exit_code = ExitCodeOf(verdict, spec_.strict);
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
  if (dtype != DType::kBFloat16 || form == BFloat16Form::kF4 || path == "-") return "";
  return fmt::format("numpy.load('{}').view(ml_dtypes.bfloat16)", path);
}

}  // namespace convgrad::cli
