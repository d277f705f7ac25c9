#include "cli/batch/worker_pool.h"

#include <chrono>
#include <utility>

#include "base/file.h"

namespace convgrad::cli {
namespace {

constexpr std::chrono::milliseconds kSignalCheck(100);

}  // namespace

// A worker that goes back however its case ends.
class WorkerPool::Lease {
 public:
  explicit Lease(WorkerPool& pool) : pool_(pool), worker_(pool.Acquire()) {}
  ~Lease() { pool_.Release(std::move(worker_)); }
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;

  // A worker that was left in the middle of a case can't take another.
  CaseEnding Run(const CaseJob& job, Turns& turns) try {
    return worker_->Run(job, turns);
  } catch (...) {
    worker_.reset();
    throw;
  }

 private:
  WorkerPool& pool_;
  std::unique_ptr<Worker> worker_;
};

WorkerPool::WorkerPool(const std::vector<std::string>& words, const BatchOptions& options,
                       const CaseRunner& runner)
    : words_(words), options_(options), runner_(runner) {}

// All at the same time.
WorkerPool::~WorkerPool() {
  for (const auto& worker : idle_) worker->AskToEnd();
}

CaseEnding WorkerPool::Run(const CaseJob& job, Turns& turns) {
  return Lease(*this).Run(job, turns);
}

std::unique_ptr<Worker> WorkerPool::Acquire() {
  std::unique_lock lock(mutex_);
  for (;;) {
    if (!idle_.empty()) {
      std::unique_ptr<Worker> worker = std::move(idle_.back());
      idle_.pop_back();
      ++num_in_use_;
      return worker;
    }
    if (can_start_ || num_in_use_ == 0) {
      if (auto worker = StartOne(lock)) return worker;
    }
    RetryUnlessStopped();
    changed_.wait_for(lock, kSignalCheck);
  }
}

// None where others are enough.
std::unique_ptr<Worker> WorkerPool::StartOne(std::unique_lock<std::mutex>& lock) {
  ++num_in_use_;
  lock.unlock();
  try {
    auto worker = std::make_unique<Worker>(words_, options_, runner_);
    lock.lock();
    return worker;
  } catch (...) {
    lock.lock();
    --num_in_use_;
    can_start_ = false;
    changed_.notify_all();
    if (num_in_use_ == 0 && idle_.empty()) throw;
    return nullptr;
  }
}

void WorkerPool::Release(std::unique_ptr<Worker> worker) {
  const std::lock_guard lock(mutex_);
  --num_in_use_;
  if (worker && worker->is_running()) {
    idle_.push_back(std::move(worker));
  } else {
    can_start_ = true;
  }
  changed_.notify_all();
}

}  // namespace convgrad::cli
