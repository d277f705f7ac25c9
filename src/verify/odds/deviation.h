// How far one number is from its exact sum, measured by how far rounding would take it: the step
// from a number to what odds are told of. deviation.cc derives the sizes.
#pragma once

#include "verify/truth/bound.h"
#include "verify/truth/oracle.h"

namespace convgrad {

// All in the units of the truth, 2^exponent.
struct Deviation {
  double excess = 0;  // signed; the error beyond what the last rounding and underflow explain
  double usual = 0;   // the size of rounding errors' sum in an order that keeps partial sums small
  double any = 0;     // the same in whatever order makes it largest

  double InUsual() const { return Ratio(usual); }
  double InAny() const { return Ratio(any); }

 private:
  double Ratio(double size) const;
};

// All numbers must be finite.
Deviation DeviationOf(double value, const Truth& truth, const Arithmetic& arithmetic);

}  // namespace convgrad
