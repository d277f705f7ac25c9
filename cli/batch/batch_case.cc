#include "cli/batch/batch_case.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "base/deadline.h"
#include "base/error.h"
#include "base/parallel.h"
#include "cli/batch/part_job.h"
#include "cli/case/operands.h"
#include "cli/parts/part_run.h"
#include "cli/record/pending.h"
#include "cli/session/session.h"
#include "cli/text/json.h"
#include "conv/compute.h"
#include "files/tensor_path.h"
#include "tensor/tensor_hash.h"

namespace convgrad::cli {
namespace {

using Clock = std::chrono::steady_clock;

// Cases below it take about a millisecond of one core: starting threads for them does not pay, and
// side by side they keep all cores busy.
constexpr int64_t kOneThreadFlops = 50'000'000;

std::string IdentityHash(const ManifestCase& one, const Program& program) {
  const std::string text =
      fmt::format("{}\n{}\n{}\n{}", program.version, program.commit, program.algo, one.Identity());
  return Sha256(text.data(), static_cast<int64_t>(text.size()));
}

// How long a case may take, what others take before its turn not counted.
class CaseTime {
 public:
  explicit CaseTime(const std::optional<double>& timeout)
      : deadline_(Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                     std::chrono::duration<double>(timeout.value_or(0)))),
        scoped_(timeout ? &deadline_ : nullptr) {}

  template <class Wait>
  void Exclude(const Wait& wait) {
    const Clock::time_point asked = Clock::now();
    wait();
    deadline_ += Clock::now() - asked;
  }

 private:
  Deadline deadline_;
  ScopedDeadline scoped_;
};

std::string WhyBad(const CaseRecord& entry) {
  if (entry.error) return entry.error->message;
  if (entry.exit_code == ExitCode::kOk) return "";
  const auto failed = [](const std::optional<CheckResult>& result) {
    return result && result->status != Verdict::kPassed;
  };
  if (failed(entry.probe)) return "probe: " + entry.probe->reason;
  if (failed(entry.invariance)) return "invariance: " + entry.invariance->reason;
  return entry.check->reason;
}

}  // namespace

CaseJob JobOf(ManifestCase one, int64_t index, const Program& program) {
  std::string identity = IdentityHash(one, program);
  return {index, std::move(identity), std::move(one.request), one.count, std::move(one.tags), {}};
}

CaseRunner::CaseRunner(std::string program, const BatchOptions& options, const Console& console)
    : program_(std::move(program)), options_(options), console_(console) {}

CaseRecord CaseRunner::BeginEntry(const CaseJob& job) const {
  CaseRecord entry;
  entry.name = job.name();
  entry.index = job.index;
  entry.identity = job.identity;
  entry.tags = job.tags;
  entry.repro = CommandLineOf(program_, job.part ? RequestOfPart(job) : job.request,
                              /*with_outputs=*/false);
  if (job.part) entry.split = SplitRecordOf(job);
  return entry;
}

CaseEnding CaseRunner::EndingOf(const CaseRecord& entry) const {
  return {options_.has_entries ? RenderEntry(entry) : "",
          entry.status,
          entry.exit_code,
          WhyBad(entry),
          entry.repro,
          entry.pending ? AcceptCommand(*entry.pending) : ""};
}

CaseEnding CaseRunner::Run(const CaseJob& job, Turns& turns, const ResultSource& result) const {
  CaseRecord entry = BeginEntry(job);
  try {
    job.part ? ComputePart(job, entry, turns) : Compute(job, entry, turns, result);
  } catch (const Stopped&) {
    if (StopRequested()) throw;
    RecordError(entry, TimeoutError(*options_.timeout));
  } catch (const std::exception& exception) {
    RecordError(entry, Translate(exception));
  }
  return EndingOf(entry);
}

CaseRecord CaseRunner::Plan(const CaseJob& job) const try {
  CaseRecord entry = BeginEntry(job);
  CaseSpec spec = LimitResources(ParseCase(job.request));
  const Operands operands(spec, console_);
  entry.problem = operands.problem();
  entry.filter_format = spec.conv.filter_format;
  entry.use_cudnn_on_gpu = spec.use_cudnn_on_gpu;
  entry.inputs = operands.Records();
  if (spec.execution.num_threads == 0) {
    const bool is_small = entry.problem->Flops() < kOneThreadFlops;
    spec.execution.num_threads = is_small ? 1 : options_.num_threads;
  }
  entry.run = PlanRun(*entry.problem, spec.execution);
  entry.status = CaseStatus::kSkipped;
  entry.exit_code = ExitCode::kOk;
  return entry;
} catch (const Error& error) {
  CaseRecord entry = BeginEntry(job);
  RecordError(entry, error);
  return entry;
}

CaseSpec CaseRunner::LimitResources(CaseSpec spec) const {
  Execution& execution = spec.execution;
  execution.num_threads = std::min(execution.num_threads, options_.num_threads);
  if (execution.max_memory_bytes == 0) execution.max_memory_bytes = options_.max_memory_bytes;
  return spec;
}

CaseOptions CaseRunner::OptionsOfCases() const {
  CaseOptions options;
  options.hash_inputs = options.hash_result = options.hash_golden = options_.has_hashes;
  options.one_thread_flops = kOneThreadFlops;
  options.num_threads = options_.num_threads;
  options.record = options_.record;
  options.pending = options_.pending;
  options.make_directories = options_.make_directories;
  options.require_golden = options_.require_golden;
  options.profile_errors = options_.has_entries;
  return options;
}

void CaseRunner::Compute(const CaseJob& job, CaseRecord& entry, Turns& turns,
                         const ResultSource& result) const {
  CaseTime time(options_.timeout);
  CaseOptions case_options = OptionsOfCases();
  case_options.result = result;
  // The turn ends after the run's tensors have gone: until then they take the next one's memory.
  std::optional<ScopedTurn> turn;
  CaseRun run(LimitResources(ParseCase(job.request)), case_options, console_, entry);
  const bool is_large = entry.run->num_threads > 1;
  const bool takes_memory = entry.run->memory_bytes > options_.max_memory_bytes / options_.jobs;
  time.Exclude([&] { turn.emplace(turns, entry, is_large || takes_memory); });
  run.LoadAndCompute();
  run.Check();
  // A case of much memory keeps its turn until the result is written.
  if (!takes_memory) turn.reset();
  run.WriteResult();
  run.Conclude();
}

void CaseRunner::ComputePart(const CaseJob& job, CaseRecord& entry, Turns& turns) const {
  CaseTime time(options_.timeout);
  const CaseSpec whole = ParseCase(job.request);
  if (options_.require_golden) RequireGolden(whole, entry.name);
  // The shard knows where the result will go, and makes its directories if it may.
  if (whole.output && options_.make_directories) MakeDirectoriesOf(TensorFileOf(*whole.output));
  CaseSpec spec = LimitResources(ParseCase(RequestOfPart(job)));
  if (spec.execution.num_threads == 0) spec.execution.num_threads = options_.num_threads;
  std::optional<ScopedTurn> turn;
  PartRun run(std::move(spec), job.part->path, nullptr, console_, entry);
  time.Exclude([&] { turn.emplace(turns, entry, /*alone=*/true); });
  run.Run();
}

Error TimeoutError(double timeout) {
  return Error(ExitCode::kIo, kTimeoutCode, fmt::format("--timeout {}s", timeout),
               "the case took longer", "give it more time or more threads");
}

std::string WithEnding(const std::string& entry, std::string_view ended) {
  Json json = ParseJson(entry);
  const Json end = ParseJson(ended);
  for (const auto& [key, value] : end.items()) {
    const bool is_ending = key == "status" || key == "exit_code" || key.starts_with("error");
    if (is_ending) json[key] = value;
  }
  return DumpJson(json);
}

std::string CommandLineOf(const std::string& program, const CaseRequest& request,
                          bool with_outputs) {
  std::vector<std::string> words = FlagWords(request.flags, with_outputs);
  words.insert(words.begin(), {program, InfoOf(request.command).name, request.op});
  return ShellLine(words);
}

}  // namespace convgrad::cli
