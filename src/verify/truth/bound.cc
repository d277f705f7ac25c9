// The derivation. u is the accumulator's unit roundoff, K the number of terms of the element, S the
// sum of |x*y|, Q the root of the sum of squares, r the exact sum.
//
//  certain  An inner product of K terms, evaluated in any order with each operation rounded
//           once, is off by at most K*u*S (Jeannerod and Rump, "Improved error bounds for inner
//           products in floating-point arithmetic", SIAM J. Matrix Anal. Appl. 34 (2013)). It is
//           gamma_K*S without the denominator 1 - K*u, which stops meaning anything at K*u = 1
//           (16-bit accumulators get there after a few hundred terms). Fused operations round less.
//           A tree in which a term passes through at most d roundings: d in place of K (Higham,
//           "Accuracy and stability of numerical algorithms", 2nd ed., section 4.2).
//  usual    Rounding errors that are independent and of mean zero add up like sqrt(K) instead of K
//           (Higham and Mary, "A new approach to probabilistic rounding error analysis", SIAM J.
//           Sci. Comput. 41 (2019)). 8*sqrt(K)*u*max(Q, |r|): 8 is their constant lambda, at which
//           the probability of being beyond it, 2*exp(-lambda^2/2) an operation, is about 2.5e-14.
//           In place of their S the size that partial sums really have: |r| when terms agree in
//           sign, Q, the length of a random walk, when they don't.
//  both     + K*eta, eta half the accumulator's least subnormal: products that underflow. A float16
//           golden may also have stored partial sums as float16: + (K+1)*2^-25.
//           + half a unit in the last place of the stored type: the last rounding.
//  compensated
//           2*(K*u)^2*S in place of K*u*S (Ogita, Rump and Oishi, "Accurate sum and dot product",
//           SIAM J. Sci. Comput. 26 (2005), proposition 5.5: gamma_K^2*S).
//  exact    the exact sum, rounded once, and nothing else.
#include "verify/truth/bound.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "order/canonical_order.h"

namespace convgrad {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// 2^power in the units of `truth`.
double PowerOfTwo(int power, const Truth& truth) {
  return std::ldexp(1.0, power - truth.exponent);
}

// The least number that rounds to infinity: the largest finite one and half a unit more.
double OverflowThreshold(const FloatFormat& format, const Truth& truth) {
  return std::ldexp(2 - std::ldexp(1.0, -format.fraction_bits - 1),
                    format.max_exponent - truth.exponent);
}

}  // namespace

Arithmetic OwnArithmetic(DType stored, Precision precision) {
  constexpr int64_t kAnyLength = std::numeric_limits<int64_t>::max();
  switch (precision) {
    case Precision::kStandard:
      // A block's chain, then a fold in twice the precision, which counts as one more at most.
      return {stored, FormatOf(stored == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32),
              kBlockTerms + 1};
    case Precision::kDouble:
      return {stored, FormatOf(DType::kFloat64), kAnyLength,
              stored == DType::kFloat64 ? Summation::kCompensated : Summation::kRounded};
    case Precision::kExact:
      return {stored, FormatOf(DType::kFloat64), kAnyLength, Summation::kExact};
  }
  ThrowInternal("unknown precision");
}

Arithmetic ForeignArithmetic(DType stored, Accumulator accumulator) {
  return {stored, accumulator.format(), std::numeric_limits<int64_t>::max()};
}

double UnderflowOf(const Truth& truth, const Arithmetic& arithmetic) {
  const double terms = static_cast<double>(truth.terms);
  const double underflow =
      terms * PowerOfTwo(arithmetic.accumulator.least_subnormal_exponent() - 1, truth);
  const bool narrow_partials = arithmetic.stored == DType::kFloat16;
  return narrow_partials ? underflow + (terms + 1) * PowerOfTwo(-25, truth) : underflow;
}

double FlushOf(const Truth& truth, const Arithmetic& arithmetic) {
  if (arithmetic.accumulator == FormatOf(DType::kFloat16)) return 0;
  return static_cast<double>(truth.terms + 1) *
         PowerOfTwo(arithmetic.accumulator.least_normal_exponent(), truth);
}

// Integers of at most fraction_bits + 1 bits, times a unit that the accumulator has: no sum is
// rounded.
double ExactClassBelow(const FloatFormat& accumulator, int unit_exponent) {
  if (unit_exponent < accumulator.least_subnormal_exponent()) return 0;
  return std::min(std::ldexp(1.0, unit_exponent + accumulator.fraction_bits + 1),
                  OverflowThreshold(accumulator, Truth{}));
}

Judge::Judge(const Arithmetic& arithmetic, int unit_exponent)
    : arithmetic_(arithmetic),
      stored_(FormatOf(arithmetic.stored)),
      unit_exponent_(unit_exponent) {}

bool Judge::InExactClass(const Truth& truth) const {
  return std::ldexp(truth.magnitude, truth.exponent) <
         ExactClassBelow(arithmetic_.accumulator, unit_exponent_);
}

// The bound of the sum, before the last rounding, as a multiple of S.
double Judge::RelativeBound(double chain) const {
  const double u = arithmetic_.accumulator.unit_roundoff();
  switch (arithmetic_.summation) {
    case Summation::kRounded: return chain * u;
    case Summation::kCompensated: return 2 * (chain * u) * (chain * u);
    case Summation::kExact: return 0;
  }
  ThrowInternal("unknown summation");
}

Judge::Bounds Judge::BoundsOf(const Truth& truth) const {
  const double u = arithmetic_.accumulator.unit_roundoff();
  const double chain = static_cast<double>(std::min(truth.terms, arithmetic_.longest_chain));
  const double underflow = UnderflowOf(truth, arithmetic_);
  const double exact = std::isfinite(truth.high) ? std::fabs(truth.high) : 0;
  const auto with_last_rounding = [&](double sum_error) {
    return sum_error + stored_.HalfUlp(exact + sum_error, truth.exponent);
  };
  Bounds bounds;
  bounds.certain = with_last_rounding(RelativeBound(chain) * truth.magnitude + underflow);
  bounds.usual = std::min(bounds.certain, with_last_rounding(kUsualSizes * std::sqrt(chain) * u *
                                                                 std::max(truth.norm, exact) +
                                                             underflow));
  bounds.flushed = FlushOf(truth, arithmetic_);
  return bounds;
}

// For a value or an exact result that is infinite or NaN. The positive terms add up to (S + r) / 2,
// the negative ones to (S - r) / 2: where that leaves the accumulator's range some order of
// summation overflows on the way, and nothing is certain.
Verdict Judge::JudgeSpecial(double value, const Truth& truth, const Bounds& bounds) const {
  const double r = truth.high;
  if (std::isnan(r)) return std::isnan(value) ? Verdict::kPassed : Verdict::kFailed;
  if (value == r) return Verdict::kPassed;
  const double range = OverflowThreshold(arithmetic_.accumulator, truth) - bounds.certain;
  if (std::isinf(r)) {
    const bool opposite_may_overflow = std::isnan(value) && truth.magnitude >= range;
    return opposite_may_overflow ? Verdict::kSuspect : Verdict::kFailed;
  }
  if (std::isnan(value)) {  // infinities of both signs must have met
    return (truth.magnitude - std::fabs(r)) / 2 >= range ? Verdict::kSuspect : Verdict::kFailed;
  }
  const double towards_value = value > 0 ? r : -r;
  const double threshold = OverflowThreshold(stored_, truth);
  if (towards_value + bounds.usual >= threshold) return Verdict::kPassed;
  if (towards_value + bounds.certain >= threshold) return Verdict::kSuspect;
  return (truth.magnitude + towards_value) / 2 >= range ? Verdict::kSuspect : Verdict::kFailed;
}

Judgement Judge::Of(double value, const Truth& truth, double rounded) const {
  const Bounds bounds = BoundsOf(truth);
  const bool finite = std::isfinite(value) && std::isfinite(truth.high);
  Judgement judgement;
  judgement.exact_class = std::isfinite(truth.high) && InExactClass(truth);
  if (finite) {
    // The subtraction is exact, or its result far beyond any bound.
    const double scaled = std::ldexp(value, -truth.exponent);
    const double error = std::fabs((scaled - truth.high) - truth.low);
    judgement.used = error == 0 ? 0 : error / bounds.certain;
    if (error > bounds.usual) judgement.verdict = Verdict::kSuspect;
    if (error > bounds.certain + bounds.flushed) judgement.verdict = Verdict::kFailed;
  } else {
    judgement.verdict = JudgeSpecial(value, truth, bounds);
  }
  double least_seen = bounds.certain;
  if (judgement.exact_class || arithmetic_.summation == Summation::kExact) {
    const bool same = value == rounded || (std::isnan(value) && std::isnan(rounded));
    judgement.verdict = same ? Verdict::kPassed : Verdict::kFailed;
    if (same) judgement.used = 0;
    least_seen = std::max(PowerOfTwo(unit_exponent_, truth),
                          stored_.HalfUlp(std::fabs(truth.high), truth.exponent));
  }
  if (!finite && judgement.verdict != Verdict::kPassed) judgement.used = kInfinity;
  judgement.least_seen = std::ldexp(least_seen, truth.exponent);
  return judgement;
}

}  // namespace convgrad
