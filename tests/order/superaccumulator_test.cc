// Exact sums against arithmetic of single bits, written out as on paper; ties, cancellation, the
// ends of every type's range.
#include "order/superaccumulator.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "support/special_values.h"
#include "tensor/dtype.h"

namespace convgrad {
namespace {

using testing::kInfinity;

// A sum as the number of times that each power of two was added.
class SumOnPaper {
 public:
  void Add(double x, double y) {
    const std::vector<int> x_bits = BitsOf(std::fabs(x)), y_bits = BitsOf(std::fabs(y));
    const int64_t sign = (x < 0) != (y < 0) ? -1 : 1;
    for (const int i : x_bits) {
      for (const int j : y_bits) counts_[static_cast<size_t>(i + j + kOrigin)] += sign;
    }
  }

  double Rounded(int fraction_bits, int max_exponent) {
    std::vector<int> digits = Digits(counts_);
    const bool negative = digits.empty();
    if (negative) {
      for (int64_t& count : counts_) count = -count;
      digits = Digits(counts_);
    }
    int highest = static_cast<int>(digits.size()) - 1;
    while (highest >= 0 && digits[static_cast<size_t>(highest)] == 0) --highest;
    if (highest < 0) return 0;
    const int least_exponent = 1 - max_exponent - fraction_bits;
    const int last = std::max(highest - fraction_bits, least_exponent + kOrigin);
    double kept = 0;
    for (int i = highest; i >= last; --i) kept = 2 * kept + digits[static_cast<size_t>(i)];
    bool below_half = false;
    for (int i = 0; i < last - 1; ++i) below_half |= digits[static_cast<size_t>(i)] != 0;
    const bool half = digits[static_cast<size_t>(last - 1)] != 0;
    if (half && (below_half || std::fmod(kept, 2) == 1)) kept += 1;
    const double value = std::ldexp(kept, last - kOrigin);
    const double magnitude = value >= std::ldexp(2.0, max_exponent) ? kInfinity : value;
    return negative ? -magnitude : magnitude;
  }

 private:
  static constexpr int kOrigin = 2200;

  // Positions of the bits that are set.
  static std::vector<int> BitsOf(double value) {
    std::vector<int> bits;
    while (value > 0) {
      const int exponent = std::ilogb(value);
      bits.push_back(exponent);
      value -= std::ldexp(1.0, exponent);
    }
    return bits;
  }
  // Binary digits; none for a negative sum.
  static std::vector<int> Digits(const std::vector<int64_t>& counts) {
    std::vector<int> digits;
    int64_t carry = 0;
    for (const int64_t count : counts) {
      const int64_t sum = count + carry;
      const int digit = static_cast<int>(sum & 1);
      digits.push_back(digit);
      carry = (sum - digit) / 2;
    }
    return carry < 0 ? std::vector<int>() : digits;
  }

  std::vector<int64_t> counts_ = std::vector<int64_t>(4600);
};

using Terms = std::vector<std::pair<double, double>>;

template <class Stored>
double ExactSumOf(const Terms& terms) {
  Superaccumulator<Stored> sum;
  for (const auto& [x, y] : terms) sum.AddProduct(x, y);
  return sum.Rounded();
}

template <class Stored>
double OnPaper(const Terms& terms) {
  SumOnPaper sum;
  for (const auto& [x, y] : terms) sum.Add(x, y);
  return sum.Rounded(NumbersOf<Stored>::kFractionBits, NumbersOf<Stored>::kMaxExponent);
}

template <class Stored>
void ExpectOnPaper(const Terms& terms, const std::string& what) {
  const double exact = ExactSumOf<Stored>(terms), paper = OnPaper<Stored>(terms);
  ASSERT_EQ(exact, paper) << what;
  ASSERT_EQ(std::signbit(exact), std::signbit(paper)) << what;
  ASSERT_EQ(Widen(Narrow<Stored>(exact)), exact) << what;  // a number of the type
}

// Any finite number of the type, all exponents alike, or one near 1.
template <class Stored>
double DrawFinite(std::mt19937_64& random, bool any_exponent) {
  constexpr int kMax = NumbersOf<Stored>::kMaxExponent, kBits = NumbersOf<Stored>::kFractionBits;
  const double significand = 1 + std::ldexp(static_cast<double>(random() >> 11), -53);
  const int range = any_exponent ? 2 * kMax + kBits : 8;
  const int least = any_exponent ? 1 - kMax - kBits : -4;
  const int exponent = least + static_cast<int>(random() % static_cast<uint64_t>(range));
  const double value = Widen(Narrow<Stored>(std::ldexp(significand, std::min(exponent, kMax))));
  return std::copysign(std::isfinite(value) ? value : 1.0, random() % 2 == 0 ? 1.0 : -1.0);
}

template <class Stored>
class SuperaccumulatorTest : public ::testing::Test {};
using StoredTypes = ::testing::Types<Float16, BFloat16, float, double>;
TYPED_TEST_SUITE(SuperaccumulatorTest, StoredTypes);

TYPED_TEST(SuperaccumulatorTest, FormatsAreThoseOfTheTable) {
  for (const DTypeInfo& info : AllDTypes()) {
    if (!info.is_float) continue;
    VisitFloat(info.dtype, [&](auto tag) {
      using Format = NumbersOf<typename decltype(tag)::Type>;
      EXPECT_EQ(Format::kFractionBits, info.fraction_bits);
      EXPECT_EQ(Format::kMaxExponent, info.max_exponent);
    });
  }
}

TYPED_TEST(SuperaccumulatorTest, RandomSums) {
  std::mt19937_64 random(11);
  for (int round = 0; round < 300; ++round) {
    Terms terms;
    const uint64_t count = 1 + random() % 40;
    const bool any_exponent = round % 2 == 0;
    for (uint64_t i = 0; i < count; ++i) {
      terms.emplace_back(DrawFinite<TypeParam>(random, any_exponent),
                         DrawFinite<TypeParam>(random, any_exponent));
    }
    ExpectOnPaper<TypeParam>(terms, "round " + std::to_string(round));
    // All but the first twice more, once with the other sign: what is left is that one.
    const auto first = terms.front();
    for (size_t i = count; i-- > 0;) terms.emplace_back(-terms[i].first, terms[i].second);
    EXPECT_EQ(ExactSumOf<TypeParam>(terms), 0) << round;
    EXPECT_FALSE(std::signbit(ExactSumOf<TypeParam>(terms)));
    terms.push_back(first);
    ExpectOnPaper<TypeParam>(terms, "cancelled, round " + std::to_string(round));
  }
}

// 1 + half a unit in the last place, and one least product above and below it.
TYPED_TEST(SuperaccumulatorTest, Ties) {
  constexpr int kBits = NumbersOf<TypeParam>::kFractionBits;
  constexpr int kMax = NumbersOf<TypeParam>::kMaxExponent;
  const double ulp = std::ldexp(1.0, -kBits);
  const double half_a = std::ldexp(1.0, -(kBits + 1) / 2), half_b = ulp / 2 / half_a;
  const double least = std::ldexp(1.0, 1 - kMax - kBits);
  for (const double sign : {1.0, -1.0}) {
    const auto sum = [&](const Terms& more) {
      Terms terms = {{sign, 1}, {sign * half_a, half_b}};
      terms.insert(terms.end(), more.begin(), more.end());
      ExpectOnPaper<TypeParam>(terms, "tie");
      return sign * ExactSumOf<TypeParam>(terms);
    };
    EXPECT_EQ(sum({}), 1);
    EXPECT_EQ(sum({{sign * least, least}}), 1 + ulp);
    EXPECT_EQ(sum({{-sign * least, least}}), 1);
    EXPECT_EQ(sum({{sign * ulp, 1}}), 1 + 2 * ulp);
    EXPECT_EQ(sum({{sign * ulp, 1}, {-sign * least, least}}), 1 + ulp);
  }
}

TYPED_TEST(SuperaccumulatorTest, EndsOfTheRange) {
  constexpr int kBits = NumbersOf<TypeParam>::kFractionBits;
  constexpr int kMax = NumbersOf<TypeParam>::kMaxExponent;
  const double largest = std::ldexp(2 - std::ldexp(1.0, -kBits), kMax);
  const double half_ulp = std::ldexp(1.0, kMax - kBits - 1);
  const double least = std::ldexp(1.0, 1 - kMax - kBits);
  const auto sum = ExactSumOf<TypeParam>;
  EXPECT_EQ(sum({}), 0);
  EXPECT_EQ(sum({{largest, 1}}), largest);
  EXPECT_EQ(sum({{largest, 1}, {half_ulp, 1}}), kInfinity);
  EXPECT_EQ(sum({{largest, 1}, {half_ulp, 1}, {-least, least}}), largest);
  EXPECT_EQ(sum({{-largest, 1}, {-half_ulp, 1}}), -kInfinity);
  // Products and partial sums beyond the range come back.
  EXPECT_EQ(sum({{largest, largest}, {1, 3}, {-largest, largest}}), 3);
  EXPECT_EQ(sum({{largest, largest}, {largest, largest}}), kInfinity);
  // Below it: half of the least number is a tie, everything above rounds up.
  EXPECT_EQ(sum({{least, 0.5}}), 0);
  EXPECT_EQ(sum({{least, 0.5}, {least, least}}), least);
  EXPECT_EQ(sum({{least, least}}), 0);
  EXPECT_TRUE(std::signbit(sum({{-least, least}})));
  EXPECT_EQ(sum({{least, 1.5}}), 2 * least);
  EXPECT_EQ(sum({{least, 3}}), 3 * least);
}

TYPED_TEST(SuperaccumulatorTest, AMillionTerms) {
  constexpr int kMax = NumbersOf<TypeParam>::kMaxExponent;
  constexpr int kBits = NumbersOf<TypeParam>::kFractionBits;
  const double largest = std::ldexp(2 - std::ldexp(1.0, -kBits), kMax);
  Superaccumulator<TypeParam> sum;
  for (int i = 0; i < 1'000'000; ++i) sum.AddProduct(largest, largest);
  EXPECT_EQ(sum.Rounded(), kInfinity);
  for (int i = 0; i < 999'999; ++i) sum.AddProduct(largest, -largest);
  sum.AddProduct(-largest, largest);
  sum.AddProduct(0.5, 0.25);
  EXPECT_EQ(sum.Rounded(), 0.125);
}

TEST(SuperaccumulatorWords, AsManyAsTheTypeNeeds) {
  constexpr size_t kBothSigns = 2 * sizeof(uint64_t);
  EXPECT_EQ(sizeof(Superaccumulator<Float16>), 2 * kBothSigns);
  EXPECT_EQ(sizeof(Superaccumulator<float>), 10 * kBothSigns);
  EXPECT_EQ(sizeof(Superaccumulator<double>), 67 * kBothSigns);
}

}  // namespace
}  // namespace convgrad
