#include "verify/diagnosis/explanation.h"

#include <algorithm>
#include <cmath>

#include "verify/truth/float_format.h"
#include "verify/truth/rounded.h"

namespace convgrad {
namespace {

// A unit that no accumulator has: then no element is in the exact class.
constexpr int kNoUnit = -(1 << 20);

// That of the scaled products; none where the factor is not a power of two.
int UnitOf(std::optional<int> unit_exponent, double factor) {
  int exponent = 0;
  const bool is_power_of_two = std::fabs(std::frexp(factor, &exponent)) == 0.5;
  return unit_exponent && is_power_of_two ? *unit_exponent + exponent - 1 : kNoUnit;
}

bool IsOfType(double value, DType dtype) {
  if (std::isnan(value)) return true;
  return VisitFloat(
      dtype, [&](auto tag) { return Widen(Narrow<typename decltype(tag)::Type>(value)) == value; });
}

// The next number of `dtype` away from zero.
double NextAway(double value, DType dtype) {
  return value + std::copysign(FormatOf(dtype).Ulp(std::fabs(value)), value);
}

}  // namespace

Explanation::Explanation(const Alternative& alternative, DType accumulator,
                         std::optional<int> unit_exponent)
    : stored_(alternative.stored),
      finish_(alternative.finish),
      factor_(alternative.factor),
      ceiling_(alternative.ceiling),
      judge_(ForeignArithmetic(stored_, alternative.accumulator.value_or(accumulator)),
             UnitOf(unit_exponent, factor_)),
      unrounded_(ForeignArithmetic(DType::kFloat64, accumulator), UnitOf(unit_exponent, factor_)) {}

Truth Explanation::Scaled(Truth truth) const {
  truth.high *= factor_;
  truth.low *= factor_;
  truth.magnitude *= std::fabs(factor_);
  truth.norm *= std::fabs(factor_);
  return truth;
}

bool Explanation::Explains(double value, const Truth& truth) const {
  return IsOfType(value, stored_) && Finished(value, factor_ == 1 ? truth : Scaled(truth));
}

bool Explanation::Finished(double value, const Truth& truth) const {
  const double rounded = RoundedTo(truth, stored_);
  const auto passes = [&] { return judge_.Of(value, truth, rounded).verdict == Verdict::kPassed; };
  switch (finish_) {
    case Finish::kTruncated: return IsTruncated(value, truth);
    case Finish::kFlushed: {
      const double least = FormatOf(stored_).least_normal();
      if (value == 0 && std::fabs(rounded) < least) return true;
      return (value == 0 || std::fabs(value) >= least) && passes();
    }
    case Finish::kRectified:
      if (value == 0 && rounded <= 0) return true;
      if (value == ceiling_ && rounded >= ceiling_) return true;
      return !(value < 0) && !(value > ceiling_) && passes();
    case Finish::kRounded:
    case Finish::kNarrowSums: break;
  }
  return passes();
}

// True if some sum near enough to the exact one is cut off to `value`: the nearest of those that
// are is.
bool Explanation::IsTruncated(double value, const Truth& truth) const {
  if (!std::isfinite(value) || !std::isfinite(truth.high)) {
    return judge_.Of(value, truth, RoundedTo(truth, stored_)).verdict == Verdict::kPassed;
  }
  const double exact = std::ldexp(truth.high, truth.exponent);
  const double beyond = NextAway(value == 0 ? std::copysign(0.0, exact) : value, stored_);
  const double sum = std::clamp(exact, std::min(value, beyond), std::max(value, beyond));
  return unrounded_.Of(sum, truth, RoundedTo(truth, DType::kFloat64)).verdict == Verdict::kPassed;
}

bool Explanation::IsExact(double value, const Truth& truth) const {
  if (finish_ == Finish::kNarrowSums) return false;
  if (finish_ != Finish::kRounded) return true;  // no further from it than Explains demands
  const double rounded = RoundedTo(factor_ == 1 ? truth : Scaled(truth), stored_);
  return value == rounded || (std::isnan(value) && std::isnan(rounded));
}

double Explanation::Surprise(const Truth& truth) const {
  constexpr double kMost = 24, kNotFinite = 4;
  if (!std::isfinite(truth.high)) return kNotFinite;
  if (finish_ == Finish::kTruncated) return 1;
  const Truth scaled = Scaled(truth);
  const double size = std::ldexp(std::max(scaled.norm, std::fabs(scaled.high)), truth.exponent);
  const Judgement judgement = judge_.Of(0, scaled, 0);
  if (!(size > 0) || !(judgement.least_seen > 0)) return 1;
  const double numbers = size / judgement.least_seen;  // of either sign, in the exact class
  return std::min(kMost, std::log2(1 + (judgement.exact_class ? 2 * numbers : numbers)));
}

}  // namespace convgrad
