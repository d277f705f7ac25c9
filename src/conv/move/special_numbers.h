// Infinities and NaNs among the numbers of a tensor, which algorithms that multiply padding look
// for: zero times an infinity is a NaN. Loops look at all numbers, at their bits, so that the
// compiler makes them loops of vectors.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "base/float16.h"

namespace convgrad {

// The bits of a number without its sign: those of an infinity are ones in the exponent, a NaN's are
// more.
template <class Stored>
struct Magnitude {
  using Bits = std::conditional_t<sizeof(Stored) == 8, uint64_t,
                                  std::conditional_t<sizeof(Stored) == 4, uint32_t, uint16_t>>;
  static constexpr int kFractionBits = sizeof(Stored) == 8               ? 52
                                       : sizeof(Stored) == 4             ? 23
                                       : std::is_same_v<Stored, Float16> ? 10
                                                                         : 7;
  static constexpr Bits kMost = std::numeric_limits<Bits>::max() >> 1;
  static constexpr Bits kInfinity = kMost >> kFractionBits << kFractionBits;

  static Bits Of(Stored value) { return static_cast<Bits>(std::bit_cast<Bits>(value) & kMost); }
};

// True if padding may be multiplied by these numbers of a filter.
template <class Stored>
bool IsFinite(const void* filter, int64_t count) {
  using M = Magnitude<Stored>;
  const auto* values = static_cast<const Stored*>(filter);
  typename M::Bits special = 0;
  for (int64_t i = 0; i < count; ++i) {
    special |= static_cast<typename M::Bits>((M::Of(values[i]) & M::kInfinity) == M::kInfinity);
  }
  return special == 0;
}

// Looks in a result for the sign that a zero of padding may have met an infinity.
template <class Stored>
bool HasNaN(const void* result, int64_t count) {
  using M = Magnitude<Stored>;
  const auto* values = static_cast<const Stored*>(result);
  typename M::Bits differences = 0;  // negative: the highest bit
  for (int64_t i = 0; i < count; ++i) {
    differences |= static_cast<typename M::Bits>(M::kInfinity - M::Of(values[i]));
  }
  return differences > M::kMost;
}

}  // namespace convgrad
