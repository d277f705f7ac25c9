// Verdicts on simulated measurements: how often each is given when the truth is known.
#include "measure/comparison.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <random>
#include <vector>

namespace convgrad {
namespace {

TEST(ComparisonTest, TheIntervalDecidesNotTheRatio) {
  const auto verdict = [](double low, double high) {
    return Compare(std::sqrt(low * high), Interval{low, high}, 0.05).verdict;
  };
  EXPECT_EQ(verdict(1.06, 1.10), Change::kSlower);
  EXPECT_EQ(verdict(1.04, 1.20), Change::kInconclusive);
  EXPECT_EQ(verdict(0.97, 1.05), Change::kSame);
  EXPECT_EQ(verdict(1.02, 1.04), Change::kSame);
  EXPECT_EQ(verdict(0.90, 0.95), Change::kFaster);
  EXPECT_EQ(verdict(0.90, 0.96), Change::kInconclusive);
  EXPECT_EQ(Compare(3, std::nullopt, 0.05).verdict, Change::kInconclusive);
  EXPECT_EQ(Compare(1.001, Interval{1.0005, 1.002}, 0).verdict, Change::kSlower);
}

TEST(ComparisonTest, JoinsTheIntervalsOfTwoRuns) {
  const Comparison sure = CompareRuns({2, Interval{2, 2}}, {1, Interval{1, 1}}, 0.05);
  EXPECT_DOUBLE_EQ(sure.ratio, 2);
  EXPECT_DOUBLE_EQ(sure.ci->low, 2);
  EXPECT_DOUBLE_EQ(sure.ci->high, 2);
  const Comparison joined = CompareRuns({2, Interval{1.9, 2.2}}, {1, Interval{1, 1}}, 0.05);
  EXPECT_NEAR(joined.ci->low, 1.9, 1e-12);
  EXPECT_NEAR(joined.ci->high, 2.2, 1e-12);
  EXPECT_EQ(CompareRuns({2, std::nullopt}, {1, Interval{1, 1}}, 0.05).verdict,
            Change::kInconclusive);
}

// Times as machines give them: a floor, and a tail upwards.
std::vector<double> Times(std::mt19937_64& random, double scale, int count) {
  std::lognormal_distribution<double> tail(-3.5, 1);
  std::vector<double> times;
  for (int i = 0; i < count; ++i) times.push_back(scale * (1 + tail(random)));
  return times;
}

Estimate EstimateOf(const std::vector<double>& times) {
  const Summary summary = Summarize(times);
  return {summary.median, summary.ci};
}

// How many of 1000 comparisons of two runs whose medians differ by `factor` got each verdict.
std::array<int, 4> Verdicts(double factor, int count) {
  std::mt19937_64 random(static_cast<uint64_t>(count));
  std::array<int, 4> verdicts = {};
  for (int trial = 0; trial < 1000; ++trial) {
    const Estimate before = EstimateOf(Times(random, 1, count));
    const Estimate now = EstimateOf(Times(random, factor, count));
    ++verdicts[static_cast<size_t>(CompareRuns(now, before, 0.05).verdict)];
  }
  return verdicts;
}

int Count(const std::array<int, 4>& verdicts, Change change) {
  return verdicts[static_cast<size_t>(change)];
}

TEST(ComparisonTest, VerdictsAreSeldomWrong) {
  // Nothing changed: hardly ever anything but SAME.
  const auto same = Verdicts(1, 100);
  EXPECT_EQ(Count(same, Change::kSlower) + Count(same, Change::kFaster), 0);
  EXPECT_GE(Count(same, Change::kSame), 950);
  // Exactly at the limit: at most every fortieth is called slower.
  EXPECT_LE(Count(Verdicts(1.05, 100), Change::kSlower), 45);
  EXPECT_LE(Count(Verdicts(1 / 1.05, 100), Change::kFaster), 45);
  // Clearly beyond it.
  EXPECT_GE(Count(Verdicts(1.15, 100), Change::kSlower), 990);
  EXPECT_GE(Count(Verdicts(0.85, 100), Change::kFaster), 990);
  // Too few samples to know.
  EXPECT_GE(Count(Verdicts(1.06, 6), Change::kInconclusive), 900);
}

TEST(ComparisonTest, TheRatiosIntervalCoversTheRatio) {
  std::mt19937_64 random(9);
  int covered = 0;
  for (int trial = 0; trial < 2000; ++trial) {
    const Estimate before = EstimateOf(Times(random, 1, 30));
    const Estimate now = EstimateOf(Times(random, 1.3, 50));
    const Comparison comparison = CompareRuns(now, before, 0.05);
    covered += comparison.ci->low <= 1.3 && 1.3 <= comparison.ci->high;
  }
  EXPECT_GE(covered, 1870);
}

// A disturbance that both of a pair suffered cancels.
TEST(ComparisonTest, PairsSeeThroughDrift) {
  std::mt19937_64 random(4);
  std::vector<double> now, before;
  for (int i = 0; i < 12; ++i) {
    const double drift = 1 + 0.5 * i;
    before.push_back(drift * Times(random, 1, 1)[0]);
    now.push_back(drift * Times(random, 1.5, 1)[0]);
  }
  EXPECT_EQ(ComparePairs(now, before, 0.05).verdict, Change::kSlower);
  EXPECT_EQ(ComparePairs(before, now, 0.05).verdict, Change::kFaster);
  EXPECT_EQ(ComparePairs(now, now, 0.05).verdict, Change::kSame);
  EXPECT_EQ(ComparePairs({now.data(), 3}, {before.data(), 3}, 0.05).verdict, Change::kInconclusive);
}

}  // namespace
}  // namespace convgrad
