// Threads that share one loop at a time: the caller and helpers, who stay awake for a moment after
// a loop, so that the next one need not wait until the system has woken them, and who are not on
// one processor. Must not know where the helpers come from, nor what a loop does.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <vector>

namespace convgrad {

class Team {
 public:
  // One thread's share of the indices of a loop. Neighbours stay together, and a loop's parts are
  // those of the loop before: who has nothing left takes the last half of what another has.
  class alignas(64) Share {
   public:
    // The next index, -1 when no thread has any left.
    int64_t Next();

   private:
    friend class Team;
    bool TakeFromOthers();

    Team* team_ = nullptr;
    // First and behind the last, 32 bits each; only this thread makes it anything but shorter.
    std::atomic<uint64_t> range_{0};
  };

  // Most indices of a loop.
  static constexpr int64_t kMostIndices = int64_t{1} << 31;

  // `num_threads` >= 1, the caller's own included. `summon` asks for one more thread to call
  // Help(); it may come late or never. Helpers wait for the next loop for `stay`; 0 says that there
  // are fewer processors than threads.
  Team(int num_threads, std::chrono::nanoseconds stay, std::function<void()> summon);
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  // Calls work once on each of some threads, all of which take indices of [0, count) from their
  // shares, and returns when they are back. An exception of `work` ends the loop, as the indices
  // left are dropped, and is thrown again here. False, and nothing is done, while another loop of
  // this team runs.
  bool Run(int64_t count, const std::function<void(Share&)>& work);

  // A thread that was summoned; returns when there is nothing to help with.
  void Help();

  // Index in [0, num_threads) of the calling thread in the innermost loop, 0 outside.
  static int ThreadIndex();

  // While it lives, this thread has the index `index`.
  class ScopedIndex {
   public:
    explicit ScopedIndex(int index);
    ~ScopedIndex();
    ScopedIndex(const ScopedIndex&) = delete;
    ScopedIndex& operator=(const ScopedIndex&) = delete;

   private:
    int saved_;
  };

 private:
  int TakeSeat();
  static bool IsOpen(uint64_t gate, uint64_t last_loop);
  bool Join(uint64_t* last_loop);
  bool JoinInTime(uint64_t* last_loop);
  void SitApart(int seat);
  void SummonHelpers(int64_t wanted);
  void WorkOn(int index);
  void DropIndices();

  const std::chrono::nanoseconds stay_;
  const std::function<void()> summon_;
  std::vector<Share> shares_;                 // by thread
  std::vector<std::atomic<bool>> seated_;     // by thread, of the helpers
  std::vector<std::atomic<int>> processors_;  // by thread: where it was last, -1 of nobody
  std::atomic<int> helpers_{0};               // summoned, and not gone yet
  std::atomic<bool> busy_{false};
  // The loop's number (32 bits), how many helpers are at work on it (31), whether more may join.
  std::atomic<uint64_t> gate_{0};

  // The work of the loop that runs; written while the gate is closed and nobody at work.
  const std::function<void(Share&)>* work_ = nullptr;
  std::atomic<bool> failed_{false};
  std::exception_ptr error_;
};

}  // namespace convgrad
