// The last step of a sum: rounding it to the stored type, once; also where it is known but for a
// bound, if that leaves only one result.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <type_traits>

#include "order/two_sum.h"
#include "tensor/dtype.h"

namespace convgrad {

// NaN as every result has it: quiet, positive, no payload.
inline double WithCanonicalNaN(double value) {
  return value != value ? std::numeric_limits<double>::quiet_NaN() : value;
}

// high, with a last bit that tells whether low is zero: rounding it again to a format at least two
// bits shorter is then rounding high + low once (S. Boldo and G. Melquiond, "Emulation of FMA and
// correctly rounded sums: proved algorithms using rounding to odd", IEEE Trans. Computers 57
// (2008)). `high` is the nearest double to high + low.
inline double RoundToOdd(double high, double low) {
  const uint64_t bits = std::bit_cast<uint64_t>(high);
  if (low == 0 || !std::isfinite(high) || (bits & 1) != 0) return high;
  const bool away_from_zero = (low > 0) == (high > 0);
  return std::bit_cast<double>(away_from_zero ? bits + 1 : bits - 1);
}

// high + low, any two finite doubles, rounded once to nearest even.
template <class Stored>
Stored RoundSum(double high, double low) {
  if constexpr (std::is_same_v<Stored, double>) return high + low;
  const TwoSum sum(high, low);
  return Narrow<Stored>(RoundToOdd(sum.sum, sum.lost));
}

// The number that all within `bound` of high + low round to; none if they don't agree, or where a
// sum is not finite. Rounding is monotonic, so its two ends are enough. `bound` 0: high + low is
// the sum itself.
template <class Stored>
std::optional<Stored> RoundCertified(double high, double low, double bound) {
  // The two additions may lose less than this.
  const double slack = bound == 0 ? 0 : bound + 0x1p-51 * (std::fabs(low) + bound);
  const double down = low - slack, up = low + slack;
  if (!std::isfinite(high + down) || !std::isfinite(high + up)) return std::nullopt;
  const Stored least = RoundSum<Stored>(high, down);
  if (slack == 0) return least;
  const Stored most = RoundSum<Stored>(high, up);
  const double a = Widen(least), b = Widen(most);
  if (a != b || std::signbit(a) != std::signbit(b)) return std::nullopt;
  return least;
}

}  // namespace convgrad
