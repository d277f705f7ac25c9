// Comparison by the data: the exact class, and bounds that follow from each element's terms.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "conv/compute.h"
#include "support/operands.h"
#include "support/special_values.h"
#include "support/verdict_testing.h"
#include "verify/compare/compare.h"

namespace convgrad {
namespace {

using testing::CheckDot;
using testing::DotProblem;
using ::testing::HasSubstr;
using testing::TensorOf;

using testing::kInfinity;
using testing::kNaN;

TEST(ExactClass, IsAnyPowerOfTwoTimesSmallIntegers) {
  for (const double unit : {1.0, 0x1p-60, 0x1p40}) {
    const CheckResult right = CheckDot(DType::kFloat32, {3 * unit, 5 * unit}, {7, -2}, 11 * unit);
    EXPECT_EQ(right.policy, "exact class");
    EXPECT_EQ(right.status, Verdict::kPassed) << right.reason;
    EXPECT_EQ(right.power, unit);
    const CheckResult wrong =
        CheckDot(DType::kFloat32, {3 * unit, 5 * unit}, {7, -2}, (11 + 0x1p-20) * unit);
    EXPECT_EQ(wrong.status, Verdict::kFailed);
  }
}

TEST(ExactClass, EndsWhereTheAccumulatorRounds) {
  EXPECT_EQ(CheckDot(DType::kFloat32, {0x1p24 - 1, 0}, {1, 1}, 0x1p24 - 1).policy, "exact class");
  EXPECT_EQ(CheckDot(DType::kFloat32, {0x1p24 - 1, 1}, {1, 1}, 0x1p24).policy, "bound");
  EXPECT_EQ(CheckDot(DType::kFloat64, {0x1p24 - 1, 1}, {1, 1}, 0x1p24).policy, "exact class");
  const auto policy = [](std::optional<DType> accumulator) {
    return CheckDot(DType::kFloat16, {2047, 2}, {1, 1}, 2049, accumulator).policy;
  };
  EXPECT_EQ(policy(std::nullopt), "exact class");
  EXPECT_EQ(policy(DType::kFloat16), "bound");
}

TEST(ExactClass, ZerosOfBothSignsAreEqual) {
  EXPECT_EQ(CheckDot(DType::kFloat32, {1, 1}, {1, -1}, -0.0).status, Verdict::kPassed);
}

TEST(Bound, FollowsFromTheTerms) {
  // Cancellation: S is 2e6 while the sum is 0.1; no order is off by more than 3*u*S.
  const std::vector<double> x = {1e6, -1e6, 0.1f}, y = {1.0000001f, 1.0000001f, 1};
  const double allowed = 3 * 0x1p-24 * 2e6;
  EXPECT_EQ(CheckDot(DType::kFloat32, x, y, 0.1 + 0.9 * allowed).status, Verdict::kPassed);
  const CheckResult wrong = CheckDot(DType::kFloat32, x, y, 0.1 + 1.1 * allowed);
  EXPECT_EQ(wrong.status, Verdict::kFailed);
  EXPECT_EQ(wrong.policy, "bound");
  EXPECT_NEAR(wrong.worst.bound->value, 1.1, 0.01);
  EXPECT_NEAR(wrong.power, allowed, allowed * 0.01);
  EXPECT_THAT(wrong.reason, HasSubstr("1 of 1 elements is farther off than any order of float32"));
}

// At precision exact a result is held to its exact sum, though its data allow more.
TEST(Bound, OfAnExactResultIsItsExactSum) {
  const Problem problem = DotProblem(DType::kFloat32, 3);
  const Tensor x = TensorOf(DType::kFloat32, problem.InputShape(), {1, 0x1p-24, 0x1p-60});
  const Tensor ones = TensorOf(DType::kFloat32, problem.FilterShape(), {1, 1, 1});
  CompareOptions options;
  options.precision = Precision::kExact;
  const auto check = [&](double value) {
    const Tensor actual = TensorOf(DType::kFloat32, problem.ResultShape(), {value});
    return CompareToReference(problem, x, ones, actual, options, Parallel(1));
  };
  EXPECT_EQ(check(1 + 0x1p-23).reason,
            "the exact sum, rounded once to nearest, in the only element");
  EXPECT_EQ(check(1).status, Verdict::kFailed);
  EXPECT_EQ(check(1).reason, "1 of 1 elements is not the exact sum, rounded once to nearest");
}

TEST(Bound, SixteenBitSumsFailUntilTheyAreSaidToBeMeant) {
  const std::vector<double> x(1'000, 1.1), y(1'000, 0.9);
  const double stalled = 256;  // where bfloat16 sums of ones stop growing
  const auto check = [&](std::optional<DType> accumulator) {
    return CheckDot(DType::kBFloat16, x, y, stalled, accumulator);
  };
  EXPECT_EQ(check(std::nullopt).status, Verdict::kFailed);
  EXPECT_THAT(check(std::nullopt).reason, HasSubstr("not the exact value"));
  EXPECT_THAT(check(std::nullopt).detail, HasSubstr("--golden-accumulator bf16"));
  EXPECT_EQ(check(DType::kFloat32).status, Verdict::kFailed);
  EXPECT_NE(check(DType::kBFloat16).status, Verdict::kFailed);
}

TEST(Bound, OverflowIsRightWhereTheExactValueOverflows) {
  const std::vector<double> big = {60000, 60000}, ones = {1, 1}, signs = {1, -1};
  EXPECT_EQ(CheckDot(DType::kFloat16, big, ones, kInfinity).status, Verdict::kPassed);
  EXPECT_EQ(CheckDot(DType::kFloat16, big, ones, 65504).status, Verdict::kFailed);
  EXPECT_EQ(CheckDot(DType::kFloat16, big, ones, -kInfinity).status, Verdict::kFailed);
  EXPECT_EQ(CheckDot(DType::kFloat16, big, ones, kNaN).status, Verdict::kFailed);
  EXPECT_EQ(CheckDot(DType::kFloat16, big, {-1, -1}, kNaN).status, Verdict::kFailed);
  EXPECT_EQ(CheckDot(DType::kFloat16, big, signs, kInfinity, DType::kFloat32).status,
            Verdict::kFailed);
  const std::vector<double> huge = {3e38, 3e38, -3e38, -3e38}, four = {1.1, 1.1, 1.1, 1.1};
  EXPECT_EQ(CheckDot(DType::kFloat32, huge, four, 0).status, Verdict::kSuspect);  // ours is not 0
  EXPECT_EQ(CheckDot(DType::kFloat64, {1e308, 1e308}, {1, 1}, kInfinity).status, Verdict::kPassed);
  EXPECT_EQ(CheckDot(DType::kFloat64, {1e200, 0.1}, {1e200, 1}, kInfinity).status,
            Verdict::kPassed);
  EXPECT_EQ(CheckDot(DType::kFloat64, {1e200, 0.1}, {1e200, 1}, 1).status, Verdict::kFailed);
}

TEST(Bound, NonFiniteTermsDecide) {
  const auto status = [](double x, double y, double golden) {
    return CheckDot(DType::kFloat32, {0.1, x}, {0.1, y}, golden).status;
  };
  EXPECT_EQ(status(kInfinity, 1, kInfinity), Verdict::kPassed);
  EXPECT_EQ(status(kInfinity, 1, 1), Verdict::kFailed);
  EXPECT_EQ(status(kInfinity, 1, kNaN), Verdict::kFailed);
  EXPECT_EQ(status(kInfinity, -1, kInfinity), Verdict::kFailed);
  EXPECT_EQ(status(kInfinity, 0, kNaN), Verdict::kPassed);
  EXPECT_EQ(status(kInfinity, 0, 0.01), Verdict::kFailed);
  EXPECT_EQ(status(1, 1, kNaN), Verdict::kFailed);
}

TEST(Bound, FlushedSubnormalsAreSuspect) {
  const CheckResult result = CheckDot(DType::kFloat32, {1e-20, 1e-20}, {1e-19, 2e-19}, 0);
  EXPECT_EQ(result.status, Verdict::kSuspect) << result.reason;
  EXPECT_THAT(result.reason, HasSubstr("flushes subnormal"));
  // Each term may be flushed, not one alone: their sum is a normal number.
  const CheckResult both = CheckDot(DType::kFloat32, {1e-20, 1e-20}, {1.05e-18, 1.05e-18}, 0);
  EXPECT_EQ(both.status, Verdict::kSuspect) << both.reason;
}

// A golden is compared with a result that is held to what this program promises.
TEST(Bound, AWrongResultOfOursIsToldFromAWrongGolden) {
  const Problem problem = DotProblem(DType::kFloat32, 2);
  const Tensor first = TensorOf(DType::kFloat32, problem.InputShape(), {0.1f, 0.2f});
  const Tensor second = TensorOf(DType::kFloat32, problem.FilterShape(), {1, 1});
  const Tensor right = Compute(problem, first, second, Execution{});
  const Tensor wrong = TensorOf(DType::kFloat32, {1, 1, 1, 1}, {0.5});
  const auto compare = [&](const Tensor& actual, const Tensor& golden) {
    return CompareToGolden(problem, first, second, actual, golden, {}, Parallel(1));
  };
  EXPECT_EQ(compare(wrong, right).status, Verdict::kFailed);
  EXPECT_THAT(compare(wrong, right).detail, HasSubstr("breaks this program's promise at 1 of 1"));
  EXPECT_EQ(compare(right, wrong).status, Verdict::kFailed);
  EXPECT_EQ(compare(right, wrong).detail.find("promise"), std::string::npos);
}

TEST(Bound, Float16GoldensMayHaveLostTermsToUnderflow) {
  const std::vector<double> x(100, 0x1p-13), y(100, 0x1.8p-13);  // each product rounds to 0
  EXPECT_NE(CheckDot(DType::kFloat16, x, y, 0, DType::kFloat16).status, Verdict::kFailed);
  EXPECT_EQ(CheckDot(DType::kFloat16, x, y, 0).status, Verdict::kFailed);
  EXPECT_THAT(CheckDot(DType::kFloat16, x, y, 0).detail, HasSubstr("--golden-accumulator f16"));
  EXPECT_EQ(CheckDot(DType::kFloat16, x, y, 0x1p-16).status, Verdict::kFailed);
}

TEST(UsersTolerance, NeedsNoData) {
  const std::vector<double> x = {0.1f, 0.2f}, y = {1, 1};
  CompareOptions options;
  options.tolerance = ParseTolerance("abs:0.5");
  ConvSpec spec;
  spec.op = Op::kConv2D;
  spec.input = Shape{1, 1, 1, 2};
  spec.filter = Shape{1, 1, 2, 1};
  const Problem problem = MakeProblem(spec);
  const Tensor first = TensorOf(DType::kFloat32, *spec.input, x);
  const Tensor second = TensorOf(DType::kFloat32, *spec.filter, y);
  const Tensor actual = Compute(problem, first, second, Execution{});
  const auto check = [&](double golden) {
    return CompareToGolden(problem, first, second, actual,
                           TensorOf(DType::kFloat32, {1, 1, 1, 1}, {golden}), options, Parallel(1));
  };
  EXPECT_EQ(check(0.75).status, Verdict::kPassed);
  EXPECT_EQ(check(0.75).policy, "abs:0.5");
  EXPECT_EQ(check(0.75).power, 0.5);
  EXPECT_EQ(check(0.9).status, Verdict::kFailed);
  options.tolerance = ParseTolerance("ulp:0");
  EXPECT_EQ(CompareToReference(problem, first, second, actual, options, Parallel(1)).status,
            Verdict::kPassed);
}

}  // namespace
}  // namespace convgrad
