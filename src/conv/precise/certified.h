// Precision `exact` of float32 and 16-bit types: sums in double of widened operands, with a bound
// on what they are off by. Where every number that the bound allows rounds to one and the same,
// that is the result; else the element is summed up exactly, term by term. Must not know how a
// convolution is computed.
#pragma once

#include "conv/precise/slabs.h"

namespace convgrad {

// A sum is off by (min(K, 256) + 8) * 2^-53 * S at most: a term passes through the chain of its
// block, which has at most 256 (order/canonical_order.h); blocks and slabs are added up with
// compensation, for which the 8 are plenty. S, the sum of the terms' absolute values, is bounded by
// sums of squares (product_sizes.h); if that leaves many elements in doubt, it is computed. How
// images are cut into slabs changes no bit.
class CertifiedPlan : public Plan {
 public:
  CertifiedPlan(const Problem& problem, const KernelTable& kernels, int num_threads);

  int64_t ScratchBytes() const override;
  std::string Tiles() const override { return slabs_.Tiles(); }
  bool Run(const ConvArgs& args) const override;

 private:
  const Problem problem_;
  const int num_workers_, threads_together_;
  const Slabs slabs_;
};

}  // namespace convgrad
