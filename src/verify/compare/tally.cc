#include "verify/compare/tally.h"

#include <algorithm>
#include <cmath>

namespace convgrad {

void Tally::MeasureValues(const Distance& distance, double actual_value, double expected_value,
                          DType dtype, int64_t element) {
  ++elements;
  nan += std::isnan(actual_value) || std::isnan(expected_value);
  inf += std::isinf(actual_value) || std::isinf(expected_value);
  if (InfoOf(dtype).is_float) {
    actual.Add(actual_value, dtype);
    expected.Add(expected_value, dtype);
  }
  if (distance.same_value()) return;
  ++differ;
  abs.Offer(distance.absolute, element);
  rel.Offer(distance.relative, element);
  ulp.Offer(distance.nan_mismatch ? std::numeric_limits<double>::infinity()
                                  : static_cast<double>(distance.ulp),
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
  own_suspect += other.own_suspect;
  own_fail += other.own_fail;
  narrow_explains += other.narrow_explains;
  least_seen = std::min(least_seen, other.least_seen);
  hidden_terms = std::max(hidden_terms, other.hidden_terms);
}

}  // namespace convgrad
