// The workers of a batch, as many as run cases at the same time, or as can be started. Must not
// know how one works.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cli/batch/worker.h"

namespace convgrad::cli {

class WorkerPool {
 public:
  // As Worker.
  WorkerPool(const std::vector<std::string>& words, const BatchOptions& options,
             const CaseRunner& runner);
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  // Runs the case in a worker that no other case has: one that is idle, or a new one, or, where
  // none can be started, the next one that another case leaves. Throws I/O errors if there is not
  // even one. A worker ends with the thread that started it: each thread that calls this must live
  // until the last case has ended.
  CaseEnding Run(const CaseJob& job, Turns& turns);

 private:
  class Lease;

  std::unique_ptr<Worker> Acquire();
  std::unique_ptr<Worker> StartOne(std::unique_lock<std::mutex>& lock);
  void Release(std::unique_ptr<Worker> worker);

  const std::vector<std::string>& words_;
  const BatchOptions& options_;
  const CaseRunner& runner_;

  // Guards everything below.
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::unique_ptr<Worker>> idle_;
  int num_in_use_ = 0;     // or being started
  bool can_start_ = true;  // false: the last attempt failed, and no worker has ended since
};

}  // namespace convgrad::cli
