// Precision `exact` of float64: both operands are cut into slices, so few bits each that the
// standard algorithms of float64 add up their products without rounding any; what is left is so
// small that what its sums are off by hardly matters. Where it does, single elements are summed up
// exactly, or all of them by conv/precise/compensated.h. Must not know how a convolution is
// computed.
#pragma once

#include "conv/precise/slabs.h"

namespace convgrad {

// K. Ozaki, T. Ogita, S. Oishi and S. M. Rump, "Error-free transformations of matrix multiplication
// by using fast routines of matrix multiplication and its applications", Numerical Algorithms 59
// (2012). With L slices of b bits, x = x_0 + ... + x_(L-1) + x', and x'_j what j slices leave of
// it:
//   x * y = sum of x_k * y_l over k + l < L          exact sums, added with compensation
//         + sum of x_k * y'_(L-k) over k < L + x'_L * y   sums in double
// All are cut at the same places, counted from the largest number of a slab, 2^p and 2^q at most. A
// product of the second line is 2^(p+q-L*b) at most, so its K terms' sum is off by
//   (min(K, 256) + 8) * 2^-53 * K * 2^(p+q-L*b).
class SlicedPlan : public Plan {
 public:
  SlicedPlan(const Problem& problem, const KernelTable& kernels, int num_threads);

  int64_t ScratchBytes() const override;
  std::string Tiles() const override;
  bool Run(const ConvArgs& args) const override;

 private:
  const Problem problem_;
  const int num_threads_, num_workers_;
  const Slabs slabs_;
};

}  // namespace convgrad
