// The calibrated verdict on single sums, and the tails that it stands on.
#include "verify/odds/odds.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "support/verdict_testing.h"
#include "verify/compare/compare.h"
#include "verify/odds/tails.h"

namespace convgrad {
namespace {

using testing::CheckDot;
using testing::DotProblem;
using ::testing::HasSubstr;
using testing::TensorOf;

TEST(Tails, AreThoseOfNormalAndChiSquareDistributions) {
  // P(|Z| > 7.5) of a normal Z is 6.4e-14, P(mean square of 10 is over 6) 3.6e-9: bounds lie above.
  EXPECT_GT(LogOddsOfWorst(7.5, 1), std::log(6.4e-14));
  EXPECT_LT(LogOddsOfWorst(7.5, 1), std::log(6.4e-14) + std::log(100));
  EXPECT_NEAR(LogOddsOfWorst(7.5, 1000), LogOddsOfWorst(7.5, 1) + std::log(1000), 1e-12);
  EXPECT_GT(LogOddsOfSquares(6, 10), std::log(3.6e-9));
  EXPECT_LT(LogOddsOfSquares(6, 10), std::log(3.6e-9) + std::log(100));
  EXPECT_EQ(LogOddsOfSquares(1, 1000), 0);
  EXPECT_EQ(LogOddsOfWorst(1, 1000), 0);
  EXPECT_DOUBLE_EQ(LogOddsOfMean(0.5, 64), LogOddsOfMean(-0.5, 64));
  EXPECT_NEAR(LogOddsOfMean(0.5, 64), std::log(2) - 8, 1e-12);
  EXPECT_EQ(LogOddsOfWorst(9, 0), 0);
}

// Whatever the order, and however pieces are joined.
TEST(OddsTally, JoinsInAnyOrder) {
  std::mt19937_64 random(1);
  std::vector<Deviation> deviations(5000);
  for (Deviation& deviation : deviations) {
    deviation = {std::normal_distribution<double>()(random) * 3, 1, 2};
  }
  OddsTally whole;
  OddsTally parts[3];
  for (size_t i = 0; i < deviations.size(); ++i) {
    whole.Add(deviations[i], static_cast<int64_t>(i));
    parts[i * 7919 % 3].Add(deviations[i], static_cast<int64_t>(i));
  }
  OddsTally joined;
  for (const int part : {2, 0, 1}) joined.Join(parts[part]);
  EXPECT_EQ(joined.count(), whole.count());
  EXPECT_EQ(joined.MeanSquareInAny(), whole.MeanSquareInAny());
  EXPECT_NEAR(whole.MeanSquareInUsual(), 9, 1);
  EXPECT_NEAR(whole.MeanSquareInAny(), whole.MeanSquareInUsual() / 4, 0.01);
  const auto a = joined.in_any().Sorted(), b = whole.in_any().Sorted();
  ASSERT_EQ(a.size(), Largest::kMost);
  ASSERT_EQ(b.size(), Largest::kMost);
  for (size_t i = 0; i < a.size(); ++i) EXPECT_EQ(a[i].element, b[i].element);
}

// Ten thousand equal terms: real sums of them are off by more than independent roundings would be,
// all in one direction, and so may others.
TEST(Odds, WhatSumsInTheirOwnOrderLosePasses) {
  const std::vector<double> x(10'000, 0.7), y(10'000, 0.3);
  const double sum = 10'000 * static_cast<double>(0.7f) * static_cast<double>(0.3f);
  const double u = 0x1p-24;
  const auto check = [&](double units) {
    return CheckDot(DType::kFloat32, x, y, sum * (1 + units * u));
  };
  EXPECT_EQ(check(700).status, Verdict::kPassed);
  EXPECT_EQ(check(900).status, Verdict::kPassed);
  EXPECT_THAT(check(900).reason, HasSubstr("no farther off than float32 sums of these terms"));
  EXPECT_EQ(check(9'000).status, Verdict::kFailed);
  EXPECT_THAT(check(9'000).reason, HasSubstr("but for odds below 1e-300 (of the worst element)"));
  EXPECT_EQ(check(11'000).status, Verdict::kFailed);
  EXPECT_THAT(check(11'000).reason, HasSubstr("1 of 1 elements is farther off than any order"));
  EXPECT_EQ(check(11'000).odds->at_most, 0);
  const CheckResult blind = check(0);
  EXPECT_NEAR(blind.hidden_terms, 10'000.0 * 10'000 * u, 0.1);
  EXPECT_THAT(blind.detail, HasSubstr("probe"));
}

// With terms of both signs, partial sums are small in usual orders and could be large in others.
struct MixedTerms {
  std::vector<double> x, y;
  double sum = 0;

  MixedTerms() {
    for (int i = 0; i < 10'000; ++i) {
      x.push_back(static_cast<float>((i % 2 == 0 ? 0.7 : -0.7) * (1 + i * 1e-5)));
      y.push_back(static_cast<float>(0.3 + (i * 7919 % 10'000) * 1e-6));
      sum += x.back() * y.back();
    }
  }
  CheckResult Check(double error) const { return CheckDot(DType::kFloat32, x, y, sum + error); }
};

TEST(Odds, BetweenUsualAndExcludedIsSuspect) {
  const MixedTerms terms;  // usual: 8 sqrt(K) u Q = 0.001; any order: sqrt(K) u S / 2 = 0.006
  EXPECT_EQ(terms.Check(0.0005).status, Verdict::kPassed);
  const CheckResult suspect = terms.Check(0.01);
  EXPECT_EQ(suspect.status, Verdict::kSuspect) << suspect.reason;
  EXPECT_THAT(suspect.reason, HasSubstr("though some order of summation could go there (odds "));
  EXPECT_THAT(suspect.detail, HasSubstr("gen --fill integer"));
  EXPECT_GT(suspect.odds->at_most, 1e-12);
  const CheckResult failed = terms.Check(0.1);
  EXPECT_EQ(failed.status, Verdict::kFailed);
  EXPECT_THAT(failed.reason, HasSubstr("no order of float32 summation goes so far"));
  EXPECT_LT(failed.odds->at_most, 1e-12);
  EXPECT_EQ(failed.counts.fail, 0);
}

// The same error at other odds.
TEST(Odds, AreTheUsersToSay) {
  const MixedTerms terms;
  const Problem problem = DotProblem(DType::kFloat32, terms.x.size());
  const Tensor first = TensorOf(DType::kFloat32, problem.InputShape(), terms.x);
  const Tensor second = TensorOf(DType::kFloat32, problem.FilterShape(), terms.y);
  const auto status = [&](double odds) {
    CompareOptions options;
    options.odds = odds;
    return CompareToExact(problem, first, second,
                          TensorOf(DType::kFloat32, {1, 1, 1, 1}, {terms.sum + 0.03}), options,
                          Parallel(1))
        .status;
  };
  EXPECT_EQ(status(0.1), Verdict::kFailed);
  EXPECT_EQ(status(1e-100), Verdict::kSuspect);
}

// A chain's own numbers, whatever they are.
TEST(Odds, APlainOrderThatGivesTheNumbersPasses) {
  std::vector<double> x = {1e4}, y = {1};
  for (int i = 0; i < 3'000; ++i) {
    x.push_back(static_cast<float>(0.0003 + i * 1e-8));
    y.push_back(1);
  }
  float sum = 0;
  for (const double term : x) sum += static_cast<float>(term);  // all but the first are lost
  ASSERT_EQ(sum, 1e4f);
  const CheckResult result = CheckDot(DType::kFloat32, x, y, sum);
  EXPECT_EQ(result.status, Verdict::kPassed) << result.reason;
  EXPECT_THAT(result.reason, HasSubstr("the very numbers that float32 sums one after another"));
  EXPECT_EQ(result.where, "");
}

// Sums in TF32 pass where they are said to be meant, and only there.
TEST(Odds, SumsInTf32PassWhereTheyAreMeant) {
  std::vector<double> x, y;
  double sum = 0;
  for (int i = 0; i < 500; ++i) {
    x.push_back(static_cast<float>(0.1 + (i * 7919 % 500) * 1e-3));
    y.push_back(static_cast<float>(0.5 + (i * 31 % 500) * 1e-3));
    sum = kTf32Format.Rounded(sum + kTf32Format.Rounded(x.back() * y.back()));
  }
  EXPECT_EQ(CheckDot(DType::kFloat32, x, y, sum).status, Verdict::kFailed);
  const CheckResult meant =
      CheckDot(DType::kFloat32, x, y, sum, Accumulator(DType::kFloat32, /*tf32=*/true));
  EXPECT_EQ(meant.status, Verdict::kPassed) << meant.reason;
  EXPECT_EQ(meant.odds->accumulator, kTf32Format);
  EXPECT_EQ(CheckDot(DType::kFloat32, x, y, sum * 1.5, Accumulator(DType::kFloat32, true)).status,
            Verdict::kFailed);
}

}  // namespace
}  // namespace convgrad
