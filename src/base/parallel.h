// Loops over independent pieces of work on a fixed number of threads. The only place that knows the
// threading library. How the pieces are dealt never changes a result: callers make each piece's
// arithmetic depend on its index alone.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

namespace convgrad {

// While it lives, this thread rounds to nearest and keeps subnormals, whatever another library has
// set; afterwards the old mode is back.
class ScopedFpEnvironment {
 public:
  ScopedFpEnvironment();
  ~ScopedFpEnvironment();
  ScopedFpEnvironment(const ScopedFpEnvironment&) = delete;
  ScopedFpEnvironment& operator=(const ScopedFpEnvironment&) = delete;

 private:
  uint64_t saved_;
};

class Parallel {
 public:
  // `num_threads` >= 1, the caller's own included; fewer where the system does not let that many
  // start or has no memory for them.
  explicit Parallel(int num_threads);
  ~Parallel();
  Parallel(const Parallel&) = delete;
  Parallel& operator=(const Parallel&) = delete;

  int num_threads() const { return num_threads_; }

  // body(i) once for every i in [0, count), on up to num_threads() threads, in the floating-point
  // environment above. A thread's indices are neighbours, mostly those that it had in the last loop
  // of as many. The first exception of a body ends the loop and is thrown again here. After
  // RequestStop() or past the caller's deadline the rest is skipped and Stopped is thrown. While
  // another loop of this object runs, on any thread, it runs on the caller alone.
  void For(int64_t count, const std::function<void(int64_t)>& body) const;

  // Index in [0, num_threads()) of the calling thread inside the innermost For, for per-thread
  // scratch; no two bodies of one loop that run at the same time have the same.
  static int ThreadIndex();

 private:
  struct Helpers;
  int num_threads_;
  Helpers* helpers_ = nullptr;  // for one thread
};

// A T for each thread of a loop, which keeps it from piece to piece: the thread makes it when it
// first needs it, so that its memory is near.
template <class T>
class PerThread {
 public:
  explicit PerThread(const Parallel& parallel)
      : of_thread_(static_cast<size_t>(parallel.num_threads())) {}

  // The calling thread's, made of `args` if it has none; inside a body of a loop.
  template <class... Args>
  T& Own(Args&&... args) {
    std::unique_ptr<T>& own = of_thread_[static_cast<size_t>(Parallel::ThreadIndex())];
    if (own == nullptr) own = std::make_unique<T>(std::forward<Args>(args)...);
    return *own;
  }

 private:
  std::vector<std::unique_ptr<T>> of_thread_;
};

// Thrown by For when the process was asked to end, or the work past its deadline.
struct Stopped {};

// The threading library's version, e.g. "2021.8.0".
const char* ThreadingLibraryVersion();

// Async-signal-safe: makes every running and later For end early.
void RequestStop();
bool StopRequested();

}  // namespace convgrad
