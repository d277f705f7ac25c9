// Goldens and results of another float type than the problem's are judged by the type whose numbers
// they hold.
#include "verify/compare/other_type.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <tuple>

#include "conv/compute.h"
#include "support/draw.h"
#include "support/operands.h"
#include "verify/compare/compare.h"

namespace convgrad {
namespace {

using ::testing::HasSubstr;
using testing::TensorOf;

// Dot products of 64 terms of ten significant bits: exact in float64, rounded in float32 sums.
class OtherTypeTest : public ::testing::Test {
 protected:
  static constexpr int64_t kTerms = 64, kResults = 32;

  void SetDType(DType dtype) {
    ConvSpec spec;
    spec.op = Op::kConv2D;
    spec.dtype = dtype;
    spec.input = Shape{1, 1, kResults, kTerms};
    spec.filter = Shape{1, 1, kTerms, 1};
    problem_.emplace(MakeProblem(spec));
    testing::Draw draw(1);
    const auto fill = [&](const Shape& shape, int64_t size) {
      std::vector<double> values;
      for (int64_t i = 0; i < size; ++i) {
        values.push_back(std::ldexp(static_cast<double>(draw(-128, 127)), draw(0, 1) ? -7 : -14));
      }
      return TensorOf(dtype, shape, values);
    };
    first_ = fill(problem_->InputShape(), kResults * kTerms);
    second_ = fill(problem_->FilterShape(), kTerms);
    actual_ = Compute(*problem_, first_, second_, Execution{});
    exact_.assign(kResults, 0);
    for (int64_t i = 0; i < kResults; ++i) {
      for (int64_t k = 0; k < kTerms; ++k) {
        exact_[i] += ValueAt(first_, i * kTerms + k) * ValueAt(second_, k);
      }
    }
  }
  // The exact values and `change` of each, as a tensor of `dtype`.
  Tensor Result(DType dtype, double change = 0) const {
    std::vector<double> values = exact_;
    for (double& value : values) value += change * value;
    return TensorOf(dtype, actual_.shape(), values);
  }
  CheckResult Golden(const Tensor& golden, const std::string& tolerance = "auto") const {
    CompareOptions options;
    options.tolerance = ParseTolerance(tolerance);
    const CheckResult result =
        CompareToGolden(*problem_, first_, second_, actual_, golden, options, Parallel(1));
    if (tolerance == "auto") {
      const CheckResult yours =
          CompareToExact(*problem_, first_, second_, golden, options, Parallel(1));
      EXPECT_EQ(yours.status, result.status) << yours.reason << "\n" << result.reason;
    }
    return result;
  }

  std::optional<Problem> problem_;
  Tensor first_, second_, actual_;
  std::vector<double> exact_;
};

TEST_F(OtherTypeTest, Float32ResultsOfBFloat16OperandsAreHeldToFloat32) {
  SetDType(DType::kBFloat16);
  const CheckResult right = Golden(Result(DType::kFloat32));
  EXPECT_EQ(right.status, Verdict::kPassed) << right.reason;
  EXPECT_EQ(right.detail, "the golden is float32: held to sums in float32, rounded to float32");
  EXPECT_EQ(right.actual_type, DType::kBFloat16);
  EXPECT_EQ(right.expected_type, DType::kFloat32);
  EXPECT_EQ(right.counts.differ, 0);  // as bfloat16
  // An error that rounding to bfloat16 would hide.
  EXPECT_EQ(Golden(Result(DType::kFloat32, 0x1p-12)).status, Verdict::kFailed);
}

TEST_F(OtherTypeTest, Float64ReferencesOfFloat32AreHeldToFloat64) {
  SetDType(DType::kFloat32);
  EXPECT_EQ(Golden(Result(DType::kFloat64)).status, Verdict::kPassed);
  EXPECT_EQ(Golden(Result(DType::kFloat64, 0x1p-40)).status, Verdict::kFailed);
}

TEST_F(OtherTypeTest, WidenedNumbersAreHeldToTheTypeTheyAreOf) {
  SetDType(DType::kBFloat16);
  const Tensor narrow = Result(DType::kBFloat16);
  for (const DType wide : {DType::kFloat32, DType::kFloat64}) {
    const CheckResult right = Golden(ConvertTo(narrow, wide, Parallel(1)));
    EXPECT_EQ(right.status, Verdict::kPassed) << right.reason;
    EXPECT_THAT(right.detail, HasSubstr("all of it bfloat16 numbers"));
    EXPECT_THAT(right.detail, HasSubstr("rounded to bfloat16"));
    const Tensor wrong = ConvertTo(Result(DType::kBFloat16, 0x1p-5), wide, Parallel(1));
    const CheckResult result = Golden(wrong);
    EXPECT_EQ(result.status, Verdict::kFailed);
    EXPECT_THAT(result.detail, HasSubstr("--golden-accumulator bf16"));
  }
  // A tensor of float64, but with numbers of float32, is the same.
  const CheckResult single =
      Golden(ConvertTo(Result(DType::kFloat32), DType::kFloat64, Parallel(1)));
  EXPECT_EQ(single.status, Verdict::kPassed);
  EXPECT_THAT(single.detail, HasSubstr("is float64, all of it float32 numbers"));
}

TEST_F(OtherTypeTest, NarrowerResultsAreHeldToTheirRounding) {
  SetDType(DType::kFloat32);
  for (const DType narrow : {DType::kFloat16, DType::kBFloat16}) {
    const CheckResult right = Golden(Result(narrow));
    EXPECT_EQ(right.status, Verdict::kPassed) << right.reason;
    EXPECT_EQ(right.counts.differ, 0);
    EXPECT_EQ(Golden(Result(narrow, 0x1p-5)).status, Verdict::kFailed);
    EXPECT_EQ(Golden(Result(narrow, 20)).status, Verdict::kFailed);
  }
}

TEST_F(OtherTypeTest, UlpAreThoseOfTheCoarserType) {
  SetDType(DType::kBFloat16);
  const Tensor golden = Result(DType::kFloat32);
  const CheckResult ulp = Golden(golden, "ulp:0");
  EXPECT_EQ(ulp.status, Verdict::kPassed) << ulp.detail;
  EXPECT_THAT(ulp.detail, HasSubstr("ULP are counted in bfloat16"));
  EXPECT_EQ(Golden(golden, "bits").status, Verdict::kFailed);
  EXPECT_EQ(Golden(ConvertTo(actual_, DType::kFloat32, Parallel(1)), "bits").status,
            Verdict::kPassed);
  EXPECT_EQ(Golden(Result(DType::kFloat32, 0x1p-6), "ulp:4").status, Verdict::kPassed);
  EXPECT_EQ(Golden(Result(DType::kFloat32, 0x1p-6), "rel:0.001").status, Verdict::kFailed);
}

// The exact values are rounded to the type of what is under test.
TEST_F(OtherTypeTest, YoursIsComparedInItsOwnType) {
  SetDType(DType::kBFloat16);
  const auto by_ulp = [&](double change) {
    CompareOptions options;
    options.tolerance = ParseTolerance("ulp:4");
    return CompareToExact(*problem_, first_, second_, Result(DType::kFloat32, change), options,
                          Parallel(1))
        .status;
  };
  EXPECT_EQ(by_ulp(0x1p-23), Verdict::kPassed);
  EXPECT_EQ(by_ulp(0x1p-12), Verdict::kFailed);
}

TEST_F(OtherTypeTest, DistancesAreThoseOfTheNumbers) {
  const Shape shape = {1};
  const auto diff = [&](DType a, double x, DType b, double y, const std::string& tolerance) {
    CompareOptions options;
    options.tolerance = ParseTolerance(tolerance);
    return CompareTensors(TensorOf(a, shape, {x}), TensorOf(b, shape, {y}), options, Parallel(1));
  };
  using enum DType;
  EXPECT_EQ(diff(kBFloat16, 1.5, kFloat32, 1.5, "auto").status, Verdict::kPassed);
  EXPECT_EQ(diff(kBFloat16, 1.5, kFloat32, 1.5 + 0x1p-10, "auto").status, Verdict::kFailed);
  EXPECT_EQ(diff(kBFloat16, 1.5, kFloat32, 1.5 + 0x1p-10, "ulp:0").status, Verdict::kPassed);
  const CheckResult next = diff(kBFloat16, 1.5, kFloat32, 1.5 + 0x1p-7 - 0x1p-10, "auto");
  EXPECT_EQ(next.status, Verdict::kFailed);
  EXPECT_EQ(next.needs.ulp, 1);
  EXPECT_EQ(next.needs.abs, 0x1p-7 - 0x1p-10);
  EXPECT_EQ(next.worst.abs->expected, 1.5 + 0x1p-7 - 0x1p-10);
  EXPECT_EQ(diff(kFloat64, 1e300, kFloat32, 1, "rel:1").status, Verdict::kFailed);
  EXPECT_EQ(diff(kFloat64, NAN, kFloat16, NAN, "bits").status, Verdict::kPassed);
  EXPECT_EQ(diff(kFloat64, NAN, kFloat16, 1, "abs:9").status, Verdict::kFailed);
  EXPECT_EQ(diff(kFloat32, INFINITY, kBFloat16, INFINITY, "ulp:0").status, Verdict::kPassed);
  // Apart, though the wider number rounds to the other.
  for (const auto& [narrow, x, wide, y] : {std::tuple(kFloat16, 2048.0, kFloat32, 2048.9),
                                           std::tuple(kFloat16, HUGE_VAL, kFloat32, 1e5),
                                           std::tuple(kFloat32, HUGE_VAL, kFloat64, 1e39),
                                           std::tuple(kFloat32, 0.0, kFloat64, 1e-60)}) {
    for (const char* tolerance : {"abs:0", "rel:1e-6", "rtol:1e-6,atol:1e-70"}) {
      EXPECT_EQ(diff(narrow, x, wide, y, tolerance).status, Verdict::kFailed) << y << tolerance;
      EXPECT_EQ(diff(wide, y, narrow, x, tolerance).status, Verdict::kFailed) << y << tolerance;
    }
    const CheckResult apart = diff(narrow, x, wide, y, "ulp:0");
    EXPECT_EQ(apart.status, Verdict::kPassed);  // ULP are those of the coarser type
    EXPECT_EQ(apart.counts.differ, 1);
    EXPECT_EQ(apart.needs.abs, apart.worst.abs->value);
    EXPECT_GT(apart.needs.abs, 0);
  }
}

TEST_F(OtherTypeTest, IntegersStayIncomparable) {
  const Tensor integers(DType::kInt32, {1});
  const CheckResult result =
      CompareTensors(integers, TensorOf(DType::kFloat32, {1}, {1}), {}, Parallel(1));
  EXPECT_EQ(result.reason, "incomparable");
}

}  // namespace
}  // namespace convgrad
