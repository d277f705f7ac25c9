// Teams: every index once however helpers come and go, helpers that stay for the next loop, loops
// that end early.
#include "base/team.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <functional>
#include <mutex>
#include <stdexcept>
#include <thread>

namespace convgrad {
namespace {

using std::chrono::milliseconds;

// A team whose helpers are threads of its own.
struct ThreadTeam {
  ThreadTeam(int num_threads, milliseconds stay)
      : team(num_threads, stay, [this] {
          const std::lock_guard lock(mutex);
          ++num_summoned;
          threads.emplace_back([this] { team.Help(); });
        }) {}
  ~ThreadTeam() {
    for (std::thread& thread : threads) thread.join();
  }

  std::mutex mutex;
  int num_summoned = 0;
  std::vector<std::thread> threads;
  Team team;
};

void TakeAll(Team::Share& share, std::vector<std::atomic<int>>& runs) {
  for (int64_t i; (i = share.Next()) >= 0;) ++runs[static_cast<size_t>(i)];
}

TEST(Team, RunsEveryIndexOnceWhereHelpersComeAndGo) {
  for (const milliseconds stay : {milliseconds{0}, milliseconds{1}}) {
    for (const int num_threads : {2, 3, 7}) {
      ThreadTeam helped(num_threads, stay);
      for (int64_t count = 1; count < 60; ++count) {
        std::vector<std::atomic<int>> runs(static_cast<size_t>(count));
        ASSERT_TRUE(helped.team.Run(count, [&](Team::Share& share) { TakeAll(share, runs); }));
        for (const auto& run : runs) ASSERT_EQ(run, 1);
        if (count % 8 == 0) std::this_thread::sleep_for(milliseconds{2});
      }
    }
  }
}

TEST(Team, CallerDoesItAllWhenNobodyComes) {
  Team team(3, milliseconds{0}, [] {});
  std::vector<std::atomic<int>> runs(100);
  ASSERT_TRUE(team.Run(100, [&](Team::Share& share) { TakeAll(share, runs); }));
  for (const auto& run : runs) EXPECT_EQ(run, 1);
}

// A loop of two indices, each of which waits until both have begun.
void MeetOnce(Team& team) {
  std::atomic<int> begun{0};
  team.Run(2, [&](Team::Share& share) {
    while (share.Next() >= 0) {
      ++begun;
      while (begun < 2) std::this_thread::yield();
    }
  });
  EXPECT_EQ(begun, 2);
}

TEST(Team, HelpersStayForTheNextLoop) {
  ThreadTeam helped(2, milliseconds{1'000});
  for (int i = 0; i < 100; ++i) MeetOnce(helped.team);
  // A helper that does not stay is summoned for each loop; one that a busy machine held up for as
  // long as it stays, now and then.
  EXPECT_LE(helped.num_summoned, 10);
}

// The processors this thread may use from now on.
void Bind(const std::vector<int>& processors) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int processor : processors) CPU_SET(processor, &set);
  ASSERT_EQ(sched_setaffinity(0, sizeof(set), &set), 0);
}
std::vector<int> UsableProcessors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  sched_getaffinity(0, sizeof(set), &set);
  std::vector<int> processors;
  for (int i = 0; i < CPU_SETSIZE; ++i) {
    if (CPU_ISSET(i, &set)) processors.push_back(i);
  }
  return processors;
}

// A helper that wakes beside the caller moves to another processor, and may use all afterwards. The
// system may part the two as well, but later: nearly always it is the team that does.
TEST(Team, ThreadsOfALoopAreApart) {
  const std::vector<int> usable = UsableProcessors();
  if (usable.size() < 2) GTEST_SKIP() << "one processor";
  int num_apart = 0;
  constexpr int kRounds = 20;
  for (int round = 0; round < kRounds; ++round) {
    std::vector<std::thread> threads;
    Team team(2, milliseconds{5}, [&] {
      threads.emplace_back([&] {
        Bind({usable[0]});
        Bind(usable);  // still there
        team.Help();
        EXPECT_EQ(UsableProcessors(), usable);
      });
    });
    Bind({usable[0]});
    std::atomic<int> begun{0};
    std::atomic<int> processors[2] = {-1, -1};
    team.Run(2, [&](Team::Share& share) {
      while (share.Next() >= 0) {
        processors[Team::ThreadIndex()] = sched_getcpu();
        ++begun;
        while (begun < 2) {
        }
      }
    });
    num_apart += processors[0] != processors[1];
    Bind(usable);
    for (std::thread& thread : threads) thread.join();
  }
  EXPECT_GE(num_apart, kRounds / 2);
}

// The caller is done long before its helper.
TEST(Team, ALoopEndsWhenTheLastOfItsThreadsIsBack) {
  std::atomic<int> begun{0}, done{0};
  const auto caller = std::this_thread::get_id();
  const std::function<void(Team::Share&)> work = [&](Team::Share& share) {
    while (share.Next() >= 0) {
      ++begun;
      while (begun < 2) std::this_thread::yield();
      if (std::this_thread::get_id() != caller) std::this_thread::sleep_for(milliseconds{50});
      ++done;
    }
  };
  ThreadTeam helped(2, milliseconds{1});
  for (int i = 1; i <= 3; ++i) {
    begun = 0;
    helped.team.Run(2, work);
    ASSERT_EQ(done, 2 * i);
  }
}

TEST(Team, KeepsNeighboursTogether) {
  Team team(4, milliseconds{0}, [] {});
  std::vector<int64_t> order;
  team.Run(16, [&](Team::Share& share) {
    for (int64_t i; (i = share.Next()) >= 0;) order.push_back(i);
  });
  ASSERT_EQ(order.size(), 16u);
  for (int64_t i = 0; i < 4; ++i) EXPECT_EQ(order[static_cast<size_t>(i)], i);
}

TEST(Team, IsBusyWhileALoopRuns) {
  ThreadTeam helped(2, milliseconds{1});
  helped.team.Run(2, [&](Team::Share& share) {
    while (share.Next() >= 0) {
      EXPECT_FALSE(helped.team.Run(2, [](Team::Share&) { FAIL(); }));
    }
  });
}

TEST(Team, CarriesAnExceptionOutAndGoesOn) {
  ThreadTeam helped(3, milliseconds{1});
  for (int round = 0; round < 50; ++round) {
    EXPECT_THROW(helped.team.Run(100,
                                 [](Team::Share& share) {
                                   for (int64_t i; (i = share.Next()) >= 0;) {
                                     if (i == 50) throw std::runtime_error("index 50");
                                   }
                                 }),
                 std::runtime_error);
    std::vector<std::atomic<int>> runs(20);
    helped.team.Run(20, [&](Team::Share& share) { TakeAll(share, runs); });
    for (const auto& run : runs) ASSERT_EQ(run, 1);
  }
}

TEST(Team, ForgetsWhatALoopLeftUndone) {
  ThreadTeam helped(3, milliseconds{1});
  helped.team.Run(100, [](Team::Share& share) { share.Next(); });
  std::vector<std::atomic<int>> runs(100);
  helped.team.Run(2, [&](Team::Share& share) { TakeAll(share, runs); });
  for (size_t i = 0; i < runs.size(); ++i) EXPECT_EQ(runs[i], i < 2 ? 1 : 0);
}

}  // namespace
}  // namespace convgrad
