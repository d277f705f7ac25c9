// The standard normal distribution's quantile function in exactly rounded operations only: no libm
// function whose last bits differ between systems.
#pragma once

#include <span>

namespace convgrad {

// The x with P(X <= x) = p, for p in [2^-36, 1 - 2^-36], to about 1e-15 relative. Wichura,
// "Algorithm AS241: the percentage points of the normal distribution", Applied Statistics 37
// (1988), 477-484 (the routine PPND16; its third region begins beyond 2^-36 and is left out).
double NormalQuantile(double p);

// The coefficients of its four polynomials, from the highest power down, for programs elsewhere
// that must get the same bits.
struct NormalQuantileCoefficients {
  std::span<const double> centre_top, centre_bottom, tail_top, tail_bottom;
};
NormalQuantileCoefficients CoefficientsOfNormalQuantile();

}  // namespace convgrad
