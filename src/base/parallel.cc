#include "base/parallel.h"

#include <pthread.h>
#include <tbb/global_control.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>
#include <tbb/version.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <vector>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "base/deadline.h"
#include "base/resources.h"

namespace convgrad {
namespace {

std::atomic<bool> stop_requested{false};

#if defined(__x86_64__)
// All exceptions masked, round to nearest, neither flush-to-zero nor denormals-are-zero.
constexpr uint64_t kStandardMode = 0x1F80;
uint64_t GetMode() {
  return _mm_getcsr();
}
void SetMode(uint64_t mode) {
  _mm_setcsr(static_cast<unsigned>(mode));
}
#elif defined(__aarch64__)
constexpr uint64_t kStandardMode = 0;
uint64_t GetMode() {
  uint64_t mode;
  asm volatile("mrs %0, fpcr" : "=r"(mode));
  return mode;
}
void SetMode(uint64_t mode) {
  asm volatile("msr fpcr, %0" : : "r"(mode));
}
#endif

// Address space of one worker: the threading library's stacks, the C library's heap of a thread.
constexpr int64_t kWorkerStackBytes = int64_t{4} << 20;
constexpr int64_t kWorkerHeapBytes = int64_t{64} << 20;

void* WaitForGate(void* gate) {
  const std::lock_guard lock(*static_cast<std::mutex*>(gate));
  return nullptr;
}

// How many of `wanted` threads can be alive at once: limits on processes, address space or a
// container show here.
int CountStartableThreads(int wanted) {
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes) != 0) return 0;
  pthread_attr_setstacksize(&attributes, kWorkerStackBytes);
  std::mutex gate;
  std::vector<pthread_t> threads;
  {
    const std::lock_guard closed(gate);
    pthread_t thread;
    while (static_cast<int>(threads.size()) < wanted &&
           pthread_create(&thread, &attributes, WaitForGate, &gate) == 0) {
      threads.push_back(thread);
    }
  }
  for (const pthread_t thread : threads) pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
  return static_cast<int>(threads.size());
}

// The threading library ends the process when a worker does not start. So the workers are tried
// first, with some to spare for other threads of the process; and where address space is limited,
// they get half of what is left.
int AffordableThreads(int num_threads) {
  constexpr int kSpareThreads = 4;
  static std::atomic<int> known_good{1};
  if (num_threads <= known_good.load()) return num_threads;
  const int64_t fitting = AvailableAddressSpace() / 2 / (kWorkerStackBytes + kWorkerHeapBytes);
  const int wanted = static_cast<int>(std::min<int64_t>(num_threads - 1, fitting)) + kSpareThreads;
  const int workers = std::max(0, CountStartableThreads(wanted) - kSpareThreads);
  if (workers == num_threads - 1) known_good.store(num_threads);
  return 1 + workers;
}

// Whether this thread runs a loop alone. It may be a worker of somebody else's arena then, whose
// index there means nothing to the loop.
thread_local bool runs_alone = false;

class ScopedRunsAlone {
 public:
  explicit ScopedRunsAlone(bool alone) : saved_(runs_alone) { runs_alone = alone; }
  ~ScopedRunsAlone() { runs_alone = saved_; }
  ScopedRunsAlone(const ScopedRunsAlone&) = delete;
  ScopedRunsAlone& operator=(const ScopedRunsAlone&) = delete;

 private:
  bool saved_;
};

}  // namespace

ScopedFpEnvironment::ScopedFpEnvironment() : saved_(GetMode()) {
  if (saved_ != kStandardMode) SetMode(kStandardMode);
}

ScopedFpEnvironment::~ScopedFpEnvironment() {
  if (saved_ != kStandardMode) SetMode(saved_);
}

struct Parallel::Arena {
  explicit Arena(int num_threads)
      : limit(tbb::global_control::max_allowed_parallelism,
              std::max<size_t>(num_threads, tbb::this_task_arena::max_concurrency())),
        arena(num_threads) {}
  tbb::global_control limit;  // lets an arena be wider than the machine
  tbb::task_arena arena;
};

Parallel::Parallel(int num_threads)
    : num_threads_(AffordableThreads(num_threads)),
      arena_(num_threads_ > 1 ? std::make_unique<Arena>(num_threads_) : nullptr) {}

Parallel::~Parallel() = default;

void Parallel::For(int64_t count, const std::function<void(int64_t)>& body) const {
  if (num_threads_ == 1 || count <= 1) {
    const ScopedFpEnvironment environment;
    const ScopedRunsAlone alone(true);
    for (int64_t i = 0; i < count && !MustEnd(); ++i) body(i);
  } else {
    const Deadline* deadline = CurrentDeadline();
    arena_->arena.execute([&] {
      const ScopedRunsAlone not_alone(false);
      tbb::parallel_for(
          int64_t{0}, count,
          [&](int64_t i) {
            const ScopedFpEnvironment environment;
            const ScopedDeadline same_deadline(deadline);
            if (!MustEnd()) body(i);
          },
          tbb::simple_partitioner());
    });
  }
  if (MustEnd()) throw Stopped{};
}

int Parallel::ThreadIndex() {
  if (runs_alone) return 0;
  const int index = tbb::this_task_arena::current_thread_index();
  return index == tbb::task_arena::not_initialized ? 0 : index;
}

const char* ThreadingLibraryVersion() {
  return TBB_runtime_version();
}

void RequestStop() {
  stop_requested.store(true, std::memory_order_relaxed);
}

bool StopRequested() {
  return stop_requested.load(std::memory_order_relaxed);
}

}  // namespace convgrad
