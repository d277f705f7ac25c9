#include "cli/batch/batch.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <latch>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/stopwatch.h"
#include "cli/batch/batch_case.h"
#include "cli/batch/journal.h"
#include "cli/batch/part_job.h"
#include "cli/batch/resume.h"
#include "cli/batch/turns.h"
#include "cli/batch/worker_pool.h"
#include "cli/page/page_data.h"

namespace convgrad::cli {
namespace {

// How far cases may finish ahead of the slowest one. Bounds what waits to be written in order.
constexpr int64_t kMaxAhead = 4096;

struct Work {
  int64_t position = 0;  // among those that run
  int64_t index = 0;     // in the plan
  ManifestCase one;
};

struct Finished {
  CaseEnding ending;
  bool resumed = false;
};

class BatchRun {
 public:
  BatchRun(Session& session, const ManifestFile& file, const ManifestOptions& manifest,
           const CaseSelection& selection, const ManifestPlan& plan, const BatchOptions& options,
           BatchTally& tally)
      : session_(session),
        console_(session.console.WithoutProgress()),
        options_(options),
        runner_(session.arguments.program(), options, console_),
        num_cases_(NumRun(plan, options)),
        gate_(options.num_threads),
        reader_(file, manifest),
        selection_(selection),
        tally_(tally) {
    const std::string shard = session.report.plan->shard.value_or("");
    if (options.events) journal_.emplace(*options.events, shard);
    if (options.resume) earlier_.emplace(*options.events);
    if (options.isolate) workers_.emplace(session.arguments.words(), options, runner_);
  }

  void Run() {
    const Progress progress(session_.console, [this] { return DescribeProgress(); });
    std::vector<std::thread> threads;
    // A worker ends with the thread that started it, and may be in use by another to the last case.
    std::latch all_done(options_.jobs);
    const auto work = [this, &all_done] {
      WorkUntilDone();
      all_done.arrive_and_wait();
    };
    try {
      for (int k = 1; k < options_.jobs; ++k) threads.emplace_back(work);
    } catch (const std::system_error&) {
      // Fewer threads than wished for are enough.
      all_done.count_down(options_.jobs - 1 - static_cast<int>(threads.size()));
    }
    work();
    for (std::thread& thread : threads) thread.join();
    if (failure_) std::rethrow_exception(failure_);
    if (StopRequested()) throw Stopped{};
  }

 private:
  void WorkUntilDone() {
    const ScopedFpEnvironment environment;
    try {
      while (std::optional<Work> work = Take()) {
        const CaseJob job = JobAt(std::move(*work));
        Finish(work->position, job, RunOne(job));
      }
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

  CaseJob JobAt(Work work) const {
    CaseJob job = JobOf(std::move(work.one), work.index);
    const auto part = options_.parts.find(work.index);
    if (part == options_.parts.end()) return job;
    return PartOf(std::move(job), part->second, PartPathOf(*options_.split_beside, work.index));
  }

  int64_t NextToWrite() const {
    return session_.report_writer ? session_.report_writer->next_position() : next_position_;
  }

  std::optional<ResumedEntry> Resume(const CaseJob& job) const {
    if (!earlier_) return std::nullopt;
    if (job.part) {
      const auto line = earlier_->Find(job.identity);
      return line ? ResumePart(*line, job, console_) : std::nullopt;
    }
    const CaseSpec spec = ParseCase(job.request);
    // A golden is recorded even if its case passed before.
    if (options_.record && spec.NamesGoldenFile()) return std::nullopt;
    if (options_.require_golden && !spec.expect && !spec.actual) return std::nullopt;
    const auto line = earlier_->Find(job.identity);
    auto resumed = line ? ResumeFrom(*line, spec, job.index) : std::nullopt;
    // Only the result itself can be left for review.
    const bool needs_result = options_.pending && resumed && resumed->exit_code != ExitCode::kOk;
    return needs_result ? std::nullopt : resumed;
  }

  Finished RunOne(const CaseJob& job) {
    if (auto resumed = Resume(job)) {
      return {{std::move(resumed->text), resumed->status, resumed->exit_code}, true};
    }
    return {workers_ ? workers_->Run(job, gate_) : runner_.Run(job, gate_)};
  }

  void Finish(int64_t position, const CaseJob& job, Finished finished) {
    const std::lock_guard lock(mutex_);
    CaseEnding& ending = finished.ending;
    if (journal_ && !finished.resumed) journal_->Add(ending.text);
    tally_.resumed += finished.resumed ? 1 : 0;
    Count(job, ending);
    if (session_.outcome_reports) session_.outcome_reports->Add(ending.text);
    if (session_.page) session_.page->Add(ending.text);
    if (session_.report_writer) {
      session_.report_writer->Add(position, std::move(ending.text));
      advanced_.notify_all();
    }
  }

  void Count(const CaseJob& job, const CaseEnding& ending) {
    ++tally_.count[static_cast<size_t>(ending.status)];
    tally_.calls[static_cast<size_t>(ending.status)] += job.count;
    tally_.worst = Worse(tally_.worst, ending.exit_code);
    if (ending.exit_code == ExitCode::kOk) return;
    if (options_.fail_fast) is_over_ = true;
    tally_.bad.Add({job.index, NameOf(ending.status), job.name(), ending.why, ending.accept,
                    ending.repro, job.request.flags.place().line});
  }

  std::string DescribeProgress() {
    const std::lock_guard lock(mutex_);
    const double elapsed = since_begin_.Seconds();
    const int64_t done = tally_.total();
    const double left =
        done == 0 ? 0
                  : elapsed * static_cast<double>(num_cases_ - done) / static_cast<double>(done);
    return fmt::format("{} of {} cases, {} not right, {:.0f} s, {:.0f} s to go", done, num_cases_,
                       tally_.bad.count(), elapsed, left);
  }

  Session& session_;
  const Console console_;
  const Stopwatch since_begin_;
  const BatchOptions& options_;
  const CaseRunner runner_;
  const int64_t num_cases_;
  ComputeGate gate_;
  std::optional<WorkerPool> workers_;

  // Guards everything below.
  std::mutex mutex_;
  std::condition_variable advanced_;
  ManifestReader reader_;
  const CaseSelection& selection_;
  int64_t next_position_ = 0;
  int64_t next_index_ = 0;
  std::optional<JournalIndex> earlier_;
  std::optional<Journal> journal_;
  BatchTally& tally_;
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

void RunBatch(Session& session, const ManifestFile& file, const ManifestOptions& manifest,
              const CaseSelection& selection, const ManifestPlan& plan, const BatchOptions& options,
              BatchTally& tally) {
  BatchRun(session, file, manifest, selection, plan, options, tally).Run();
  file.CheckUnchanged();
}

}  // namespace convgrad::cli
