// The kernels of precision `exact` for single numbers, on every instruction set.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "kernels/precise/precise.h"
#include "order/rounding.h"
#include "support/special_values.h"
#include "tensor/dtype.h"

namespace convgrad {
namespace {

using testing::kInfinity;

template <class Stored>
class PreciseNumbersTest : public ::testing::Test {};
using NarrowTypes = ::testing::Types<Float16, BFloat16, float>;
TYPED_TEST_SUITE(PreciseNumbersTest, NarrowTypes);

template <class Stored>
std::vector<Stored> RandomNumbers(int64_t count) {
  std::mt19937_64 random(5);
  std::normal_distribution<double> normal;
  std::vector<Stored> numbers;
  for (int64_t i = 0; i < count; ++i) numbers.push_back(Narrow<Stored>(normal(random)));
  return numbers;
}

TYPED_TEST(PreciseNumbersTest, WidensWithSquares) {
  for (const KernelTable& table : SupportedKernels()) {
    const auto& kernels = PreciseKernelsOf<TypeParam>(table.isa);
    for (const int64_t rows : {1, 3, 4, 9}) {
      for (const int64_t cols : {1, 7, 8, 9, 64, 67}) {
        const std::vector<TypeParam> from = RandomNumbers<TypeParam>(rows * cols);
        std::vector<double> to(from.size()), by_cols(cols, 1.0), same(from.size()), by_rows(rows);
        kernels.widen(from.data(), to.data(), by_cols.data(), rows, cols);
        kernels.widen_rows(from.data(), same.data(), by_rows.data(), rows, cols);
        std::vector<double> cols_expected(cols, 1.0), rows_expected(rows);
        for (int64_t i = 0; i < rows * cols; ++i) {
          const double number = Widen(from[i]);
          ASSERT_EQ(to[i], number);
          ASSERT_EQ(same[i], number);
          cols_expected[i % cols] += number * number;
          rows_expected[i / cols] += number * number;
        }
        for (int64_t j = 0; j < cols; ++j) ASSERT_NEAR(by_cols[j], cols_expected[j], 1e-12);
        for (int64_t i = 0; i < rows; ++i) ASSERT_NEAR(by_rows[i], rows_expected[i], 1e-12);
      }
    }
  }
}

TYPED_TEST(PreciseNumbersTest, FindsTheLowestBit) {
  for (const KernelTable& table : SupportedKernels()) {
    const auto& kernels = PreciseKernelsOf<TypeParam>(table.isa);
    std::vector<TypeParam> numbers(37, Narrow<TypeParam>(0.0));
    EXPECT_EQ(kernels.lowest_bit(numbers.data(), 37), kNoBit);
    for (const int64_t at : {0, 15, 16, 36}) {
      numbers.assign(37, Narrow<TypeParam>(kInfinity));
      EXPECT_EQ(kernels.lowest_bit(numbers.data(), 37), kNoBit);
      const int least = std::is_same_v<TypeParam, Float16> ? -24 : -126;
      for (const int exponent : {least, -14, -3, 0, 5}) {
        numbers[at] = Narrow<TypeParam>(std::ldexp(-3, exponent));
        EXPECT_EQ(kernels.lowest_bit(numbers.data(), 37), exponent);
        EXPECT_EQ(kernels.lowest_bit(numbers.data() + at + 1, 36 - at), kNoBit);
      }
    }
  }
}

TYPED_TEST(PreciseNumbersTest, TakesSizes) {
  for (const KernelTable& table : SupportedKernels()) {
    const std::vector<TypeParam> from = RandomNumbers<TypeParam>(53);
    std::vector<float> to(54, -1);
    PreciseKernelsOf<TypeParam>(table.isa).take_sizes(from.data(), to.data(), 53);
    for (size_t i = 0; i < 53; ++i) EXPECT_EQ(to[i], std::fabs(Widen(from[i])));
    EXPECT_EQ(to[53], -1);
  }
}

// Ties, their neighbours, ends of the range, zeros of both signs, infinities and NaN, each at every
// place of a vector.
TYPED_TEST(PreciseNumbersTest, RoundsOrDoubts) {
  const DTypeInfo& type = InfoOf(std::is_same_v<TypeParam, float>      ? DType::kFloat32
                                 : std::is_same_v<TypeParam, BFloat16> ? DType::kBFloat16
                                                                       : DType::kFloat16);
  const double ulp = std::ldexp(1.0, -type.fraction_bits);
  const double largest = std::ldexp(2 - ulp, type.max_exponent);
  const double least = std::ldexp(ulp, 1 - type.max_exponent);
  const std::vector<double> sums = {
      1,           1 + ulp / 2, 1 + ulp * 0.75, -1 - ulp / 2, 0.0,
      -0.0,        kInfinity,   -kInfinity,     std::nan(""), largest,
      largest * 2, least / 2,   least * 0.75,   least * 1.5,  3.14159};
  for (const KernelTable& table : SupportedKernels()) {
    const auto& kernels = PreciseKernelsOf<TypeParam>(table.isa);
    for (const double relative : {0.0, 0x1p-45}) {
      for (const double exact_below : {0.0, 0.5, 1e300}) {
        for (size_t shift = 0; shift < 17; ++shift) {
          std::vector<double> all(shift, 7.0);
          all.insert(all.end(), sums.begin(), sums.end());
          std::vector<double> sizes;
          for (const double sum : all) {
            sizes.push_back(std::isfinite(sum) ? std::fabs(sum) : kInfinity);
          }
          std::vector<TypeParam> rounded(all.size());
          std::vector<int64_t> doubts(all.size());
          doubts.resize(static_cast<size_t>(
              kernels.round(all.data(), sizes.data(), {relative, exact_below}, rounded.data(),
                            static_cast<int64_t>(all.size()), doubts.data())));
          std::vector<int64_t> expected;
          for (size_t i = 0; i < all.size(); ++i) {
            const double slack = sizes[i] < exact_below ? 0 : relative * sizes[i];
            const double sum = WithCanonicalNaN(all[i]);
            const bool is_finite = std::isfinite(sum);
            const auto low = Narrow<TypeParam>(is_finite ? sum - slack : sum);
            const auto high = Narrow<TypeParam>(is_finite ? sum + slack : sum);
            if (std::memcmp(&low, &high, sizeof low) != 0) {
              expected.push_back(static_cast<int64_t>(i));
            } else {
              ASSERT_EQ(std::memcmp(&rounded[i], &high, sizeof high), 0) << all[i];
            }
          }
          ASSERT_EQ(doubts, expected) << NameOf(table.isa);
        }
      }
    }
  }
}

// Sums on ties, beside them by less than float32 shows, and with bounds that reach one or don't.
TYPED_TEST(PreciseNumbersTest, RoundsBesideTies) {
  const int bits = std::is_same_v<TypeParam, float>      ? 23
                   : std::is_same_v<TypeParam, BFloat16> ? 7
                                                         : 10;
  const int least = std::is_same_v<TypeParam, Float16> ? -26 : -136;  // subnormal, and below
  const int range = std::is_same_v<TypeParam, Float16> ? 43 : 260;
  std::mt19937_64 random(7);
  const auto draw = [&](int numbers) {
    return static_cast<int>(random() % static_cast<uint64_t>(numbers));
  };
  constexpr int64_t kCount = 1 << 12;
  std::vector<double> sums, sizes;
  for (int64_t i = 0; i < kCount; ++i) {
    const double ulp = std::ldexp(1.0, -bits);
    const double tie = 1 + ulp * (draw(1 << std::min(bits, 10)) + (draw(4) == 0 ? 0 : 0.5));
    const double beside = draw(3) == 0 ? 0 : std::ldexp(draw(2) * 2 - 1, -draw(53 - bits) - bits);
    const double sign = draw(2) * 2 - 1, scale = std::ldexp(sign, least + draw(range));
    sums.push_back(draw(16) == 0 ? 0 : (tie + beside) * scale);
    sizes.push_back(draw(4) == 0 ? 0 : std::fabs(scale) * std::ldexp(1.0, 45 - draw(60)));
  }
  for (const KernelTable& table : SupportedKernels()) {
    const auto& kernels = PreciseKernelsOf<TypeParam>(table.isa);
    for (const double relative : {0.0, 0x1p-45}) {
      std::vector<TypeParam> rounded(kCount);
      std::vector<int64_t> doubts(kCount);
      doubts.resize(static_cast<size_t>(kernels.round(sums.data(), sizes.data(), {relative, 0},
                                                      rounded.data(), kCount, doubts.data())));
      auto doubt = doubts.begin();
      for (int64_t i = 0; i < kCount; ++i) {
        const auto low = Narrow<TypeParam>(sums[i] - relative * sizes[i]);
        const auto high = Narrow<TypeParam>(sums[i] + relative * sizes[i]);
        const bool in_doubt = std::memcmp(&low, &high, sizeof low) != 0;
        ASSERT_EQ(in_doubt, doubt != doubts.end() && *doubt == i) << sums[i] << " " << sizes[i];
        doubt += in_doubt ? 1 : 0;
        if (in_doubt) continue;
        ASSERT_EQ(std::memcmp(&rounded[i], &high, sizeof high), 0) << sums[i];
      }
    }
  }
}

TEST(PairNumbersTest, CutsWithoutLoss) {
  for (const KernelTable& table : SupportedKernels()) {
    const PairKernels& kernels = PairKernelsOf(table.isa);
    const std::vector<double> from = {1, -3.25, 0x1.fffffp-3, 1e-9, 0, -2, 3.9999999, 1e-300, 0.1};
    std::vector<double> upper(from.size()), lower(from.size());
    const auto count = static_cast<int64_t>(from.size());
    EXPECT_EQ(kernels.largest(from.data(), count), 3.9999999);
    kernels.cut(from.data(), std::ldexp(1.5, 52 - 20), upper.data(), lower.data(), count);
    for (size_t i = 0; i < from.size(); ++i) {
      EXPECT_EQ(upper[i] + lower[i], from[i]);
      EXPECT_EQ(std::fmod(upper[i], 0x1p-20), 0);
      EXPECT_LE(std::fabs(lower[i]), 0x1p-21);
    }
    const double special[] = {kInfinity, -1, std::nan(""), 2, -kInfinity};
    EXPECT_EQ(kernels.largest(special, 5), 2);
    EXPECT_EQ(kernels.largest(special, 0), 0);
  }
}

TEST(PairNumbersTest, AddsAndRounds) {
  for (const KernelTable& table : SupportedKernels()) {
    const PairKernels& kernels = PairKernelsOf(table.isa);
    std::vector<double> high(11, 1.0), low(11, 0.0), to(11);
    const std::vector<double> terms(11, 0x1p-60);
    kernels.add(terms.data(), high.data(), low.data(), 11);
    EXPECT_EQ(high[10], 1);
    EXPECT_EQ(low[10], 0x1p-60);
    low[3] = 0x1p-53;          // a tie
    low[9] = 0x1.0000001p-53;  // above one
    high[5] = kInfinity;
    high[10] = std::nan("");
    std::vector<int64_t> doubts(11);
    doubts.resize(static_cast<size_t>(
        kernels.round(high.data(), low.data(), 0x1p-90, to.data(), 11, doubts.data())));
    EXPECT_EQ(doubts, (std::vector<int64_t>{3, 5, 10}));
    EXPECT_EQ(to[0], 1);
    EXPECT_EQ(to[9], 1 + 0x1p-52);
    EXPECT_EQ(kernels.round(high.data(), low.data(), 0, to.data(), 5, doubts.data()), 0);
    EXPECT_EQ(to[3], 1);
  }
}

}  // namespace
}  // namespace convgrad
