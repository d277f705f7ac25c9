#include "base/parallel.h"

#include <pthread.h>
#include <tbb/global_control.h>
#include <tbb/task_arena.h>
#include <tbb/version.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <map>
#include <mutex>
#include <utility>
#include <vector>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "base/deadline.h"
#include "base/resources.h"
#include "base/team.h"

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
  threads.reserve(static_cast<size_t>(wanted));  // growing could throw while threads wait
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

// Helpers wait for so long for the next loop. Waking a thread takes as long as many a whole
// convolution, longest where the processors are virtual; a run's own serial parts and what lies
// between two runs are mostly shorter than this.
constexpr std::chrono::microseconds kStay{200};

}  // namespace

ScopedFpEnvironment::ScopedFpEnvironment() : saved_(GetMode()) {
  if (saved_ != kStandardMode) SetMode(kStandardMode);
}

ScopedFpEnvironment::~ScopedFpEnvironment() {
  if (saved_ != kStandardMode) SetMode(saved_);
}

// A team whose helpers are the threading library's workers. Those that no loop needs are kept, so
// that the next Parallel finds their helpers awake, and are never destroyed: a helper may be about
// to leave when the process ends.
struct Parallel::Helpers {
  // Throws where there is no memory. The arena starts here and not with the first loop: one whose
  // start has failed waits for ever when it is asked again.
  explicit Helpers(int num_threads)
      : arena(num_threads),
        team(num_threads, num_threads > UsableCpus() ? std::chrono::microseconds{0} : kStay,
             [this] { arena.enqueue([this] { team.Help(); }); }) {
    arena.initialize();
  }

  // By number of threads.
  static std::map<int, std::vector<Helpers*>>& Kept() {
    static auto* const kept = new std::map<int, std::vector<Helpers*>>;
    return *kept;
  }
  static Helpers* Take(int num_threads);
  static void Keep(int num_threads, Helpers* helpers);

  tbb::task_arena arena;
  Team team;
};

namespace {

std::mutex& KeptMutex() {
  static std::mutex* const mutex = new std::mutex;
  return *mutex;
}

// Lets arenas be as wide as they ask for, wider than the machine. The library holds to the
// narrowest of such wishes, so there is only one.
void AllowThreads(int num_threads) {
  static size_t allowed = static_cast<size_t>(tbb::this_task_arena::max_concurrency());
  static tbb::global_control* control = nullptr;
  const auto wanted = static_cast<size_t>(num_threads);
  if (wanted <= allowed) return;
  tbb::global_control* const before = std::exchange(
      control, new tbb::global_control(tbb::global_control::max_allowed_parallelism, wanted));
  allowed = wanted;
  delete before;
}

}  // namespace

Parallel::Helpers* Parallel::Helpers::Take(int num_threads) {
  const std::lock_guard lock(KeptMutex());
  AllowThreads(num_threads);
  std::vector<Helpers*>& kept = Kept()[num_threads];
  if (kept.empty()) return new Helpers(num_threads);
  Helpers* const last = kept.back();
  kept.pop_back();
  return last;
}

void Parallel::Helpers::Keep(int num_threads, Helpers* helpers) {
  const std::lock_guard lock(KeptMutex());
  Kept()[num_threads].push_back(helpers);
}

// One thread needs nothing; of more, as many as there is memory for.
Parallel::Parallel(int num_threads) : num_threads_(AffordableThreads(num_threads)) {
  while (num_threads_ > 1 && helpers_ == nullptr) {
    try {
      helpers_ = Helpers::Take(num_threads_);
    } catch (const std::exception&) {
      num_threads_ /= 2;
    }
  }
}

Parallel::~Parallel() {
  if (helpers_ != nullptr) Helpers::Keep(num_threads_, helpers_);
}

void Parallel::For(int64_t count, const std::function<void(int64_t)>& body) const {
  const Deadline* deadline = CurrentDeadline();
  for (int64_t first = 0; first < count; first += Team::kMostIndices) {
    const int64_t loop = std::min(count - first, Team::kMostIndices);
    const auto share_loop = [&](Team::Share& share) {
      const ScopedFpEnvironment environment;
      const ScopedDeadline same_deadline(deadline);
      for (int64_t i; !MustEnd() && (i = share.Next()) >= 0;) body(first + i);
    };
    if (helpers_ != nullptr && loop > 1 && helpers_->team.Run(loop, share_loop)) continue;
    const ScopedFpEnvironment environment;
    const Team::ScopedIndex alone(0);
    for (int64_t i = 0; i < loop && !MustEnd(); ++i) body(first + i);
  }
  if (MustEnd()) throw Stopped{};
}

int Parallel::ThreadIndex() {
  return Team::ThreadIndex();
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
