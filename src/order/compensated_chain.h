// The order of `double` for float64: one chain of compensated additions through all of an element's
// terms. The kernels of kernels/gemm/compensated.h follow it lane by lane.
#pragma once

#include <cmath>
#include <cstdint>

#include "order/two_sum.h"

namespace convgrad {

// A sum with what its additions lose and what is known to be lost of its terms.
class CompensatedSum {
 public:
  // Returns what was lost.
  double Add(double term, double term_error) {
    const TwoSum next(high_, term);
    const double lost = next.lost + term_error;
    low_ += lost;
    high_ = next.sum;
    return lost;
  }
  void AddProduct(double x, double y) {
    const double product = x * y;
    Add(product, std::fma(x, y, -product));
  }
  double high() const { return high_; }
  double low() const { return low_; }
  // Where an addition on the way left double's range, high alone says how.
  double Result() const {
    return std::isfinite(high_) && std::isfinite(low_) ? high_ + low_ : high_;
  }

 private:
  double high_ = 0;
  double low_ = 0;
};

// A visitor of TermWalk.
class CompensatedChain {
 public:
  CompensatedChain(const double* first, const double* second) : first_(first), second_(second) {}

  void Term(int64_t first, int64_t second) { sum_.AddProduct(first_[first], second_[second]); }
  void EndBlock() {}
  void EndRun() {}
  double Result() const { return sum_.Result(); }

 private:
  const double* first_;
  const double* second_;
  CompensatedSum sum_;
};

}  // namespace convgrad
