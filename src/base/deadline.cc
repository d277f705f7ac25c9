#include "base/deadline.h"

#include "base/parallel.h"

namespace convgrad {
namespace {

thread_local const Deadline* current_deadline = nullptr;

}  // namespace

const Deadline* CurrentDeadline() {
  return current_deadline;
}

ScopedDeadline::ScopedDeadline(const Deadline* deadline) : saved_(current_deadline) {
  current_deadline = deadline;
}

ScopedDeadline::~ScopedDeadline() {
  current_deadline = saved_;
}

bool MustEnd() {
  if (StopRequested()) return true;
  return current_deadline != nullptr && std::chrono::steady_clock::now() >= *current_deadline;
}

}  // namespace convgrad
