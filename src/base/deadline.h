// A time by which a piece of work has to end. Past it, whatever would stop the work because the
// process is asked to end stops it too. Must not know what works.
#pragma once

#include <chrono>

namespace convgrad {

using Deadline = std::chrono::steady_clock::time_point;

// The deadline of this thread's work, or null. Parallel::For hands it on to the threads that help.
const Deadline* CurrentDeadline();

// While it lives, this thread works under `deadline` (null: under none), which must live as long.
class ScopedDeadline {
 public:
  explicit ScopedDeadline(const Deadline* deadline);
  ~ScopedDeadline();
  ScopedDeadline(const ScopedDeadline&) = delete;
  ScopedDeadline& operator=(const ScopedDeadline&) = delete;

 private:
  const Deadline* const saved_;
};

// True if this thread's work has to end now: its deadline has passed, or the process was asked to
// end.
bool MustEnd();

}  // namespace convgrad
