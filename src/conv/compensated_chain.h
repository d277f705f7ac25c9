// The order of `double` for float64: one chain of compensated additions through all of an element's
// terms. The kernels of kernels/compensated.h follow it lane by lane.
#pragma once

#include <cmath>
#include <cstdint>

namespace convgrad {

// high + low; where an addition on the way left double's range, high alone says how.
inline double CompensatedResult(double high, double low) {
  return std::isfinite(high) && std::isfinite(low) ? high + low : high;
}

// A visitor of TermWalk.
class CompensatedChain {
 public:
  CompensatedChain(const double* first, const double* second) : first_(first), second_(second) {}

  void Term(int64_t first, int64_t second) {
    const double x = first_[first], y = second_[second];
    const double product = x * y;
    const double product_error = std::fma(x, y, -product);
    const double sum = high_ + product;
    const double back = sum - high_;
    const double lost = (high_ - (sum - back)) + (product - back);
    low_ += lost + product_error;
    high_ = sum;
  }
  void EndBlock() {}
  void EndRun() {}
  double Result() const { return CompensatedResult(high_, low_); }

 private:
  const double* first_;
  const double* second_;
  double high_ = 0;
  double low_ = 0;
};

}  // namespace convgrad
