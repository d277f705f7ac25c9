// How long something takes, by a clock that never goes back.
#pragma once

#include <chrono>

namespace convgrad {

// Runs from when it is made.
class Stopwatch {
 public:
  double Seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }
  double Milliseconds() const { return 1e3 * Seconds(); }

 private:
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

}  // namespace convgrad
