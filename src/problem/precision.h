// How precisely sums are computed: the three modes, each with a promise of its own.
#pragma once

namespace convgrad {

// standard: the canonical order, in float (float64: in double), blocks folded in double.
// double:   in double; float64 in twice that. The error is one rounding of the result and K*2^-53*S
//           at most (K terms, S the sum of their sizes); float64: and 2*(K*2^-53)^2*S.
// exact:    the exact sum, rounded once: the same in any order.
enum class Precision { kStandard, kDouble, kExact };

inline constexpr Precision kAllPrecisions[] = {Precision::kStandard, Precision::kDouble,
                                               Precision::kExact};

inline const char* NameOf(Precision precision) {
  constexpr const char* kNames[] = {"standard", "double", "exact"};
  return kNames[static_cast<int>(precision)];
}

}  // namespace convgrad
