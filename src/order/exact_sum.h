// The exact sum of one element's products, term by term: slow, for every problem and all data, and
// what `exact` means.
#pragma once

#include <cmath>
#include <cstdint>

#include "order/superaccumulator.h"

namespace convgrad {

// A visitor of TermWalk.
template <class Stored>
class ExactSum {
 public:
  ExactSum(const Stored* first, const Stored* second) : first_(first), second_(second) {}

  void Term(int64_t first, int64_t second) {
    const double x = Widen(first_[first]), y = Widen(second_[second]);
    if (std::isfinite(x) && std::isfinite(y)) {
      sum_.AddProduct(x, y);
    } else {
      infinite_ += x * y;  // NaN, or infinities, whose sum is NaN when their signs differ
    }
  }
  void EndBlock() {}
  void EndRun() {}

  // Rounded once to the type. Only an infinite or NaN product makes it so, or a sum beyond the
  // type's range: no partial sum overflows.
  double Result() const { return infinite_ == 0 ? sum_.Rounded() : infinite_; }

 private:
  const Stored* first_;
  const Stored* second_;
  Superaccumulator<Stored> sum_;
  double infinite_ = 0;
};

}  // namespace convgrad
