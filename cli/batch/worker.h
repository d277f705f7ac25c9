// A process that runs cases of a batch one after the other, seen from the batch: whatever becomes
// of it costs the case that it ran. Must not know how a case is run.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cli/batch/batch_case.h"
#include "cli/batch/turns.h"

namespace convgrad::cli {

class Worker {
 public:
  // Starts the process. `words`: of the batch's command line, which its workers read too. `options`
  // and `runner` must outlive this. Throws I/O errors.
  Worker(const std::vector<std::string>& words, const BatchOptions& options,
         const CaseRunner& runner);
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // False once the process has ended.
  bool is_running() const { return process_ != nullptr; }

  // So that the destructor need not wait long.
  void AskToEnd() const;

  // As CaseRunner::Run, in the process, which must be running.
  CaseEnding Run(const CaseJob& job, Turns& turns);

 private:
  class Process;
  class Conversation;

  CaseEnding Bury(const CaseJob& job, const Conversation& conversation);
  void RemoveTemporaryFiles(int pid, const CaseJob& job) const;

  const BatchOptions& options_;
  const CaseRunner& runner_;
  std::unique_ptr<Process> process_;  // null: it has ended
};

}  // namespace convgrad::cli
