// Formats as data: they round as tensors of their types are stored, or cut off towards zero.
#include "verify/truth/float_format.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

namespace convgrad::testing {
namespace {

constexpr DType kFloats[] = {DType::kFloat16, DType::kBFloat16, DType::kFloat32, DType::kFloat64};

// From below the least subnormal number of every format to beyond float32's largest.
double Drawn(std::mt19937_64& random) {
  std::uniform_real_distribution<double> exponent(-180, 140);
  const double value = static_cast<double>(random() >> 11) * 0x1p-53;
  return std::ldexp(random() % 2 == 0 ? value : -value, static_cast<int>(exponent(random)));
}

TEST(FloatFormat, OfATypeIsWhatTheTypeIs) {
  for (const DType dtype : kFloats) {
    const DTypeInfo& info = InfoOf(dtype);
    const FloatFormat& format = FormatOf(dtype);
    EXPECT_STREQ(format.name, info.name);
    EXPECT_EQ(format.fraction_bits, info.fraction_bits);
    EXPECT_EQ(format.max_exponent, info.max_exponent);
    EXPECT_FALSE(format.truncates);
    EXPECT_EQ(StoredType(StoredFormat(dtype)), dtype);
  }
  EXPECT_FALSE(StoredType(Format::kTf32));
}

TEST(FloatFormat, RoundsAsTensorsAreStored) {
  std::mt19937_64 random(3);
  for (int i = 0; i < 200'000; ++i) {
    const double value = Drawn(random);
    for (const DType dtype : kFloats) {
      const double stored = VisitFloat(
          dtype, [&](auto tag) { return Widen(Narrow<typename decltype(tag)::Type>(value)); });
      ASSERT_EQ(FormatOf(dtype).Rounded(value), stored) << InfoOf(dtype).name << ", " << value;
    }
    const double tf32 = kTf32Format.Rounded(value);
    ASSERT_EQ(static_cast<float>(tf32), tf32) << value;
    const bool is_near =
        std::isinf(tf32) || std::fabs(tf32 - value) <= kTf32Format.HalfUlp(std::fabs(value));
    ASSERT_TRUE(is_near) << value;
  }
}

TEST(FloatFormat, CutsOffTowardsZero) {
  std::mt19937_64 random(4);
  for (int i = 0; i < 100'000; ++i) {
    const double value = Drawn(random);
    for (const auto& [cut, rounded] : {std::pair(Format::kTruncatedFloat32, Format::kFloat32),
                                       std::pair(Format::kTruncatedTf32, Format::kTf32),
                                       std::pair(Format::kTruncatedBFloat16, Format::kBFloat16)}) {
      const double kept = Round(cut, value);
      ASSERT_EQ(Round(rounded, kept), kept) << InfoOf(cut).name << ", " << value;
      ASSERT_LE(std::fabs(kept), std::fabs(value)) << InfoOf(cut).name;
      if (std::fabs(value) < 0x1p128) {
        ASSERT_LT(std::fabs(value - kept), InfoOf(cut).Ulp(std::fabs(value))) << value;
      } else {
        ASSERT_EQ(std::fabs(kept), 0x1p128 - InfoOf(cut).Ulp(0x1p127)) << value;
      }
    }
  }
  EXPECT_EQ(Round(Format::kBFloat16, 0x1p128), std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isnan(Round(Format::kTruncatedTf32, std::nan(""))));
}

}  // namespace
}  // namespace convgrad::testing
