// The sum of two numbers of double without an error, as two numbers.
#pragma once

namespace convgrad {

// Knuth's TwoSum: sum + lost is exactly a + b, and sum is what rounding makes of it.
struct TwoSum {
  double sum, lost;

  TwoSum(double a, double b) : sum(a + b) {
    const double back = sum - a;
    lost = (a - (sum - back)) + (b - back);
  }
};

}  // namespace convgrad
