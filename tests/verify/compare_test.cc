// What a comparison says: tolerances and their texts, levels, special values, and the numbers
// of a report.
#include "verify/compare/compare.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "conv/compute.h"
#include "support/operands.h"

namespace convgrad {
namespace {

using ::testing::HasSubstr;
using testing::TensorOf;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

Tensor VectorOf(const std::vector<double>& values, DType dtype = DType::kFloat32) {
  return TensorOf(dtype, {static_cast<int64_t>(values.size())}, values);
}

CheckResult Diff(const std::vector<double>& actual, const std::vector<double>& expected,
                 const std::string& tolerance, DType dtype = DType::kFloat32) {
  CompareOptions options;
  options.tolerance = ParseTolerance(tolerance);
  return CompareTensors(VectorOf(actual, dtype), VectorOf(expected, dtype), options, Parallel(1));
}

TEST(Tolerance, ReadsBackWhatItPrints) {
  for (const std::string text :
       {"auto", "bits", "ulp:0", "ulp:4", "abs:1e-06", "rel:0.5", "rtol:1e-05,atol:1e-08"}) {
    EXPECT_EQ(ParseTolerance(text).ToString(), text);
  }
  EXPECT_EQ(ParseTolerance("atol:1,rtol:2").ToString(), "rtol:2,atol:1");
}

TEST(Tolerance, RefusesWhatIsNoTolerance) {
  for (const std::string text : {"",
                                 "Auto",
                                 "ulp",
                                 "ulp:",
                                 "ulp:-1",
                                 "ulp:1.5",
                                 "ulp:1e3",
                                 "abs:-1",
                                 "abs:nan",
                                 "abs:inf",
                                 "abs:1e999",
                                 "abs:-0",
                                 "rel:",
                                 "rel:1 ",
                                 "rel:0x1",
                                 "abs:1,rel:1",
                                 "rtol:1",
                                 "atol:1",
                                 "rtol:1,rtol:2",
                                 "rtol:1,atol:",
                                 "rtol:1,atol:1,",
                                 "bits:1",
                                 "1e-5"}) {
    try {
      ParseTolerance(text);
      ADD_FAILURE() << "'" << text << "' was accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.exit_code(), ExitCode::kUsage) << text;
      EXPECT_EQ(error.code(), "tolerance/syntax") << text;
    }
  }
  EXPECT_THROW(ParseAccumulator("f8"), Error);
  EXPECT_EQ(ParseAccumulator("bf16"), DType::kBFloat16);
}

TEST(CompareTensors, AutoMeansBits) {
  EXPECT_EQ(Diff({1, 2}, {1, 2}, "auto").status, Verdict::kPassed);
  const CheckResult result = Diff({1, 2}, {1, 2 + 0x1p-22}, "auto");
  EXPECT_EQ(result.status, Verdict::kFailed);
  EXPECT_EQ(result.policy, "bits");
  EXPECT_EQ(result.counts.differ, 1);
  EXPECT_EQ(result.needs.ulp, 1);
  EXPECT_EQ(result.where, "one element [1]");
  EXPECT_TRUE(std::isnan(result.power));
}

TEST(CompareTensors, ZerosOfBothSignsDifferByBitsOnly) {
  const CheckResult bits = Diff({0.0}, {-0.0}, "bits");
  EXPECT_EQ(bits.status, Verdict::kFailed);
  EXPECT_EQ(bits.counts.differ, 1);
  const CheckResult ulps = Diff({0.0}, {-0.0}, "ulp:0");
  EXPECT_EQ(ulps.status, Verdict::kPassed);
  EXPECT_EQ(ulps.counts.differ, 0);
}

TEST(CompareTensors, EachToleranceDrawsItsLine) {
  const double step = 0x1p-23;
  const auto status = [&](double actual, double expected, const std::string& tolerance) {
    return Diff({actual}, {expected}, tolerance).status;
  };
  const Verdict pass = Verdict::kPassed, fail = Verdict::kFailed;
  EXPECT_EQ(status(1 + 4 * step, 1, "ulp:4"), pass);
  EXPECT_EQ(status(1 + 5 * step, 1, "ulp:4"), fail);
  EXPECT_EQ(status(-0x1p-149, 0x1p-149, "ulp:2"), pass);
  EXPECT_EQ(status(-0x1p-149, 0x1p-149, "ulp:1"), fail);
  EXPECT_EQ(status(1.25, 1, "abs:0.25"), pass);
  EXPECT_EQ(status(1.25 + step, 1, "abs:0.25"), fail);
  EXPECT_EQ(status(5, 4, "rel:0.25"), pass);
  EXPECT_EQ(status(4, 5, "rel:0.19"), fail);
  EXPECT_EQ(status(0x1p-149, 0, "rel:1000"), fail);
  EXPECT_EQ(status(4.5, 4, "rtol:0.0625,atol:0.25"), pass);
  EXPECT_EQ(status(4.75, 4, "rtol:0.0625,atol:0.25"), fail);
}

// A fifth more than is allowed fails and a fifth less passes, in both directions.
TEST(CompareTensors, TolerancesAreAsWideAsTheySay) {
  for (const std::string text :
       {"abs:0.5", "rel:0.125", "rtol:0,atol:0.5", "rtol:0.125,atol:0", "rtol:0.0625,atol:0.25"}) {
    const Tolerance tolerance = ParseTolerance(text);
    for (const DType dtype :
         {DType::kFloat16, DType::kBFloat16, DType::kFloat32, DType::kFloat64}) {
      for (const double expected : {-4.0, 0.5, 3.0}) {
        const double allowed = tolerance.absolute + tolerance.relative * std::fabs(expected);
        for (const double part : {1.2, -1.2, 0.8, -0.8}) {
          const CheckResult result = Diff({expected + part * allowed}, {expected}, text, dtype);
          EXPECT_EQ(result.status, std::fabs(part) > 1 ? Verdict::kFailed : Verdict::kPassed)
              << text << " of " << expected << " in " << InfoOf(dtype).name << ", " << part;
        }
      }
    }
  }
}

TEST(CompareTensors, SpecialValuesMatchThemselvesOnly) {
  for (const std::string tolerance :
       {"bits", "ulp:18446744073709551615", "abs:1e300", "rel:1e300", "rtol:1e300,atol:1e300"}) {
    EXPECT_EQ(Diff({kNaN, kInfinity}, {-kNaN, kInfinity}, tolerance).status, Verdict::kPassed);
    EXPECT_EQ(Diff({kNaN}, {1}, tolerance).status, Verdict::kFailed) << tolerance;
    EXPECT_EQ(Diff({1}, {kNaN}, tolerance).status, Verdict::kFailed) << tolerance;
    if (tolerance[0] == 'u') continue;  // infinity is one ULP from the largest number
    EXPECT_EQ(Diff({kInfinity}, {-kInfinity}, tolerance).status, Verdict::kFailed) << tolerance;
    EXPECT_EQ(Diff({1}, {kInfinity}, tolerance).status, Verdict::kFailed) << tolerance;
    EXPECT_EQ(Diff({kInfinity}, {1}, tolerance).status, Verdict::kFailed) << tolerance;
  }
  EXPECT_EQ(Diff({65504}, {kInfinity}, "ulp:1", DType::kFloat16).status, Verdict::kPassed);
}

TEST(CompareTensors, NeedsAreTolerancesThatPass) {
  const std::vector<double> actual = {1, 2.5, -3, 1e-30}, expected = {1.1, 2.5, -3.3, 2e-30};
  const CheckResult result = Diff(actual, expected, "bits");
  ASSERT_EQ(result.status, Verdict::kFailed);
  const auto status = [&](const Tolerance& tolerance) {
    return Diff(actual, expected, tolerance.ToString()).status;
  };
  Tolerance tolerance;
  tolerance.kind = Tolerance::Kind::kAbs;
  tolerance.absolute = result.needs.abs;
  EXPECT_EQ(status(tolerance), Verdict::kPassed);
  tolerance.absolute = std::nextafter(result.needs.abs, 0);
  EXPECT_EQ(status(tolerance), Verdict::kFailed);
  tolerance.kind = Tolerance::Kind::kRel;
  tolerance.relative = result.needs.rel;
  EXPECT_EQ(status(tolerance), Verdict::kPassed);
  tolerance.relative = std::nextafter(result.needs.rel, 0);
  EXPECT_EQ(status(tolerance), Verdict::kFailed);
  tolerance.kind = Tolerance::Kind::kUlp;
  tolerance.ulp = static_cast<uint64_t>(result.needs.ulp);
  EXPECT_EQ(status(tolerance), Verdict::kPassed);
  tolerance.ulp -= 1;
  EXPECT_EQ(status(tolerance), Verdict::kFailed);
}

TEST(CompareTensors, NoToleranceMendsANaN) {
  const CheckResult result = Diff({kNaN, 1}, {1, 1}, "bits");
  EXPECT_EQ(result.needs.ulp, kInfinity);
  EXPECT_EQ(result.needs.abs, kInfinity);
  EXPECT_EQ(result.needs.rel, kInfinity);
}

TEST(CompareTensors, NamesTheWorstByEachMeasure) {
  const CheckResult result = Diff({100, 1, 0x1p-140}, {101, 1.5, 0x1p-141}, "bits");
  EXPECT_EQ(result.worst.abs->index, Shape{0});
  EXPECT_EQ(result.worst.abs->value, 1);
  EXPECT_EQ(result.worst.abs->actual_bits, 0x42C80000u);
  EXPECT_EQ(result.worst.abs->expected_bits, 0x42CA0000u);
  EXPECT_EQ(result.worst.rel->index, Shape{2});
  EXPECT_EQ(result.worst.rel->value, 1);
  EXPECT_EQ(result.worst.ulp->index, Shape{1});
  EXPECT_EQ(result.worst.ulp->value, 0x1p22);
  EXPECT_FALSE(result.worst.bound.has_value());
  EXPECT_EQ(result.actual.subnormal, 1);
}

TEST(CompareTensors, TakesIntegers) {
  Tensor a(DType::kInt64, {2}), b(DType::kInt64, {2});
  a.mutable_data<int64_t>()[0] = b.mutable_data<int64_t>()[0] = 7;
  a.mutable_data<int64_t>()[1] = std::numeric_limits<int64_t>::max();
  b.mutable_data<int64_t>()[1] = std::numeric_limits<int64_t>::max() - 1;
  const CheckResult result = CompareTensors(a, b, {}, Parallel(1));
  EXPECT_EQ(result.status, Verdict::kFailed);
  EXPECT_EQ(result.needs.ulp, 1);
}

TEST(CompareTensors, AnotherShapeOrTypeIsIncomparable) {
  const CheckResult shape = CompareTensors(VectorOf({1, 2}), VectorOf({1}), {}, Parallel(1));
  EXPECT_EQ(shape.status, Verdict::kFailed);
  EXPECT_EQ(shape.reason, "incomparable");
  EXPECT_EQ(shape.detail, "float32 [2] against float32 [1]");
  const CheckResult type =
      CompareTensors(VectorOf({1}), VectorOf({1}, DType::kFloat64), {}, Parallel(1));
  EXPECT_EQ(type.reason, "incomparable");
}

TEST(CompareTensors, NothingEqualsNothing) {
  EXPECT_EQ(Diff({}, {}, "auto").status, Verdict::kPassed);
  EXPECT_EQ(ExitCodeOf(Verdict::kSuspect, false), ExitCode::kOk);
  EXPECT_EQ(ExitCodeOf(Verdict::kSuspect, true), ExitCode::kWrong);
  EXPECT_EQ(ExitCodeOf(Verdict::kFailed, false), ExitCode::kWrong);
}

// --- by the data: sums of one 1x1 convolution ---

Problem DotProblem(DType dtype, size_t terms) {
  ConvSpec spec;
  spec.op = Op::kConv2D;
  spec.dtype = dtype;
  spec.input = Shape{1, 1, 1, static_cast<int64_t>(terms)};
  spec.filter = Shape{1, 1, static_cast<int64_t>(terms), 1};
  return MakeProblem(spec);
}

CheckResult CheckDot(DType dtype, const std::vector<double>& x, const std::vector<double>& y,
                     double golden, std::optional<DType> accumulator = std::nullopt) {
  const Problem problem = DotProblem(dtype, x.size());
  const Tensor first = TensorOf(dtype, problem.InputShape(), x);
  const Tensor second = TensorOf(dtype, problem.FilterShape(), y);
  const Tensor actual = Compute(problem, first, second, Execution{});
  CompareOptions options;
  options.golden_accumulator = accumulator;
  return CompareToGolden(problem, first, second, actual, TensorOf(dtype, {1, 1, 1, 1}, {golden}),
                         options, Parallel(1));
}

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

TEST(Bound, BetweenUsualAndCertainIsSuspect) {
  const std::vector<double> x(10'000, 0.7), y(10'000, 0.3);
  const double sum = 10'000 * static_cast<double>(0.7f) * static_cast<double>(0.3f);
  const double u = 0x1p-24;
  EXPECT_EQ(CheckDot(DType::kFloat32, x, y, sum * (1 + 700 * u)).status, Verdict::kPassed);
  EXPECT_EQ(CheckDot(DType::kFloat32, x, y, sum * (1 + 900 * u)).status, Verdict::kSuspect);
  EXPECT_EQ(CheckDot(DType::kFloat32, x, y, sum * (1 + 9'000 * u)).status, Verdict::kSuspect);
  EXPECT_EQ(CheckDot(DType::kFloat32, x, y, sum * (1 + 11'000 * u)).status, Verdict::kFailed);
  const CheckResult blind = CheckDot(DType::kFloat32, x, y, sum);
  EXPECT_NEAR(blind.hidden_terms, 10'000.0 * 10'000 * u, 0.1);
  EXPECT_THAT(blind.detail, HasSubstr("probe"));
}

TEST(Bound, SixteenBitSumsAreSuspectUntilTheAccumulatorIsKnown) {
  const std::vector<double> x(1'000, 1.1), y(1'000, 0.9);
  const double stalled = 256;  // where bfloat16 sums of ones stop growing
  const auto check = [&](std::optional<DType> accumulator) {
    return CheckDot(DType::kBFloat16, x, y, stalled, accumulator);
  };
  EXPECT_EQ(check(std::nullopt).status, Verdict::kSuspect);
  EXPECT_THAT(check(std::nullopt).reason, HasSubstr("only if summed in bfloat16"));
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
  EXPECT_NE(CheckDot(DType::kFloat16, x, y, 0).status, Verdict::kFailed);
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
