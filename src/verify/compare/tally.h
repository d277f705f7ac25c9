// The state of a comparison: counts, worst elements, positions. Tallies of pieces join to
// the tally of the whole in any order with the same outcome.
#pragma once

#include <cstdint>
#include <limits>

#include "tensor/statistics.h"
#include "verify/odds/odds_tally.h"
#include "verify/truth/bound.h"
#include "verify/truth/distance.h"
#include "verify/where/where.h"

namespace convgrad {

// The element that is worst by one measure; the first of equals.
struct WorstSoFar {
  double value = 0;
  int64_t element = -1;

  void Offer(double offered, int64_t at) {
    if (offered > value || (offered == value && offered > 0 && at < element)) {
      value = offered;
      element = at;
    }
  }
  void Join(const WorstSoFar& other) {
    if (other.element >= 0) Offer(other.value, other.element);
  }
};

struct Tally {
  int64_t elements = 0;
  int64_t differ = 0;        // other values; of two types: in the coarser one
  int64_t nan = 0, inf = 0;  // on either side
  SpecialCounts actual, expected;
  WorstSoFar bound, abs, rel, ulp;
  Whereabouts suspect, fail;

  int64_t exact_class = 0;  // elements that were judged as such
  int64_t own_fail = 0;
  int64_t narrow_explains = 0;  // of anyone's that did not pass: sums in its type could give them
  // Suspects of which odds tell: anyone's beyond what is usual; and others: by overflow on the way,
  // flushed numbers, our own.
  int64_t unusual = 0, other_suspect = 0;
  OddsTally odds;
  double least_seen = std::numeric_limits<double>::infinity();  // smallest error that would be seen
  double hidden_terms = 0;  // most terms of average size that a bound could hide

  // Counts one element and measures how far apart its two values are.
  template <class Stored>
  Distance Measure(Stored actual_value, Stored expected_value, DType dtype, int64_t element) {
    const Distance distance = DistanceBetween(actual_value, expected_value);
    MeasureValues(distance, ValueOf(actual_value), ValueOf(expected_value), dtype, dtype, element);
    return distance;
  }
  // The same of floats of two types.
  Distance MeasureAcross(double actual_value, double expected_value, DType actual_type,
                         DType expected_type, int64_t element);
  void Count(Verdict verdict, const Layout& layout, int64_t element);
  void Join(const Tally& other);

 private:
  void MeasureValues(const Distance& distance, double actual_value, double expected_value,
                     DType actual_type, DType expected_type, int64_t element);
};

}  // namespace convgrad
