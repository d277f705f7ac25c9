// Sums of products without any rounding: a fixed-point number that holds every product of two
// finite numbers of a type, and as many of them as a tensor has elements (U. Kulisch, "Computer
// Arithmetic and Validity", 2nd ed., chapter 8; R. Neal, "Fast exact summation using small and
// large superaccumulators", arXiv:1505.05571). Positive and negative products are added up apart,
// so that carries stay short where a sum crosses zero again and again.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <span>

#include "tensor/dtype.h"

namespace convgrad {

// The numbers that a storage type has.
template <class Stored>
struct NumbersOf;
template <>
struct NumbersOf<Float16> {
  static constexpr int kFractionBits = 10, kMaxExponent = 15;
};
template <>
struct NumbersOf<BFloat16> {
  static constexpr int kFractionBits = 7, kMaxExponent = 127;
};
template <>
struct NumbersOf<float> {
  static constexpr int kFractionBits = 23, kMaxExponent = 127;
};
template <>
struct NumbersOf<double> {
  static constexpr int kFractionBits = 52, kMaxExponent = 1023;
};

// The last bit of a type's subnormal numbers is worth 2^kLastBit<type>.
template <class Stored>
inline constexpr int kLastBit =
    1 - NumbersOf<Stored>::kMaxExponent - NumbersOf<Stored>::kFractionBits;

__extension__ typedef unsigned __int128 Uint128;

// The words of product * 2^bit, bit < 64, the lowest first.
inline std::array<uint64_t, 3> ShiftedWords(Uint128 product, int bit) {
  const auto low = static_cast<uint64_t>(product), high = static_cast<uint64_t>(product >> 64);
  if (bit == 0) return {low, high, 0};
  return {low << bit, high << bit | low >> (64 - bit), high >> (64 - bit)};
}

// |x| = significand * 2^exponent, of a finite number.
struct DecodedDouble {
  bool negative;
  int exponent;
  uint64_t significand;
};

inline DecodedDouble Decode(double value) {
  constexpr uint64_t kHidden = uint64_t{1} << 52;
  const uint64_t bits = std::bit_cast<uint64_t>(value);
  const int field = static_cast<int>(bits >> 52) & 0x7FF;
  const uint64_t fraction = bits & (kHidden - 1);
  const bool negative = (bits >> 63) != 0;
  if (field == 0) return {negative, -1074, fraction};
  return {negative, field - 1075, fraction | kHidden};
}

// A magnitude of many words, the lowest first, whose bit 0 is worth 2^first_bit, rounded once, to
// nearest even, to the type: infinity beyond its largest number, +0 for zero, -0 for a negative one
// under half the least number.
template <class Stored>
double RoundMagnitude(std::span<const uint64_t> magnitude, int first_bit, bool negative);

template <class Stored>
class Superaccumulator {
 public:
  // Both finite, and numbers of the type. Not more than 2^48 times.
  void AddProduct(double x, double y) {
    const DecodedDouble a = Decode(x), b = Decode(y);
    const Uint128 product = static_cast<Uint128>(a.significand) * b.significand;
    if (product == 0) return;
    const int position = a.exponent + b.exponent - kLeastBit;
    Words& words = a.negative != b.negative ? negative_ : positive_;
    // A subnormal number of a narrow type is a normal double with zeros at the end.
    if (position < 0) return AddAt(words, product >> -position, 0);
    AddAt(words, product, position);
  }

  // The sum rounded once, to nearest even, to the type: infinity beyond its largest number, +0 for
  // a sum of zero, -0 for a negative one under half the least number.
  double Rounded() const;

 private:
  static constexpr int kMaxExponent = NumbersOf<Stored>::kMaxExponent;
  // Bit 0 is worth 2^kLeastBit, the least product; the largest is below 2^(2 * kMaxExponent + 2).
  static constexpr int kLeastBit = 2 * kLastBit<Stored>;
  static constexpr int kCountBits = 48;
  // 2 for float16, 9 for bfloat16, 10 for float32, 67 for float64.
  static constexpr int kWords = (2 * kMaxExponent + 2 - kLeastBit + kCountBits + 63) / 64;
  using Words = std::array<uint64_t, kWords>;

  static void AddAt(Words& words, Uint128 product, int position) {
    size_t word = static_cast<size_t>(position / 64);
    const std::array<uint64_t, 3> parts = ShiftedWords(product, position % 64);
    uint64_t carry = 0;
    for (size_t i = 0; i < 3 && word < kWords; ++i, ++word) {  // what lies beyond is zero
      const Uint128 sum = static_cast<Uint128>(words[word]) + parts[i] + carry;
      words[word] = static_cast<uint64_t>(sum);
      carry = static_cast<uint64_t>(sum >> 64);
    }
    for (; carry != 0 && word < kWords; ++word) carry = ++words[word] == 0;
  }

  Words positive_{}, negative_{};
};

extern template class Superaccumulator<Float16>;
extern template class Superaccumulator<BFloat16>;
extern template class Superaccumulator<float>;
extern template class Superaccumulator<double>;

}  // namespace convgrad
