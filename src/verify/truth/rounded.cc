#include "verify/truth/rounded.h"

#include <bit>
#include <cmath>
#include <cstdint>

namespace convgrad {
namespace {

// high, with a last bit that tells whether low is zero: rounding it again to a format at least two
// bits shorter is then rounding high + low once (Boldo and Melquiond, "Emulation of FMA and
// correctly rounded sums: proved algorithms using rounding to odd", IEEE Trans. Computers 57
// (2008)).
double RoundToOdd(double high, double low) {
  const uint64_t bits = std::bit_cast<uint64_t>(high);
  if (low == 0 || !std::isfinite(high) || (bits & 1) != 0) return high;
  const bool away_from_zero = (low > 0) == (high > 0);
  return std::bit_cast<double>(away_from_zero ? bits + 1 : bits - 1);
}

}  // namespace

double RoundedTo(const Truth& truth, DType dtype) {
  if (dtype == DType::kFloat64) return std::ldexp(truth.high, truth.exponent);
  const double odd = std::ldexp(RoundToOdd(truth.high, truth.low), truth.exponent);
  return VisitFloat(dtype,
                    [&](auto tag) { return Widen(Narrow<typename decltype(tag)::Type>(odd)); });
}

}  // namespace convgrad
