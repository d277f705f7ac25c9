// Loops on threads: every piece once, errors carried out, thread indices that scratch can be dealt
// by.
#include "base/parallel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <limits>
#include <stdexcept>
#include <vector>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace convgrad {
namespace {

TEST(Parallel, RunsEveryPieceOnce) {
  for (const int threads : {1, 2, 7}) {
    const Parallel parallel(threads);
    for (const int64_t count : {0, 1, 2, 1000}) {
      std::vector<std::atomic<int>> runs(static_cast<size_t>(count));
      parallel.For(count, [&](int64_t i) { ++runs[static_cast<size_t>(i)]; });
      for (const auto& run : runs) EXPECT_EQ(run, 1);
    }
  }
}

TEST(Parallel, CarriesAnExceptionOut) {
  for (const int threads : {1, 3}) {
    const Parallel parallel(threads);
    EXPECT_THROW(parallel.For(100,
                              [](int64_t i) {
                                if (i == 50) throw std::runtime_error("piece 50");
                              }),
                 std::runtime_error);
  }
}

// Bodies that run at the same time never share an index of their own loop.
void ExpectIndicesOf(const Parallel& parallel, int64_t count) {
  std::vector<std::atomic<int>> inside(static_cast<size_t>(parallel.num_threads()));
  parallel.For(count, [&](int64_t) {
    const int index = Parallel::ThreadIndex();
    ASSERT_GE(index, 0);
    ASSERT_LT(index, parallel.num_threads());
    EXPECT_EQ(++inside[static_cast<size_t>(index)], 1);
    --inside[static_cast<size_t>(index)];
  });
}

TEST(Parallel, DealsIndicesOfTheInnermostLoop) {
  const Parallel outer(6);
  outer.For(200, [](int64_t i) {
    const Parallel inner(i % 2 == 0 ? 1 : 3);
    ExpectIndicesOf(inner, i % 3 == 0 ? 1 : 20);
  });
  ExpectIndicesOf(outer, 1000);
}

TEST(PerThread, MakesOneForEachThreadAndKeepsIt) {
  struct Counter {
    explicit Counter(std::atomic<int>& made) { ++made; }
    int64_t count = 0;
  };
  const Parallel parallel(3);
  PerThread<Counter> counters(parallel);
  std::atomic<int> made = 0;
  std::atomic<int64_t> counted = 0;
  for (int loop = 0; loop < 2; ++loop) {
    parallel.For(100, [&](int64_t) {
      Counter& own = counters.Own(made);
      const int64_t before = own.count++;
      counted += own.count - before;
      EXPECT_EQ(&own, &counters.Own(made));
    });
  }
  EXPECT_EQ(counted, 200);
  EXPECT_GE(made, 1);
  EXPECT_LE(made, 3);
}

TEST(Parallel, KeepsSubnormalsWhateverTheCallerSet) {
#if defined(__x86_64__)
  const unsigned saved = _mm_getcsr();
  _mm_setcsr(saved | 0x8040);  // flush to zero, denormals are zero
  std::atomic<int> lost{0};
  const Parallel parallel(3);
  parallel.For(1000, [&](int64_t) {
    volatile float least = std::numeric_limits<float>::min();
    if (least / 2 == 0) ++lost;
  });
  const bool restored = (_mm_getcsr() & 0x8040) == 0x8040;
  _mm_setcsr(saved);
  EXPECT_EQ(lost, 0);
  EXPECT_TRUE(restored);
#else
  GTEST_SKIP() << "sets the mode of an x86 processor";
#endif
}

}  // namespace
}  // namespace convgrad
