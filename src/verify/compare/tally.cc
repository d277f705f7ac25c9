#include "verify/compare/tally.h"

#include <algorithm>
#include <cmath>

#include "verify/compare/other_type.h"

namespace convgrad {

Distance Tally::MeasureAcross(double actual_value, double expected_value, DType actual_type,
                              DType expected_type, int64_t element) {
  const Distance distance =
      DistanceIn(CoarserOf(actual_type, expected_type), actual_value, expected_value);
  MeasureValues(distance, actual_value, expected_value, actual_type, expected_type, element);
  return distance;
}

void Tally::MeasureValues(const Distance& distance, double actual_value, double expected_value,
                          DType actual_type, DType expected_type, int64_t element) {
  ++elements;
  nan += std::isnan(actual_value) || std::isnan(expected_value);
  inf += std::isinf(actual_value) || std::isinf(expected_value);
  if (InfoOf(actual_type).is_float) {
    actual.Add(actual_value, actual_type);
    expected.Add(expected_value, expected_type);
  }
  if (distance.same_value()) return;
  differ += distance.ulp != 0;
  abs.Offer(distance.absolute, element);
  rel.Offer(distance.relative, element);
  ulp.Offer(
      distance.nan_mismatch ? std::numeric_limits<double>::infinity() : RoundedUp(distance.ulp),
      element);
}

void Tally::Count(Verdict verdict, const Layout& layout, int64_t element) {
  if (verdict == Verdict::kSuspect) suspect.Add(layout, element);
  if (verdict == Verdict::kFailed) fail.Add(layout, element);
}

void Tally::Join(const Tally& other) {
  elements += other.elements;
  differ += other.differ;
  nan += other.nan;
  inf += other.inf;
  actual.Join(other.actual);
  expected.Join(other.expected);
  bound.Join(other.bound);
  abs.Join(other.abs);
  rel.Join(other.rel);
  ulp.Join(other.ulp);
  suspect.Join(other.suspect);
  fail.Join(other.fail);
  exact_class += other.exact_class;
  own_fail += other.own_fail;
  narrow_explains += other.narrow_explains;
  unusual += other.unusual;
  other_suspect += other.other_suspect;
  odds.Join(other.odds);
  least_seen = std::min(least_seen, other.least_seen);
  hidden_terms = std::max(hidden_terms, other.hidden_terms);
}

}  // namespace convgrad
