// The derivation. With rounding errors e_1 ... e_m of the m operations of a sum, each of mean zero
// whatever came before, and |e_i| <= h_i, Azuma and Hoeffding give
//
//   P(|e_1 + ... + e_m| > z * sqrt(sum h_i^2)) <= 2 exp(-z^2 / 2),
//
// so sqrt(sum h_i^2) is a size by which errors can be measured without knowing how they are spread.
//
//  any    The K - 1 additions of any tree each give the sum of some of the terms, which lies
//         between that of all negative and that of all positive ones, (r - S) / 2 and (r + S) / 2:
//         h_i is at most half a unit in the last place of M = (S + |r|) / 2. Products add
//         u^2 Q^2, if they are rounded at all.
//  usual  Terms whose order has nothing to do with their values have partial sums of size
//         max(Q, |r|) and below, as bound.cc has it: u sqrt(K) max(Q, |r|).
//
// Both are computed sums, not exact ones, that are rounded: M is taken larger by what they may be
// off themselves.
#include "verify/odds/deviation.h"

#include <algorithm>
#include <cmath>

namespace convgrad {
namespace {

// An error of more of these sizes is beyond all odds that can be asked for.
constexpr double kMostSizes = 1e6;

double Square(double x) {
  return x * x;
}

}  // namespace

double Deviation::Ratio(double size) const {
  const double distance = std::fabs(excess);
  if (distance == 0) return 0;
  return size > 0 ? std::min(kMostSizes, distance / size) : kMostSizes;
}

Deviation DeviationOf(double value, const Truth& truth, const Arithmetic& arithmetic) {
  const FloatFormat& sums = arithmetic.accumulator;
  const double u = sums.unit_roundoff();
  const double terms = static_cast<double>(truth.terms);
  const double exact = std::fabs(truth.high);

  Deviation deviation;
  const double largest = (truth.magnitude + exact) / 2;
  const double reached = largest * (1 + kUsualSizes * u * std::sqrt(terms));
  deviation.any =
      std::sqrt(terms * Square(sums.HalfUlp(reached, truth.exponent)) + Square(u * truth.norm));
  deviation.usual = std::min(deviation.any, u * std::sqrt(terms) * std::max(truth.norm, exact));

  const double scaled = std::ldexp(value, -truth.exponent);
  const double error = (scaled - truth.high) - truth.low;
  const double explained = FormatOf(arithmetic.stored).HalfUlp(std::fabs(scaled), truth.exponent) +
                           UnderflowOf(truth, arithmetic) + FlushOf(truth, arithmetic);
  deviation.excess = std::copysign(std::max(0.0, std::fabs(error) - explained), error);
  return deviation;
}

}  // namespace convgrad
