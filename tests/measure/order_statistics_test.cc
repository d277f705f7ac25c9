// Statistics of times against known values, and the median's interval against what it promises: in
// simulated measurements it covers the true median as often as it says.
#include "measure/order_statistics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

namespace convgrad {
namespace {

TEST(SummaryTest, KnownValues) {
  const double samples[] = {7, 1, 3, 10, 4, 2, 5, 6, 8, 9};  // numpy says the same of them
  const Summary summary = Summarize(samples);
  EXPECT_EQ(summary.samples, 10);
  EXPECT_EQ(summary.min, 1);
  EXPECT_EQ(summary.max, 10);
  EXPECT_DOUBLE_EQ(summary.median, 5.5);
  EXPECT_DOUBLE_EQ(summary.mean, 5.5);
  EXPECT_DOUBLE_EQ(summary.stddev, 3.0276503540974917);
  EXPECT_DOUBLE_EQ(summary.mad, 2.5);
  EXPECT_DOUBLE_EQ(summary.p5, 1.45);
  EXPECT_DOUBLE_EQ(summary.p95, 9.55);
  // The tables of the sign test: ranks 2 and 9 of 10.
  ASSERT_TRUE(summary.ci.has_value());
  EXPECT_EQ(summary.ci->low, 2);
  EXPECT_EQ(summary.ci->high, 9);
  EXPECT_DOUBLE_EQ(RelativeWidth(summary), 7 / 5.5);
}

TEST(SummaryTest, FewSamplesHaveNoInterval) {
  const double samples[] = {3, 1, 2, 5, 4, 6};
  EXPECT_FALSE(Summarize({samples, 1}).ci.has_value());
  EXPECT_EQ(Summarize({samples, 1}).stddev, 0);
  EXPECT_EQ(Summarize({samples, 1}).p95, 3);
  EXPECT_FALSE(Summarize({samples, 5}).ci.has_value());
  EXPECT_TRUE(std::isinf(RelativeWidth(Summarize({samples, 5}))));
  const auto interval = Summarize({samples, 6}).ci;
  ASSERT_TRUE(interval.has_value());
  EXPECT_EQ(interval->low, 1);
  EXPECT_EQ(interval->high, 6);
}

TEST(SummaryTest, CoinTails) {
  EXPECT_NEAR(CoinTail(6, 0), 1.0 / 64, 1e-15);
  EXPECT_NEAR(CoinTail(10, 1), 11.0 / 1024, 1e-15);
  EXPECT_NEAR(CoinTail(1, 1), 1, 1e-15);
  EXPECT_NEAR(CoinTail(4001, 2000), 0.5, 1e-9);
}

// How often, of `trials`, the interval of `count` samples covers `median`.
template <class Draw>
double Coverage(int trials, int count, double median, const Draw& draw) {
  int covered = 0;
  std::vector<double> samples(static_cast<size_t>(count));
  for (int trial = 0; trial < trials; ++trial) {
    for (double& sample : samples) sample = draw();
    const auto interval = Summarize(samples).ci;
    covered += interval && interval->low <= median && median <= interval->high;
  }
  return static_cast<double>(covered) / trials;
}

TEST(MedianIntervalTest, CoversTheMedianOfAnyDistribution) {
  std::mt19937_64 random(1);
  std::normal_distribution<double> normal;
  std::exponential_distribution<double> exponential;
  std::bernoulli_distribution is_slow(0.4);
  for (const int count : {6, 10, 25, 200}) {
    // Three standard deviations of the simulation below 0.95.
    EXPECT_GE(Coverage(2000, count, 1, [&] { return 1 + 0.01 * normal(random); }), 0.935) << count;
    EXPECT_GE(Coverage(2000, count, std::log(2.0), [&] { return exponential(random); }), 0.935)
        << count;
    // Two speeds of a machine; the median lies in the faster one, 5/6 of the way up.
    const auto two_speeds = [&] {
      std::uniform_real_distribution<double> uniform(0, 1);
      return (is_slow(random) ? 5 : 1) + uniform(random);
    };
    EXPECT_GE(Coverage(2000, count, 1 + 5.0 / 6, two_speeds), 0.935) << count;
  }
}

// An interval that is always right because it is far too wide says nothing.
TEST(MedianIntervalTest, IsNoWiderThanItMustBe) {
  std::mt19937_64 random(2);
  std::normal_distribution<double> normal;
  double width = 0;
  constexpr int kTrials = 500, kCount = 400;
  for (int trial = 0; trial < kTrials; ++trial) {
    std::vector<double> samples;
    for (int i = 0; i < kCount; ++i) samples.push_back(normal(random));
    const auto interval = Summarize(samples).ci;
    width += (interval->high - interval->low) / kTrials;
  }
  // Asymptotically 2 * 1.96 * sqrt(pi / 2 / n).
  const double ideal = 2 * 1.96 * std::sqrt(3.14159265 / 2 / kCount);
  EXPECT_LT(width, 1.2 * ideal);
  EXPECT_GT(width, 0.95 * ideal);
}

// Slow spells: neighbours resemble each other, so that there is less to learn from each sample.
TEST(MedianIntervalTest, WidensForTimesThatDependOnTheirNeighbours) {
  std::mt19937_64 random(3);
  std::normal_distribution<double> normal;
  for (const double keep : {0.5, 0.8}) {
    double state = 0;
    const double step = std::sqrt(1 - keep * keep);
    const auto chain = [&] { return state = keep * state + step * normal(random); };
    EXPECT_GE(Coverage(2000, 200, 0, chain), 0.90) << keep;
  }
}

}  // namespace
}  // namespace convgrad
