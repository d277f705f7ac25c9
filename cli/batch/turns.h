// Which cases of a batch may compute at the same time: so many small ones side by side, large ones
// alone. Must not know how a case is run.
#pragma once

#include <condition_variable>
#include <mutex>

#include "cli/report/report.h"

namespace convgrad::cli {

// Where a case asks for its turn to compute, and gives it back.
class Turns {
 public:
  virtual ~Turns() = default;
  // Waits for it. `planned`: what is known of the case before it computes; `alone`: nothing else
  // may compute meanwhile.
  virtual void Enter(const CaseRecord& planned, bool alone) = 0;
  virtual void Leave() = 0;
};

class ScopedTurn {
 public:
  ScopedTurn(Turns& turns, const CaseRecord& planned, bool alone) : turns_(turns) {
    turns_.Enter(planned, alone);
  }
  ~ScopedTurn() { turns_.Leave(); }
  ScopedTurn(const ScopedTurn&) = delete;
  ScopedTurn& operator=(const ScopedTurn&) = delete;

 private:
  Turns& turns_;
};

// Among the threads of one process. Large cases go first, else they would starve.
class ComputeGate final : public Turns {
 public:
  explicit ComputeGate(int max_side_by_side) : max_side_by_side_(max_side_by_side) {}

  void Enter(const CaseRecord& planned, bool alone) override;
  void Leave() override;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  const int max_side_by_side_;
  int running_ = 0;  // -1: one alone
  int waiting_alone_ = 0;
};

}  // namespace convgrad::cli
