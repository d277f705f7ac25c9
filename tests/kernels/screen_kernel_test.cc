// Screening numbers by their sums: what must be looked at, and the same on every instruction set.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "kernels/precise/screen.h"
#include "support/special_values.h"
#include "tensor/dtype.h"

namespace convgrad {
namespace {

using testing::kInfinity;

bool Has(const ScreenBits& bits, int64_t at) {
  return (bits.words[at / 64] >> (at % 64) & 1) != 0;
}

// Sums of nine terms of float32 with S = 4, rounded right.
struct Nine {
  explicit Nine(int64_t count) : sizes(count, 4.0f), terms(count, 9.0), roots(count, 1 / 3.0) {
    std::mt19937_64 random(3);
    std::uniform_real_distribution<double> uniform(1, 4);
    for (int64_t i = 0; i < count; ++i) {
      sums.push_back(uniform(random) * (i % 2 == 0 ? 1 : -1));
      rounded.push_back(static_cast<float>(sums.back()));
    }
    numbers = rounded;
  }
  ScreenedNumbers<float> all() const {
    return {sums.data(), sizes.data(),   terms.data(),  roots.data(), 1,
            1,           numbers.data(), rounded.data()};
  }
  std::vector<double> sums;
  std::vector<float> sizes;
  std::vector<double> terms, roots;
  std::vector<float> numbers, rounded;
};

constexpr ScreenFormat kFloat = {0x1p-126, 0x1p-24};

ScreenLimits Limits() {
  ScreenLimits limits = {};
  limits.roundoff = 0x1p-24;
  limits.longest_chain = 257;
  limits.root_of_longest = std::sqrt(257.0);
  limits.underflow = 0x1p-150;
  limits.usual = 8;
  limits.stored = limits.accumulator = kFloat;
  limits.unit = 0x1p-140;
  limits.relative = 21 * 0x1p-53;
  return limits;
}

// Nothing is more extreme than these.
constexpr ScreenExtremes kBeyond = {1e9, 0, kInfinity};

TEST(ScreenKernel, LooksAtWhatMayBeWrong) {
  for (const KernelTable& table : SupportedKernels()) {
    for (const int64_t count : {1, 7, 64, 67}) {
      for (const int64_t at : {int64_t{0}, count / 2, count - 1}) {
        const auto doubts = [&](const auto& change) {
          Nine nine(count);
          change(nine);
          ScreenExtremes extremes = kBeyond;
          ScreenBits doubtful, exact;
          ScreenKernelsOf<float>(table.isa).judge(Limits(), nine.all(), count, extremes, doubtful,
                                                  exact, nullptr);
          for (int64_t i = 0; i < count; ++i) {
            EXPECT_FALSE(Has(exact, i));
            EXPECT_FALSE(i != at && Has(doubtful, i)) << i;
          }
          return Has(doubtful, at);
        };
        EXPECT_FALSE(doubts([](Nine&) {}));
        EXPECT_FALSE(doubts([&](Nine& nine) { nine.numbers[at] *= 1 + 0x1p-23f; }));
        // 8 * 2^-24 * S, and half a unit.
        EXPECT_TRUE(doubts([&](Nine& nine) { nine.numbers[at] *= 1 + 0x1p-18f; }));
        EXPECT_TRUE(doubts([&](Nine& nine) { nine.numbers[at] = NAN; }));
        EXPECT_TRUE(doubts([&](Nine& nine) { nine.sums[at] = kInfinity; }));
        EXPECT_TRUE(doubts([&](Nine& nine) { nine.sizes[at] = INFINITY; }));
      }
    }
  }
}

TEST(ScreenKernel, FollowsExtremes) {
  for (const KernelTable& table : SupportedKernels()) {
    Nine nine(200);
    nine.numbers[77] += 3 * 0x1p-23f;
    nine.sizes[123] = 2;
    ScreenExtremes extremes = {0, kInfinity, 0};
    ScreenBits doubtful, exact;
    const auto& kernels = ScreenKernelsOf<float>(table.isa);
    kernels.judge(Limits(), nine.all(), 200, extremes, doubtful, exact, nullptr);
    EXPECT_TRUE(Has(doubtful, 77) && Has(doubtful, 123));
    const double bound = 9 * 0x1p-24 * 4;
    EXPECT_GT(extremes.used, 2.5 * 0x1p-23 / (bound + 0x1p-23));
    EXPECT_LT(extremes.used, 3.5 * 0x1p-23 / bound);
    EXPECT_NEAR(extremes.least_seen, bound / 2, 0x1p-22);
    // Once more: what is as extreme as they are, and no more.
    ScreenBits again, unused;
    kernels.judge(Limits(), nine.all(), 200, extremes, again, unused, nullptr);
    for (int64_t i = 0; i < 200; ++i) {
      EXPECT_FALSE(i != 77 && i != 123 && Has(again, i)) << i;
    }
    EXPECT_TRUE(Has(again, 77));
  }
}

TEST(ScreenKernel, JudgesIntegersByTheirRounding) {
  for (const KernelTable& table : SupportedKernels()) {
    Nine nine(70);
    for (size_t i = 0; i < 70; ++i) {
      nine.sums[i] = nine.numbers[i] = nine.rounded[i] = static_cast<float>(i) - 30;
    }
    nine.numbers[66] += 1;
    ScreenLimits limits = Limits();
    limits.exact_below = 0x1p24;
    limits.unit = 1;
    ScreenExtremes extremes = kBeyond;
    ScreenBits doubtful, exact;
    ScreenedOdds odds;
    ScreenKernelsOf<float>(table.isa).judge(limits, nine.all(), 70, extremes, doubtful, exact,
                                            &odds);
    for (int64_t i = 0; i < 70; ++i) {
      EXPECT_TRUE(Has(exact, i)) << i;
      EXPECT_EQ(Has(doubtful, i), i == 66) << i;
    }
    EXPECT_EQ(odds.count, 0);
  }
}

TEST(ScreenKernel, FindsDifferences) {
  for (const KernelTable& table : SupportedKernels()) {
    const Nine nine(70);
    std::vector<float> others = nine.numbers;
    others[3] = std::nextafter(others[3], INFINITY);
    others[40] = std::nextafter(std::nextafter(others[40], 0.0f), 0.0f);
    others[65] = 1e-40f;
    const auto differ = [&](const ScreenDifferences& largest) {
      ScreenBits doubtful, different;
      ScreenKernelsOf<float>(table.isa).differ(nine.numbers.data(), others.data(), kFloat, largest,
                                               70, doubtful, different);
      for (int64_t i = 0; i < 70; ++i) {
        EXPECT_EQ(Has(different, i), i == 3 || i == 40 || i == 65) << i;
        EXPECT_FALSE(!Has(different, i) && Has(doubtful, i)) << i;
      }
      EXPECT_TRUE(Has(doubtful, 65));
      return std::pair(Has(doubtful, 3), Has(doubtful, 40));
    };
    EXPECT_EQ(differ({0, 1, 1e9}), std::pair(true, true));
    EXPECT_EQ(differ({1, 0, 1e9}), std::pair(true, true));
    EXPECT_EQ(differ({1, 1, 1}), std::pair(false, true));
    EXPECT_EQ(differ({1, 1, 2}), std::pair(false, false));
  }
}

}  // namespace
}  // namespace convgrad
