// Memory for tensors and scratch: alignment, and what is kept of freed blocks.
#include "base/memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <thread>
#include <vector>

#include "base/error.h"

namespace convgrad {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

#ifdef __SANITIZE_ADDRESS__
constexpr bool kKeeps = false;  // so that what is used after it was freed is seen
#else
constexpr bool kKeeps = true;
#endif

class MemoryTest : public ::testing::Test {
 protected:
  MemoryTest() { ReleaseKeptMemory(); }
};

TEST_F(MemoryTest, IsAlignedAndUsableBeyondItsEndByOneVector) {
  for (const size_t bytes : {size_t{0}, size_t{1}, size_t{64}, size_t{4095}, 256 * size_t{1024},
                             kMiB, 2 * kMiB - 64, 5 * kMiB + 3}) {
    SCOPED_TRACE(bytes);
    const auto memory = AllocateBytes(bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(memory.get()) % kAlignment, 0);
    std::memset(memory.get(), 1, bytes + kAlignment);
  }
}

TEST_F(MemoryTest, LargeBlocksStartAtTheBeginningOfAHugePage) {
  const auto memory = AllocateBytes(5 * kMiB);
  EXPECT_LT(reinterpret_cast<uintptr_t>(memory.get()) % (2 * kMiB), 4096);
}

// Neighbours are far from each other, in lines of a page and in parts of 256 bytes: loads of one
// would else wait for stores to the other.
TEST_F(MemoryTest, NewBlocksBeginAtTwoPlacesOfAPageInTurn) {
  const auto first = AllocateBytes(5 * kMiB), second = AllocateBytes(3 * kMiB),
             third = AllocateBytes(kMiB);
  const auto apart = [](const auto& a, const auto& b) {
    return (reinterpret_cast<uintptr_t>(a.get()) - reinterpret_cast<uintptr_t>(b.get())) % 4096;
  };
  const uintptr_t by = apart(second, first);
  EXPECT_TRUE(by >= 1024 && by <= 3072 && by % 256 != 0) << by;
  EXPECT_EQ(apart(third, second), 4096 - by);
  EXPECT_EQ(apart(third, first), 0);
}

TEST_F(MemoryTest, AFreedBlockServesTheNextOfItsSize) {
  if (!kKeeps) GTEST_SKIP() << "nothing is kept under this sanitizer";
  const void* const first = AllocateBytes(8 * kMiB).get();
  EXPECT_GE(KeptMemoryBytes(), 8 * kMiB);
  const auto second = AllocateBytes(7 * kMiB);
  EXPECT_EQ(second.get(), first);
  EXPECT_EQ(KeptMemoryBytes(), 0);
}

TEST_F(MemoryTest, ALargeBlockIsNotSpentOnASmallOne) {
  if (!kKeeps) GTEST_SKIP() << "nothing is kept under this sanitizer";
  const void* const large = [] {
    const auto block = AllocateBytes(64 * kMiB);
    AllocateBytes(2 * kMiB);  // two at once: the most ever in use
    return block.get();
  }();
  const auto small = AllocateBytes(kMiB);  // at the cost of the 2 MiB
  EXPECT_EQ(AllocateBytes(64 * kMiB).get(), large);
}

TEST_F(MemoryTest, KeptAndUsedNeverExceedTheMostEverUsed) {
  if (!kKeeps) GTEST_SKIP() << "nothing is kept under this sanitizer";
  std::vector<std::unique_ptr<std::byte[], FreeAligned>> blocks;
  for (const size_t size : {200, 100, 60}) blocks.push_back(AllocateBytes(size * kMiB));
  blocks.clear();
  const int64_t most = KeptMemoryBytes();
  for (const size_t size : {20, 150, 30}) {
    blocks.push_back(AllocateBytes(size * kMiB));  // fit none of them
    int64_t used = 0;
    for (const auto& block : blocks) used += static_cast<int64_t>(block.get_deleter().block_bytes);
    EXPECT_LE(KeptMemoryBytes() + used, most);
  }
}

TEST_F(MemoryTest, ReleaseGivesEverythingBack) {
  AllocateBytes(8 * kMiB);
  ReleaseKeptMemory();
  EXPECT_EQ(KeptMemoryBytes(), 0);
}

TEST_F(MemoryTest, SaysHowMuchCouldNotBeHad) {
  for (const size_t bytes : {size_t{1} << 60, ~size_t{0} - 10}) {
    try {
      AllocateBytes(bytes);
      FAIL();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), "memory/exhausted");
      EXPECT_THAT(error.what(), ::testing::HasSubstr(std::to_string(bytes)));
    }
  }
}

TEST_F(MemoryTest, ThreadsShareBlocksSafely) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([t] {
      for (size_t i = 0; i < 300; ++i) {
        const size_t bytes = (256 << 10) + (i * 7919 + t * 104729) % (4 * kMiB);
        const auto memory = AllocateBytes(bytes);
        std::memset(memory.get(), t, 4096);
        std::memset(memory.get() + bytes - 4096, t, 4096);
        EXPECT_EQ(static_cast<int>(memory.get()[100]), t);
        EXPECT_EQ(static_cast<int>(memory.get()[bytes - 1]), t);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace convgrad
