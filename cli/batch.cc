#include "cli/batch.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "cli/case_run.h"
#include "cli/journal.h"
#include "cli/machine.h"
#include "cli/resume.h"
#include "conv/canonical_order.h"
#include "tensor/tensor_hash.h"

namespace convgrad::cli {
namespace {

using Clock = std::chrono::steady_clock;

// Cases below it take about a millisecond of one core: starting threads for them does not pay, and
// side by side they keep all cores busy.
constexpr int64_t kOneThreadFlops = 50'000'000;
// How far cases may finish ahead of the slowest one. Bounds what waits to be written in order.
constexpr int64_t kMaxAhead = 4096;
constexpr int64_t kShownBad = 20;

// Lets so many small cases compute side by side and large ones alone. Large ones go first, else
// they would starve.
class ComputeGate {
 public:
  explicit ComputeGate(int max_side_by_side) : max_side_by_side_(max_side_by_side) {}

  void Enter(bool alone) {
    std::unique_lock lock(mutex_);
    if (alone) {
      ++waiting_alone_;
      changed_.wait(lock, [this] { return running_ == 0; });
      --waiting_alone_;
      running_ = -1;
    } else {
      changed_.wait(lock, [this] {
        return running_ >= 0 && running_ < max_side_by_side_ && waiting_alone_ == 0;
      });
      ++running_;
    }
  }

  void Leave() {
    const std::lock_guard lock(mutex_);
    running_ = running_ < 0 ? 0 : running_ - 1;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  const int max_side_by_side_;
  int running_ = 0;  // -1: one alone
  int waiting_alone_ = 0;
};

class ScopedCompute {
 public:
  ScopedCompute(ComputeGate& gate, bool alone) : gate_(gate) { gate_.Enter(alone); }
  ~ScopedCompute() { gate_.Leave(); }
  ScopedCompute(const ScopedCompute&) = delete;
  ScopedCompute& operator=(const ScopedCompute&) = delete;

 private:
  ComputeGate& gate_;
};

// What decides a case's result, together with the program that computes it.
std::string IdentityHash(const ManifestCase& one) {
  const std::string text =
      fmt::format("{}\n{}\n{}\n{}", kBuild.version, kBuild.commit, kAlgo, one.Identity());
  return Sha256(text.data(), static_cast<int64_t>(text.size()));
}

struct Work {
  int64_t position = 0;  // among those that run
  int64_t index = 0;     // in the plan
  ManifestCase one;
};

// A case that has ended, as the report and the journal have it.
struct Finished {
  std::string name;
  std::string text;
  CaseStatus status = CaseStatus::kError;
  ExitCode exit_code = ExitCode::kInternal;
  std::string why;  // it is not right
  std::string repro;
  bool resumed = false;
};

class BatchRun {
 public:
  BatchRun(Session& session, const ManifestFile& file, const ManifestOptions& manifest,
           const CaseSelection& selection, const ManifestPlan& plan, const BatchOptions& options)
      : session_(session),
        console_(session.console.WithoutProgress()),
        options_(options),
        num_cases_(NumRun(plan, options)),
        gate_(options.num_threads),
        reader_(file, manifest),
        selection_(selection) {
    if (options.resume) earlier_.emplace(*options.events);
    if (options.events) journal_.emplace(*options.events);
  }

  BatchTally Run() {
    const Progress progress(session_.console, [this] { return DescribeProgress(); });
    std::vector<std::thread> threads;
    try {
      for (int k = 1; k < options_.jobs; ++k) threads.emplace_back([this] { WorkUntilDone(); });
    } catch (const std::system_error&) {
      // Fewer threads than wished for are enough.
    }
    WorkUntilDone();
    for (std::thread& thread : threads) thread.join();
    if (failure_) std::rethrow_exception(failure_);
    if (StopRequested()) throw Stopped{};
    return std::move(tally_);
  }

 private:
  void WorkUntilDone() {
    const ScopedFpEnvironment environment;
    try {
      while (const std::optional<Work> work = Take()) Finish(*work, RunOne(*work));
    } catch (const Stopped&) {
      Abandon(nullptr);
    } catch (...) {
      Abandon(std::current_exception());
    }
  }

  void Abandon(std::exception_ptr failure) {
    const std::lock_guard lock(mutex_);
    if (!failure_) failure_ = std::move(failure);
    is_over_ = true;
    advanced_.notify_all();
  }

  // The next case; none when no more is to be begun.
  std::optional<Work> Take() {
    std::unique_lock lock(mutex_);
    while (!is_over_ && !StopRequested() && next_position_ >= NextToWrite() + kMaxAhead) {
      advanced_.wait_for(lock, std::chrono::milliseconds(100));
    }
    while (!is_over_ && !StopRequested()) {
      std::optional<ManifestCase> one = reader_.Next();
      if (!one) break;
      if (!selection_(*one)) continue;
      const int64_t index = next_index_++;
      if (options_.Runs(index)) return Work{next_position_++, index, std::move(*one)};
    }
    is_over_ = true;
    return std::nullopt;
  }

  int64_t NextToWrite() const {
    return session_.report_writer ? session_.report_writer->next_position() : next_position_;
  }

  Finished RunOne(const Work& work) {
    CaseSpec spec = ParseCase(work.one.request);
    const std::string identity = IdentityHash(work.one);
    // A golden is recorded even if its case passed before.
    if (earlier_ && !(options_.record && spec.NamesGoldenFile())) {
      if (const auto line = earlier_->Find(identity)) {
        if (const auto resumed = ResumeFrom(*line, spec, work.index)) {
          return {spec.name, resumed->text, resumed->status, resumed->exit_code, "", "", true};
        }
      }
    }
    CaseRecord entry;
    entry.name = spec.name;
    entry.index = work.index;
    entry.identity = identity;
    entry.repro = CommandLineOf(session_.arguments.program(), work.one.request, false);
    try {
      Compute(LimitResources(std::move(spec)), entry);
    } catch (const std::exception& exception) {
      const Error error = Translate(exception);
      RecordError(entry, error);
      console_.Fail(Error(error.exit_code(), error.code(), entry.name, error.message()));
    }
    const bool is_shown = journal_ || session_.report_writer || session_.outcome_reports;
    return {entry.name,       is_shown ? RenderEntry(entry) : "",
            entry.status,     entry.exit_code,
            WhyBad(entry),    entry.repro,
            /*resumed=*/false};
  }

  CaseSpec LimitResources(CaseSpec spec) const {
    Execution& execution = spec.execution;
    execution.num_threads = std::min(execution.num_threads, options_.num_threads);
    if (execution.max_memory_bytes == 0) execution.max_memory_bytes = options_.max_memory_bytes;
    return spec;
  }

  void Compute(CaseSpec spec, CaseRecord& entry) {
    CaseOptions case_options;
    case_options.hash_inputs = case_options.hash_result = case_options.hash_golden =
        options_.has_hashes;
    case_options.one_thread_flops = kOneThreadFlops;
    case_options.num_threads = options_.num_threads;
    case_options.record = options_.record;
    CaseRun run(std::move(spec), case_options, console_, entry);
    const bool is_large = entry.run->num_threads > 1;
    const bool takes_memory = entry.run->memory_bytes > options_.max_memory_bytes / options_.jobs;
    std::optional<ScopedCompute> scoped(std::in_place, gate_, is_large || takes_memory);
    run.LoadAndCompute();
    run.Check();
    // What takes much memory keeps it until it is written.
    if (!takes_memory) scoped.reset();
    run.WriteResult();
    run.Conclude();
  }

  static std::string WhyBad(const CaseRecord& entry) {
    if (entry.error) return entry.error->message;
    if (entry.exit_code == ExitCode::kOk) return "";
    const bool probe_failed = entry.probe && entry.probe->status != Verdict::kPassed;
    return probe_failed ? "probe: " + entry.probe->reason : entry.check->reason;
  }

  void Finish(const Work& work, Finished finished) {
    const std::lock_guard lock(mutex_);
    if (journal_ && !finished.resumed) journal_->Add(finished.text);
    Count(finished);
    if (session_.outcome_reports) session_.outcome_reports->Add(finished.text);
    if (session_.report_writer) {
      session_.report_writer->Add(work.position, std::move(finished.text));
      advanced_.notify_all();
    }
  }

  void Count(const Finished& finished) {
    ++tally_.count[static_cast<size_t>(finished.status)];
    tally_.resumed += finished.resumed ? 1 : 0;
    tally_.worst = Worse(tally_.worst, finished.exit_code);
    if (finished.exit_code == ExitCode::kOk) return;
    if (options_.fail_fast) is_over_ = true;
    if (++tally_.bad_count > kShownBad) return;
    tally_.bad += fmt::format("{}  {}\n", NameOf(finished.status), EscapeControls(finished.name));
    if (!finished.why.empty()) tally_.bad += fmt::format("  reason   {}\n", finished.why);
    if (!finished.repro.empty()) tally_.bad += fmt::format("  repeat   {}\n", finished.repro);
  }

  std::string DescribeProgress() {
    const std::lock_guard lock(mutex_);
    const std::chrono::duration<double> elapsed = Clock::now() - begin_;
    const int64_t done = tally_.total();
    const double left = done == 0 ? 0
                                  : elapsed.count() * static_cast<double>(num_cases_ - done) /
                                        static_cast<double>(done);
    return fmt::format("{} of {} cases, {} not right, {:.0f} s, {:.0f} s to go", done, num_cases_,
                       tally_.bad_count, elapsed.count(), left);
  }

  Session& session_;
  const Console console_;
  const Clock::time_point begin_ = Clock::now();
  const BatchOptions& options_;
  const int64_t num_cases_;
  ComputeGate gate_;

  // Guards everything below.
  std::mutex mutex_;
  std::condition_variable advanced_;
  ManifestReader reader_;
  const CaseSelection& selection_;
  int64_t next_position_ = 0;
  int64_t next_index_ = 0;
  std::optional<JournalIndex> earlier_;
  std::optional<Journal> journal_;
  BatchTally tally_;
  bool is_over_ = false;
  std::exception_ptr failure_;
};

}  // namespace

int64_t NumRun(const ManifestPlan& plan, const BatchOptions& options) {
  if (options.of_shard.empty()) return plan.num_selected;
  return std::count(options.of_shard.begin(), options.of_shard.end(), true);
}

int64_t BatchTally::total() const {
  int64_t sum = 0;
  for (const int64_t one : count) sum += one;
  return sum;
}

BatchTally RunBatch(Session& session, const ManifestFile& file, const ManifestOptions& manifest,
                    const CaseSelection& selection, const ManifestPlan& plan,
                    const BatchOptions& options) {
  BatchTally tally = BatchRun(session, file, manifest, selection, plan, options).Run();
  file.CheckUnchanged();
  return tally;
}

std::string CommandLineOf(const std::string& program, const CaseRequest& request,
                          bool with_outputs) {
  return fmt::format("{} {} {}{}", ShellQuote(program), InfoOf(request.command).name,
                     ShellQuote(request.op), ShellFlags(request.flags, with_outputs));
}

}  // namespace convgrad::cli
