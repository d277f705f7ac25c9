#include "cli/bench/bench_case.h"

#include <fmt/format.h>

#include <utility>

#include "base/error.h"
#include "base/stopwatch.h"
#include "cli/bench/peaks_cache.h"
#include "cli/bench/rival.h"
#include "cli/case/case_run.h"
#include "cli/text/json.h"
#include "tensor/tensor_hash.h"
#include "verify/probe/quick_probe.h"

namespace convgrad::cli {
namespace {

// Above this share of what the machine can do, the peaks are in doubt, not what was timed.
constexpr double kMostShare = 1.05;

[[noreturn]] void ThrowWrong(const CaseRecord& entry, const std::string& why) {
  throw Error(ExitCode::kWrong, "bench/wrong-result", entry.name, why,
              "a wrong kernel is not timed; please report it");
}

Summary InMilliseconds(Summary summary) {
  for (double* value : {&summary.min, &summary.median, &summary.mean, &summary.max, &summary.stddev,
                        &summary.mad, &summary.p5, &summary.p95}) {
    *value *= 1e3;
  }
  if (summary.ci) summary.ci = Interval{1e3 * summary.ci->low, 1e3 * summary.ci->high};
  return summary;
}

}  // namespace

BenchCase::BenchCase(Session& session, const BenchSetting& setting, CaseRequest request,
                     std::string which, std::vector<std::string> tags)
    : session_(session),
      setting_(setting),
      which_(std::move(which)),
      tags_(std::move(tags)),
      request_(std::move(request)) {
  request_.command = CommandId::kBench;
  request_.flags.RemoveIf([](const FlagValues::Entry& entry) {
    return entry.id == FlagId::kThreads || !Contains(InfoOf(entry.id).commands, CommandId::kBench);
  });
  spec_ = ParseCase(request_);
}

ExitCode BenchCase::Time(int num_threads) {
  BeginEntry(num_threads);
  Prepare();
  Verify();
  Measure();
  return Conclude();
}

void BenchCase::BeginEntry(int num_threads) {
  spec_.execution.num_threads = num_threads;
  CaseRecord record;
  record.name = spec_.name;
  record.tags = tags_;
  record.repro = ShellLine(CommandWords(session_.arguments.program(), {}));
  record.filter_format = spec_.conv.filter_format;
  record.use_cudnn_on_gpu = spec_.use_cudnn_on_gpu;
  session_.report.cases.push_back(record);
}

void BenchCase::Prepare() {
  if (!operands_) operands_.emplace(spec_, session_.console);
  const Problem& problem = operands_->problem();
  entry().problem = problem;
  if (spec_.name.empty()) entry().name = problem.ToLine();
  entry().inputs = operands_->Records();
  if (!is_loaded_) operands_->CheckTensorMemory();
  entry().run = PlanRun(problem, spec_.execution);
  if (!is_loaded_) operands_->CheckMemory();
}

void BenchCase::Verify() {
  const Progress progress(session_.console, which_ + entry().name + ": verifying");
  entry().probe = QuickProbe(operands_->problem(), spec_.execution, spec_.seed);
  if (entry().probe->status != Verdict::kPassed) ThrowWrong(entry(), entry().probe->reason);
}

void BenchCase::Measure() {
  const Stopwatch since_begin;
  const Computation computation(operands_->problem(), spec_.execution);
  entry().run = computation.info();
  if (!is_loaded_) {
    const Progress progress(session_.console, which_ + entry().name + ": reading operands");
    operands_->Load(computation.parallel());
    is_loaded_ = true;
    load_ms_ = since_begin.Milliseconds();
  }
  if (setting_.options.hashes) entry().inputs = operands_->HashedRecords(computation.parallel());
  Tensor result(computation.problem().dtype, computation.problem().ResultShape());
  computation.Run(operands_->first(), operands_->second(), result);
  CheckResult(result);
  const std::string hash = DataHash(result);
  const Sampling sampling = SampleRuns(computation, result);
  if (DataHash(result) != hash) ThrowWrong(entry(), "its result changed from run to run");
  operands_->CheckUnchanged();
  if (setting_.options.hashes) {
    const Tensor written = operands_->border().Result(result, computation.parallel());
    entry().output->sha256 = DataHash(written);
  }
  RecordTiming(sampling);
  entry().timing->total_ms = load_ms_ + since_begin.Milliseconds();
  HoldAgainstRoofline(computation);
}

// Finds what small integers can't show.
void BenchCase::CheckResult(const Tensor& result) {
  entry().output = DescribeResult(*operands_, result);
  const OutputRecord& output = *entry().output;
  // Counted only where the operands are known to be finite.
  if (output.overflow && output.special.nan > 0) {
    ThrowWrong(entry(), fmt::format("finite operands gave {} NaN", output.special.nan));
  }
}

Sampling BenchCase::SampleRuns(const Computation& computation, Tensor& result) {
  const Progress progress(session_.console, which_ + entry().name + ": timing");
  std::optional<CacheEvictor> evictor;
  if (setting_.options.cold) {
    evictor.emplace(*FindKernels(computation.info().isa), computation.parallel(), DataCaches());
  }
  return Sample(
      setting_.options.sampling, SystemClock(),
      [&] { computation.Run(operands_->first(), operands_->second(), result); },
      [&] {
        if (evictor) evictor->Evict();
      });
}

void BenchCase::RecordTiming(const Sampling& sampling) {
  BenchTiming bench;
  bench.summary = InMilliseconds(sampling.summary);
  bench.warmup = sampling.warmup;
  bench.sample_iterations = sampling.sample_iterations;
  bench.iterations = sampling.iterations();
  bench.stop_reason = NameOf(sampling.stop_reason);
  bench.cache = setting_.options.cold ? "cold" : "hot";
  TimingRecord timing;
  timing.load_ms = load_ms_;
  timing.compute_ms = bench.summary.median;
  timing.compute_cpu_ms = 1e3 * sampling.cpu_seconds;
  timing.bench = bench;
  entry().timing = timing;
}

void BenchCase::HoldAgainstRoofline(const Computation& computation) {
  const RunInfo& run = computation.info();
  const auto fit = [&run](const auto& of) {
    return of.isa == run.isa && of.num_threads == run.num_threads;
  };
  const KernelTable& kernels = *FindKernels(run.isa);
  std::vector<Peaks>& known = session_.report.peaks;
  auto peaks = std::find_if(known.begin(), known.end(), fit);
  if (peaks == known.end()) {
    known.push_back(GetPeaks(kernels, computation.parallel(), setting_.options.measures_peaks_anew,
                             session_.console));
    peaks = known.end() - 1;
  }
  const auto hold = [&](CaseRecord& record) {
    record.roofline = RooflineOf(*record.problem, *peaks, setting_.options.cold);
  };
  hold(entry());
  if (entry().Share() <= kMostShare) return;
  if (!peaks->settled) {
    *peaks = RecheckPeaks(kernels, computation.parallel(), *peaks, session_.console);
    for (CaseRecord& record : session_.report.cases) {
      if (record.roofline && fit(*record.run)) hold(record);
    }
  }
  if (entry().Share() <= kMostShare) return;
  session_.console.Warn(entry().name + ": faster than the measured peaks allow");
}

std::vector<std::string> BenchCase::CommandWords(
    const std::string& program, const std::vector<FlagValues::Entry>& changes) const {
  FlagValues flags = request_.flags;
  flags.RemoveIf([](const FlagValues::Entry& entry) {
    const Flag& flag = InfoOf(entry.id);
    return !flag.in_repro || !Contains(flag.commands, CommandId::kBench);
  });
  const int num_threads = spec_.execution.num_threads;
  flags.Add({FlagId::kThreads, num_threads == 0 ? "all" : std::to_string(num_threads), "", {}});
  for (const FlagValues::Entry& change : changes) {
    flags.RemoveIf([&](const FlagValues::Entry& entry) { return entry.id == change.id; });
    flags.Add(change);
  }
  std::vector<std::string> words = FlagWords(flags, /*with_outputs=*/true);
  words.insert(words.begin(), {program, "bench"});
  words.push_back(request_.op);
  return words;
}

std::vector<std::string> BenchCase::ReportingCommand(const std::string& binary,
                                                     double seconds) const {
  return CommandWords(binary, {{FlagId::kMaxTime, fmt::format("{}", seconds), "", {}},
                               {FlagId::kReport, "-", "", {}}});
}

// Right; but is it fast enough?
ExitCode BenchCase::Conclude() {
  CaseRecord& record = entry();
  const BenchOptions& options = setting_.options;
  if (setting_.baseline) {
    record.baseline = setting_.baseline->Judge(ParseJson(RenderEntry(record)), setting_.cpu_model);
  }
  if (options.baseline_bin) {
    const Progress progress(session_.console,
                            which_ + record.name + ": against " + *options.baseline_bin);
    record.baseline_bin = CompareWithBinary(
        *options.baseline_bin,
        [this](const std::string& binary, double seconds) {
          return ReportingCommand(binary, seconds);
        },
        options.sampling, options.tolerance);
  }
  const auto is_slower = [](const std::optional<ComparisonRecord>& comparison) {
    return comparison && comparison->comparison.verdict == Change::kSlower;
  };
  record.status = CaseStatus::kPassed;
  record.exit_code = is_slower(record.baseline) || is_slower(record.baseline_bin) ? ExitCode::kSlow
                                                                                  : ExitCode::kOk;
  return record.exit_code;
}

}  // namespace convgrad::cli
