#include "base/team.h"

#include <algorithm>
#include <span>
#include <thread>
#include <utility>

#include "base/system/processor.h"

namespace convgrad {
namespace {

constexpr uint64_t kOpen = 1, kHelper = 2, kLoop = uint64_t{1} << 32;

uint64_t RangeOf(int64_t begin, int64_t end) {
  return static_cast<uint64_t>(begin) << 32 | static_cast<uint64_t>(end);
}
int64_t BeginOf(uint64_t range) {
  return static_cast<int64_t>(range >> 32);
}
int64_t EndOf(uint64_t range) {
  return static_cast<int64_t>(range & (kLoop - 1));
}

// Asks for about a microsecond if `is_over`; then whoever else needs this processor may have it.
bool WaitABit(const auto& is_over) {
  for (int i = 0; i < 32; ++i) {
    if (is_over()) return true;
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  }
  std::this_thread::yield();
  return false;
}

thread_local int thread_index = 0;

}  // namespace

Team::ScopedIndex::ScopedIndex(int index) : saved_(std::exchange(thread_index, index)) {}

Team::ScopedIndex::~ScopedIndex() {
  thread_index = saved_;
}

int Team::ThreadIndex() {
  return thread_index;
}

int64_t Team::Share::Next() {
  do {
    uint64_t range = range_.load(std::memory_order_relaxed);
    while (BeginOf(range) < EndOf(range)) {
      if (range_.compare_exchange_weak(range, range + kLoop)) return BeginOf(range);
    }
  } while (TakeFromOthers());
  return -1;
}

bool Team::Share::TakeFromOthers() {
  for (;;) {
    Share* richest = nullptr;
    uint64_t most = 0;
    for (Share& other : team_->shares_) {
      const uint64_t range = other.range_.load(std::memory_order_relaxed);
      if (EndOf(range) - BeginOf(range) > EndOf(most) - BeginOf(most)) {
        richest = &other;
        most = range;
      }
    }
    if (richest == nullptr) return false;
    const int64_t begin = BeginOf(most), end = EndOf(most), middle = begin + (end - begin) / 2;
    if (richest->range_.compare_exchange_strong(most, RangeOf(begin, middle))) {
      range_.store(RangeOf(middle, end));
      return true;
    }
  }
}

Team::Team(int num_threads, std::chrono::nanoseconds stay, std::function<void()> summon)
    : stay_(stay),
      summon_(std::move(summon)),
      shares_(static_cast<size_t>(num_threads)),
      seated_(static_cast<size_t>(num_threads)),
      processors_(static_cast<size_t>(num_threads)) {
  for (Share& share : shares_) share.team_ = this;
  for (auto& processor : processors_) processor = -1;
}

// The seat of a thread; 0 where all helpers that there can be are here already.
int Team::TakeSeat() {
  for (size_t i = 1; i < seated_.size(); ++i) {
    if (!seated_[i].exchange(true)) return static_cast<int>(i);
  }
  return 0;
}

// True if there is a loop to join, other than the last one.
bool Team::IsOpen(uint64_t gate, uint64_t last_loop) {
  return (gate & kOpen) != 0 && gate / kLoop != last_loop;
}

bool Team::Join(uint64_t* last_loop) {
  uint64_t gate = gate_.load();
  while (IsOpen(gate, *last_loop)) {
    if (gate_.compare_exchange_weak(gate, gate + kHelper)) {
      *last_loop = gate / kLoop;
      return true;
    }
  }
  return false;
}

bool Team::JoinInTime(uint64_t* last_loop) {
  const auto end = std::chrono::steady_clock::now() + stay_;
  while (std::chrono::steady_clock::now() < end) {
    if (WaitABit([&] { return Join(last_loop); })) return true;
  }
  return Join(last_loop);
}

// Two threads of a loop on one processor take turns there, while another one idles: systems wake a
// thread where its waker is, if others are busy just then, and leave it there for many loops. The
// one with the higher seat moves.
void Team::SitApart(int seat) {
  if (stay_.count() == 0) return;
  std::atomic<int>& mine = processors_[static_cast<size_t>(seat)];
  const int here = CurrentProcessor();
  if (mine.load(std::memory_order_relaxed) != here) mine = here;
  const auto others = std::span(processors_).first(static_cast<size_t>(seat));
  const auto is_here = [&](const auto& processor) { return processor == here; };
  if (std::ranges::none_of(others, is_here)) return;
  LeaveProcessors(processors_);
  mine = CurrentProcessor();
}

void Team::Help() {
  const int seat = TakeSeat();
  uint64_t last_loop = 0;
  while (seat > 0) {
    while (JoinInTime(&last_loop)) {
      SitApart(seat);
      WorkOn(seat);
      gate_ -= kHelper;
    }
    --helpers_;
    // A loop that opened before that counts on this helper.
    if (!IsOpen(gate_.load(), last_loop)) break;
    ++helpers_;
  }
  if (seat > 0) {
    processors_[static_cast<size_t>(seat)] = -1;
    seated_[static_cast<size_t>(seat)] = false;
  } else {
    --helpers_;
  }
}

void Team::DropIndices() {
  for (Share& share : shares_) share.range_.store(0);
}

void Team::WorkOn(int index) {
  const ScopedIndex scoped_index(index);
  try {
    (*work_)(shares_[static_cast<size_t>(index)]);
  } catch (...) {
    if (!failed_.exchange(true)) error_ = std::current_exception();
    DropIndices();
  }
}

void Team::SummonHelpers(int64_t wanted) {
  try {
    for (int64_t missing = wanted - helpers_.load(); missing > 0; --missing) {
      ++helpers_;
      summon_();
    }
  } catch (...) {  // of no memory: those who are here do the work
    --helpers_;
  }
}

bool Team::Run(int64_t count, const std::function<void(Share&)>& work) {
  if (busy_.exchange(true)) return false;
  const int64_t parts = std::min(count, static_cast<int64_t>(shares_.size()));
  DropIndices();  // of a loop that was left before its end
  for (int64_t i = 0; i < parts; ++i) {
    shares_[static_cast<size_t>(i)].range_.store(
        RangeOf(count * i / parts, count * (i + 1) / parts));
  }
  work_ = &work;
  SitApart(0);
  gate_.store((gate_.load() / kLoop + 1) * kLoop + kOpen);
  SummonHelpers(parts - 1);
  WorkOn(0);
  gate_ &= ~kOpen;
  while (!WaitABit([&] { return gate_.load() % kLoop == 0; })) {
  }
  failed_ = false;
  const std::exception_ptr error = std::exchange(error_, nullptr);
  busy_ = false;
  if (error != nullptr) std::rethrow_exception(error);
  return true;
}

}  // namespace convgrad
