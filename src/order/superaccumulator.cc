#include "order/superaccumulator.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <span>

namespace convgrad {
namespace {

// Integers of many words, the lowest first.

// larger - smaller, in place of larger.
void Subtract(std::span<uint64_t> larger, std::span<const uint64_t> smaller) {
  bool borrow = false;
  for (size_t i = 0; i < larger.size(); ++i) {
    uint64_t difference;
    const bool first = __builtin_sub_overflow(larger[i], smaller[i], &difference);
    const bool second = __builtin_sub_overflow(difference, uint64_t{borrow}, &larger[i]);
    borrow = first || second;
  }
}

// -1 for zero.
int HighestBit(std::span<const uint64_t> words) {
  for (size_t i = words.size(); i-- > 0;) {
    if (words[i] != 0) return static_cast<int>(64 * i) + std::bit_width(words[i]) - 1;
  }
  return -1;
}

bool Bit(std::span<const uint64_t> words, int at) {
  return (words[static_cast<size_t>(at / 64)] >> (at % 64) & 1) != 0;
}

bool AnyBelow(std::span<const uint64_t> words, int end) {
  const auto whole = static_cast<size_t>(end / 64);
  for (size_t i = 0; i < whole; ++i) {
    if (words[i] != 0) return true;
  }
  return end % 64 != 0 && (words[whole] & ((uint64_t{1} << (end % 64)) - 1)) != 0;
}

// The bits from `begin` on, of which there are at most 64.
uint64_t BitsFrom(std::span<const uint64_t> words, int begin) {
  const auto word = static_cast<size_t>(begin / 64);
  if (word >= words.size()) return 0;
  const int bit = begin % 64;
  const uint64_t above = bit != 0 && word + 1 < words.size() ? words[word + 1] << (64 - bit) : 0;
  return words[word] >> bit | above;
}

// To nearest even at bit `last`, as an integer of that bit. A magnitude may end below it.
uint64_t RoundAt(std::span<const uint64_t> words, int last) {
  if (last > static_cast<int>(64 * words.size())) return 0;
  const uint64_t kept = BitsFrom(words, last);
  if (last == 0 || !Bit(words, last - 1)) return kept;
  return kept + ((kept & 1) != 0 || AnyBelow(words, last - 1));
}

}  // namespace

template <class Stored>
double RoundMagnitude(std::span<const uint64_t> magnitude, int first_bit, bool negative) {
  constexpr int kFractionBits = NumbersOf<Stored>::kFractionBits;
  constexpr int kMaxExponent = NumbersOf<Stored>::kMaxExponent;
  const int highest = HighestBit(magnitude);
  if (highest < 0) return 0;
  const int last = std::max({highest - kFractionBits, kLastBit<Stored> - first_bit, 0});
  const double rounded =
      std::ldexp(static_cast<double>(RoundAt(magnitude, last)), last + first_bit);
  const bool overflows = rounded > std::ldexp(2 - std::ldexp(1.0, -kFractionBits), kMaxExponent);
  return std::copysign(overflows ? std::numeric_limits<double>::infinity() : rounded,
                       negative ? -1.0 : 1.0);
}

template <class Stored>
double Superaccumulator<Stored>::Rounded() const {
  const bool negative = std::lexicographical_compare(positive_.rbegin(), positive_.rend(),
                                                     negative_.rbegin(), negative_.rend());
  Words magnitude = negative ? negative_ : positive_;
  Subtract(magnitude, negative ? positive_ : negative_);
  return RoundMagnitude<Stored>(magnitude, kLeastBit, negative);
}

template double RoundMagnitude<Float16>(std::span<const uint64_t>, int, bool);
template double RoundMagnitude<BFloat16>(std::span<const uint64_t>, int, bool);
template double RoundMagnitude<float>(std::span<const uint64_t>, int, bool);
template double RoundMagnitude<double>(std::span<const uint64_t>, int, bool);
template class Superaccumulator<Float16>;
template class Superaccumulator<BFloat16>;
template class Superaccumulator<float>;
template class Superaccumulator<double>;

}  // namespace convgrad
