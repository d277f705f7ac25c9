#include "base/parallel.h"

#include <tbb/global_control.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>
#include <tbb/version.h>

#include <algorithm>
#include <atomic>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace convgrad {
namespace {

std::atomic<bool> stop_requested{false};

#if defined(__x86_64__)
// All exceptions masked, round to nearest, neither flush-to-zero nor denormals-are-zero.
constexpr uint64_t kStandardMode = 0x1F80;
uint64_t GetMode() { return _mm_getcsr(); }
void SetMode(uint64_t mode) { _mm_setcsr(static_cast<unsigned>(mode)); }
#elif defined(__aarch64__)
constexpr uint64_t kStandardMode = 0;
uint64_t GetMode() {
  uint64_t mode;
  asm volatile("mrs %0, fpcr" : "=r"(mode));
  return mode;
}
void SetMode(uint64_t mode) { asm volatile("msr fpcr, %0" : : "r"(mode)); }
#endif

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
    : num_threads_(num_threads),
      arena_(num_threads > 1 ? std::make_unique<Arena>(num_threads) : nullptr) {}

Parallel::~Parallel() = default;

void Parallel::For(int64_t count, const std::function<void(int64_t)>& body) const {
  if (num_threads_ == 1 || count <= 1) {
    const ScopedFpEnvironment environment;
    for (int64_t i = 0; i < count && !StopRequested(); ++i) body(i);
  } else {
    arena_->arena.execute([&] {
      tbb::parallel_for(
          int64_t{0}, count,
          [&](int64_t i) {
            const ScopedFpEnvironment environment;
            if (!StopRequested()) body(i);
          },
          tbb::simple_partitioner());
    });
  }
  if (StopRequested()) throw Stopped{};
}

int Parallel::ThreadIndex() {
  const int index = tbb::this_task_arena::current_thread_index();
  return index == tbb::task_arena::not_initialized ? 0 : index;
}

const char* ThreadingLibraryVersion() { return TBB_runtime_version(); }

void RequestStop() { stop_requested.store(true, std::memory_order_relaxed); }

bool StopRequested() { return stop_requested.load(std::memory_order_relaxed); }

}  // namespace convgrad
