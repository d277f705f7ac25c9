// One element after the other held against its truth, into a tally.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "verify/compare/by_data.h"
#include "verify/compare/other_type.h"
#include "verify/odds/deviation.h"
#include "verify/truth/distance.h"
#include "verify/truth/rounded.h"

namespace convgrad {

class DataComparison {
 public:
  DataComparison(const DataQuestion& question, const Oracle& oracle, const CompareOptions& options)
      : question_(question),
        foreign_type_(question.foreign_type()),
        keeps_type_(foreign_type_ == question.problem.dtype),
        oracle_(oracle),
        layout_(question.problem),
        precision_(options.precision),
        own_(OwnArithmetic(question.problem.dtype, options.precision), oracle.unit_exponent()),
        arithmetic_(ForeignArithmetic(foreign_type_,
                                      AccumulatorOf(question.problem, foreign_type_, options))),
        model_(question.foreign() != nullptr
                   ? arithmetic_
                   : OwnArithmetic(question.problem.dtype, options.precision)),
        foreign_(arithmetic_, oracle.unit_exponent()),
        narrow_(ForeignArithmetic(foreign_type_, foreign_type_), oracle.unit_exponent()) {}

  // An element: its two numbers, and what becomes of them.
  template <class Stored>
  void Compare(int64_t element, const Truth& truth, Tally& tally, ErrorSink& errors) const {
    const Tensor* golden = question_.golden;
    const double rounded = keeps_type_ ? truth.rounded : RoundedTo(truth, foreign_type_);
    const double actual = Widen(question_.actual.data<Stored>()[element]);
    const double expected = golden != nullptr ? ValueAt(*golden, element) : rounded;
    const Distance distance = Measure<Stored>(element, expected, tally);
    const double used = JudgeElement(element, actual, expected, truth, rounded, tally);
    errors.Keep(element, used, distance, IsBelow(actual, expected, truth));
    if (errors.keeps_model()) errors.KeepModel(element, ModelUlps(truth, model_));
  }

  // How far its numbers are apart.
  template <class Stored>
  Distance Measure(int64_t element, double expected, Tally& tally) const {
    const DType dtype = question_.actual.dtype();
    const Stored actual = question_.actual.data<Stored>()[element];
    if (dtype != foreign_type_) {
      return tally.MeasureAcross(Widen(actual), expected, dtype, foreign_type_, element);
    }
    return tally.Measure(actual, Narrow<Stored>(expected), foreign_type_, element);
  }

  // Whether they are right; returns how much of their bounds errors use.
  double JudgeElement(int64_t element, double actual, double expected, const Truth& truth,
                      double rounded, Tally& tally) const {
    Judgement own, judged;
    if (question_.is_foreign) {
      own = judged = JudgeForeign(actual, truth, rounded, element, tally);
    } else {
      own = judged = JudgeOwn(actual, truth, element);
      tally.own_fail += own.verdict == Verdict::kFailed;
      tally.other_suspect += own.verdict == Verdict::kSuspect;
      if (question_.golden != nullptr) {
        judged = JudgeForeign(expected, truth, rounded, element, tally);
      }
    }
    NotePower(judged, truth, tally);
    tally.exact_class += judged.exact_class;
    const double used = std::max(own.used, judged.used);
    tally.bound.Offer(used, element);
    tally.Count(std::max(own.verdict, judged.verdict), layout_, element);
    return used;
  }

 private:
  // A number that is the expected one may still be off the exact sum.
  bool IsBelow(double value, double expected, const Truth& truth) const {
    if (value != expected || question_.golden != nullptr) return value < expected;
    return (std::ldexp(value, -truth.exponent) - truth.high) - truth.low < 0;
  }

  // The order of this program's results is known: where none overflows there is nothing to suspect.
  // A number farther off than rounding usually goes is right if it is canon-1's sum, or at another
  // precision anywhere within the bound.
  Judgement JudgeOwn(double value, const Truth& truth, int64_t element) const {
    Judgement judged = own_.Of(value, truth, truth.rounded);
    const bool is_finite = std::isfinite(value) && std::isfinite(truth.high);
    if (judged.verdict != Verdict::kSuspect || !is_finite) return judged;
    const bool is_right = precision_ != Precision::kStandard ||
                          DistanceBetween(value, oracle_.InCanonicalOrder(element)).same_value();
    judged.verdict = is_right ? Verdict::kPassed : Verdict::kFailed;
    return judged;
  }

  Judgement JudgeForeign(double value, const Truth& truth, double rounded, int64_t element,
                         Tally& tally) const {
    const Judgement judged = foreign_.Of(value, truth, rounded);
    const bool is_finite = std::isfinite(value) && std::isfinite(truth.high);
    if (is_finite && !judged.exact_class && truth.magnitude > 0) {
      tally.odds.Add(DeviationOf(value, truth, arithmetic_), element);
    }
    if (judged.verdict == Verdict::kPassed) return judged;
    // By overflow on the way or flushed numbers, of which odds say nothing.
    const bool is_special = !is_finite || judged.used > 1;
    if (judged.verdict == Verdict::kSuspect) ++(is_special ? tally.other_suspect : tally.unusual);
    tally.narrow_explains += narrow_.Of(value, truth, rounded).verdict != Verdict::kFailed;
    return judged;
  }

  void NotePower(const Judgement& judged, const Truth& truth, Tally& tally) const {
    if (truth.magnitude == 0 || !std::isfinite(truth.high)) return;
    tally.least_seen = std::min(tally.least_seen, judged.least_seen);
    const double average =
        std::ldexp(truth.magnitude / static_cast<double>(truth.terms), truth.exponent);
    if (average > 0) tally.hidden_terms = std::max(tally.hidden_terms, judged.least_seen / average);
  }

  const DataQuestion& question_;
  const DType foreign_type_;  // of what is not this program's
  const bool keeps_type_;     // which is the problem's
  const Oracle& oracle_;
  Layout layout_;
  const Precision precision_;
  Judge own_;
  const Arithmetic arithmetic_;  // of what is not this program's
  const Arithmetic model_;       // of what is compared with the expected
  Judge foreign_, narrow_;       // narrow_: summed in the stored type itself
};

}  // namespace convgrad
