#include "cli/case_run.h"

#include <fmt/format.h>

#include <ctime>
#include <future>
#include <string_view>

#include "cli/values.h"
#include "tensor/statistics.h"
#include "tensor/tensor_hash.h"

namespace convgrad::cli {
namespace {

using Clock = std::chrono::steady_clock;

double MillisecondsSince(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

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

CaseRecord& BeginCase(Session& session) {
  CaseRecord entry;
  entry.name = session.arguments.Get(FlagId::kName, session.arguments.operands().front());
  entry.repro = session.arguments.ReproLine();
  session.report.cases.push_back(entry);
  return session.report.cases.back();
}

CaseRun::CaseRun(Session& session)
    : session_(session),
      entry_(BeginCase(session)),
      begin_(Clock::now()),
      spec_(ParseCase(RequestOf(session.arguments))) {
  session.report.execution = spec_.execution;
  entry_.use_cudnn_on_gpu = spec_.use_cudnn_on_gpu;
  operands_.emplace(spec_, session.console);
  entry_.problem = problem();
  if (spec_.name.empty()) entry_.name = problem().ToLine();
  entry_.inputs = operands_->Records(/*with_hashes=*/false);
  entry_.run = PlanRun(problem(), spec_.execution);
  DescribePlan();
  operands_->CheckMemory();
  parallel_.emplace(entry_.run->num_threads);
  OpenOutput();
}

void CaseRun::DescribePlan() const {
  const RunInfo& run = *entry_.run;
  session_.console.Detail(fmt::format("problem: {}", problem().ToLine()));
  session_.console.Detail(fmt::format("algorithm: {} ({}), {}, {} threads, tiles {}", run.algorithm,
                                      run.why, NameOf(run.isa), run.num_threads, run.tiles));
  session_.console.Detail(fmt::format("memory: {}, {} of it scratch", FormatBytes(run.memory_bytes),
                                      FormatBytes(run.scratch_bytes)));
}

void CaseRun::OpenOutput() {
  if (!spec_.output) return;
  output_.emplace(*spec_.output, OutputFileOptions{spec_.write.no_clobber});
  // A full disk is better met now than after the computation.
  output_->Reserve(problem().ResultBytes());
}

void CaseRun::LoadAndCompute() {
  TimingRecord timing;
  {
    const Progress progress(session_.console, "reading operands");
    operands_->Load(*parallel_);
  }
  timing.load_ms = MillisecondsSince(begin_);
  const Clock::time_point begin = Clock::now();
  const double cpu_begin = CpuMilliseconds();
  {
    const Progress progress(session_.console,
                            fmt::format("computing {}", InfoOf(problem().op).name));
    result_ =
        Compute(problem(), operands_->first(), operands_->second(), spec_.execution, &*entry_.run);
  }
  timing.compute_ms = MillisecondsSince(begin);
  timing.compute_cpu_ms = CpuMilliseconds() - cpu_begin;
  timing.total_ms = MillisecondsSince(begin_);
  operands_->CheckUnchanged();
  entry_.timing = timing;
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
  const Progress progress(session_.console, "writing");
  const Arguments& arguments = session_.arguments;
  const bool hash_inputs = arguments.Has(FlagId::kReport) && !arguments.Has(FlagId::kNoHash);
  // Without a file, the hash is what there is to show of the result.
  const bool hash_result = hash_inputs || (!output_ && !arguments.Has(FlagId::kNoHash));
  // Where no thread is to be had, these run when they are asked for.
  const auto policy = std::launch::async | std::launch::deferred;
  auto inputs = std::async(policy, [&] { return operands_->Records(hash_inputs); });
  auto described = std::async(policy, [&] { return DescribeResult(*operands_, result_); });
  const Clock::time_point begin = Clock::now();
  std::string hash;
  if (output_) {
    spec_.write.hash = hash_result;
    hash = WriteNpy(*output_, result_, spec_.write);
    entry_.timing->write_ms = MillisecondsSince(begin);
  } else if (hash_result) {
    hash = DataHash(result_);
  }
  entry_.inputs = inputs.get();
  entry_.output = described.get();
  entry_.output->path = spec_.output;
  if (hash_result) entry_.output->sha256 = hash;
  entry_.timing->total_ms = MillisecondsSince(begin_);
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
