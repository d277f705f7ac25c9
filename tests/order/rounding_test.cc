// Rounding once, and rounding under a bound: only what every number within it rounds to is given.
#include "order/rounding.h"

#include <gtest/gtest.h>

#include "support/special_values.h"
#include "tensor/dtype.h"

namespace convgrad {
namespace {

using testing::kInfinity;

// Ties of the shorter format, broken by what the longer one lost.
TEST(RoundSum, RoundsOnce) {
  const auto rounded = [](DType dtype, double high, double low) {
    return VisitFloat(
        dtype, [&](auto tag) { return Widen(RoundSum<typename decltype(tag)::Type>(high, low)); });
  };
  for (const DType dtype : {DType::kFloat16, DType::kBFloat16, DType::kFloat32}) {
    const double ulp = std::ldexp(1.0, -InfoOf(dtype).fraction_bits);
    EXPECT_EQ(rounded(dtype, 1 + ulp / 2, 0), 1);
    EXPECT_EQ(rounded(dtype, 1 + ulp / 2, 1e-30), 1 + ulp);
    EXPECT_EQ(rounded(dtype, 1 + ulp / 2, -1e-30), 1);
    EXPECT_EQ(rounded(dtype, 1 + ulp * 3 / 2, -1e-30), 1 + ulp);
    EXPECT_EQ(rounded(dtype, -1 - ulp / 2, -1e-30), -1 - ulp);
    EXPECT_EQ(rounded(dtype, -1 - ulp * 3 / 2, 1e-30), -1 - ulp);
    EXPECT_EQ(rounded(dtype, 1e-30, 1 + ulp / 2), 1 + ulp);  // whichever is larger
  }
  EXPECT_EQ(rounded(DType::kFloat16, 65520, -1e-12), 65504);
  EXPECT_EQ(rounded(DType::kFloat16, 65520, 0), kInfinity);
  EXPECT_EQ(rounded(DType::kFloat16, 0x1p-25, 1e-30), 0x1p-24);
  EXPECT_EQ(rounded(DType::kFloat16, 0x1p-25, 0), 0);
  EXPECT_EQ(rounded(DType::kFloat64, 1, 0x1p-53), 1);
}

TEST(RoundCertified, OnlyWhereTheBoundLeavesOneResult) {
  EXPECT_EQ(RoundCertified<float>(1, 0x1p-30, 0x1p-40), 1.0f);
  EXPECT_EQ(RoundCertified<float>(1, 0x1p-24, 0), 1.0f);  // a tie, exactly
  EXPECT_EQ(RoundCertified<float>(1, 0x1p-24, 0x1p-80), std::nullopt);
  EXPECT_EQ(RoundCertified<float>(1, 0x1.001p-24, 0x1p-80), 1 + 0x1p-23f);
  EXPECT_EQ(RoundCertified<float>(1, 0x1.001p-24, 0x1p-35), std::nullopt);
  EXPECT_EQ(RoundCertified<double>(1, 0x1p-53, 0x1p-110), std::nullopt);
  EXPECT_EQ(RoundCertified<double>(1, 0x1.1p-53, 0x1p-60), 1 + 0x1p-52);
  EXPECT_EQ(RoundCertified<double>(1, 0, 0x1p-60), 1.0);  // the gap below 1 is half as wide
  EXPECT_EQ(RoundCertified<double>(1, 0, 0x1p-54), std::nullopt);
  EXPECT_EQ(RoundCertified<float>(0, 0, 0), 0.0f);
  EXPECT_EQ(RoundCertified<float>(0, 0, 0x1p-200), std::nullopt);  // +0 or -0
  EXPECT_EQ(RoundCertified<double>(kInfinity, 0, 1), std::nullopt);
  EXPECT_EQ(RoundCertified<double>(std::nan(""), 0, 1), std::nullopt);
}

}  // namespace
}  // namespace convgrad
