// A process that runs cases of a batch one after the other, seen from the batch: whatever becomes
// of it costs the case that it ran, and the next case gets a new one. Must not know how a case is
// run.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "cli/batch/batch_case.h"
#include "cli/batch/turns.h"

namespace convgrad::cli {

class Worker {
 public:
  // `words`: of the batch's command line, which its workers read too. `options` and `runner` must
  // outlive this.
  Worker(const std::vector<std::string>& words, const BatchOptions& options,
         const CaseRunner& runner);
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // As CaseRunner::Run, in the process. Throws I/O errors where none can be started.
  CaseEnding Run(const CaseJob& job, Turns& turns);

 private:
  class Process;
  class Conversation;

  CaseEnding Bury(const CaseJob& job, const Conversation& conversation);
  void RemoveTemporaryFiles(int pid, const CaseJob& job) const;

  const std::vector<std::string>& words_;
  const BatchOptions& options_;
  const CaseRunner& runner_;
  std::unique_ptr<Process> process_;  // null: none yet, or it has ended
};

}  // namespace convgrad::cli
