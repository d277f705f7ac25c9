#include "cli/batch/turns.h"

namespace convgrad::cli {

void ComputeGate::Enter(const CaseRecord& /*planned*/, bool alone) {
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

void ComputeGate::Leave() {
  const std::lock_guard lock(mutex_);
  running_ = running_ < 0 ? 0 : running_ - 1;
  changed_.notify_all();
}

}  // namespace convgrad::cli
