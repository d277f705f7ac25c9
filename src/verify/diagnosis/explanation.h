// Decides if one alternative explains one number of a golden, and how much that says. Must not know
// which alternatives there are.
#pragma once

#include "verify/diagnosis/hypotheses.h"
#include "verify/truth/bound.h"
#include "verify/truth/oracle.h"

namespace convgrad {

class Explanation {
 public:
  // Every finite product of the alternative is an integer times 2^unit_exponent, if that is known.
  Explanation(const Alternative& alternative, DType accumulator, std::optional<int> unit_exponent);

  // True if a maker of the alternative could have stored `value` where `truth` is its exact sum.
  bool Explains(double value, const Truth& truth) const;
  // True if it is exactly the sum, finished as the alternative says.
  bool IsExact(double value, const Truth& truth) const;
  // How unlikely it is, in bits, that a number which the alternative excludes was hit by chance:
  // how many numbers a sum of this size could have been, for each that the bound allows.
  double Surprise(const Truth& truth) const;

 private:
  Truth Scaled(Truth truth) const;
  bool Finished(double value, const Truth& truth) const;
  bool IsTruncated(double value, const Truth& truth) const;

  DType stored_;
  Finish finish_;
  double factor_;
  double ceiling_;
  Judge judge_;
  Judge unrounded_;  // of sums before the last rounding
};

}  // namespace convgrad
