// The verdict of a comparison: tolerances and their texts, levels, special values, and the numbers
// of a report.
#include "verify/compare/compare.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "conv/compute.h"
#include "support/operands.h"
#include "support/special_values.h"
#include "support/verdict_testing.h"

namespace convgrad {
namespace {

using testing::TensorOf;

using testing::kInfinity;
using testing::kNaN;

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
  EXPECT_EQ(ParseAccumulator("tf32").format(), kTf32Format);
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
  // As doubles they are the same.
  EXPECT_EQ(result.needs.abs, 1);
  const auto status_of = [&](const char* tolerance) {
    CompareOptions options;
    options.tolerance = ParseTolerance(tolerance);
    return CompareTensors(a, b, options, Parallel(1)).status;
  };
  EXPECT_EQ(status_of("abs:0"), Verdict::kFailed);
  EXPECT_EQ(status_of("rel:1e-20"), Verdict::kFailed);
  EXPECT_EQ(status_of("abs:1"), Verdict::kPassed);
}

// Distances beyond 2^53 are none of a double: what is said to pass does.
TEST(CompareTensors, SaysWhatPasses) {
  Tensor a(DType::kFloat64, {1}), b(DType::kFloat64, {1});
  b.mutable_data<double>()[0] = 0;
  for (const double number : {0.3, 0.7, 1e-5, 3e300}) {
    a.mutable_data<double>()[0] = number;
    const CheckResult::Needs needs = CompareTensors(a, b, {}, Parallel(1)).needs;
    CompareOptions options;
    options.tolerance = ParseTolerance(fmt::format("ulp:{:.0f}", needs.ulp));
    EXPECT_EQ(CompareTensors(a, b, options, Parallel(1)).status, Verdict::kPassed) << number;
    options.tolerance = ParseTolerance(fmt::format("abs:{}", needs.abs));
    EXPECT_EQ(CompareTensors(a, b, options, Parallel(1)).status, Verdict::kPassed) << number;
  }
}

TEST(CompareTensors, AnotherShapeIsIncomparable) {
  const CheckResult shape = CompareTensors(VectorOf({1, 2}), VectorOf({1}), {}, Parallel(1));
  EXPECT_EQ(shape.status, Verdict::kFailed);
  EXPECT_EQ(shape.reason, "incomparable");
  EXPECT_EQ(shape.detail, "float32 [2] against float32 [1]");
}

TEST(CompareTensors, NothingEqualsNothing) {
  EXPECT_EQ(Diff({}, {}, "auto").status, Verdict::kPassed);
  EXPECT_EQ(ExitCodeOf(Verdict::kPassed, /*allow_suspect=*/false), ExitCode::kOk);
  EXPECT_EQ(ExitCodeOf(Verdict::kSuspect, /*allow_suspect=*/false), ExitCode::kWrong);
  EXPECT_EQ(ExitCodeOf(Verdict::kSuspect, /*allow_suspect=*/true), ExitCode::kOk);
  EXPECT_EQ(ExitCodeOf(Verdict::kFailed, /*allow_suspect=*/true), ExitCode::kWrong);
}

}  // namespace
}  // namespace convgrad
