// A stand-in for the threading library where threads are to be watched: the thread sanitizer takes
// the library's own synchronisation, which it can't see, for races. In front of the library's
// headers in a build with CONVGRAD_SANITIZE=thread; has what src/base/parallel.cc uses.
#pragma once

#include <thread>
#include <utility>

namespace tbb {

// Every piece of work gets a thread of its own: how many there are is up to who asks.
class task_arena {
 public:
  explicit task_arena(int /*max_concurrency*/) {}
  void initialize() {}

  template <typename Work>
  void enqueue(Work&& work) {
    std::thread(std::forward<Work>(work)).detach();
  }
};

namespace this_task_arena {
inline int max_concurrency() {
  return static_cast<int>(std::thread::hardware_concurrency());
}
}  // namespace this_task_arena

}  // namespace tbb
