// Precisions `double` and `exact` of float32 and 16-bit types: the standard algorithms of float64
// on widened copies, some images at a time. Products are exact there, and nothing is rounded to the
// stored type before the end. `exact` has a bound on what the sums are off by: where every number
// that the bound allows rounds to one and the same, that is the result; else the element is summed
// up exactly, term by term. Must not know how a convolution is computed.
#pragma once

#include "conv/precise/slabs.h"

namespace convgrad {

bool TakesWidened(const Problem& problem);  // by its type

// A sum is off by (min(K, 256) + 8) * 2^-53 * S at most: a term passes through the chain of its
// block, which has at most 256 (order/canonical_order.h); blocks and slabs are added up with
// compensation, for which the 8 are plenty. S, the sum of the terms' absolute values, is bounded by
// sums of squares (product_sizes.h); if that leaves many elements in doubt, it is computed.
class WidenedPlan : public Plan {
 public:
  // `double` or `exact`; `by_reference`: the same bits, from the algorithm "reference" of float64.
  WidenedPlan(const Problem& problem, Precision precision, const KernelTable& kernels,
              int num_threads, bool by_reference = false);

  int64_t ScratchBytes() const override;
  std::string Tiles() const override { return slabs_.Tiles(); }
  bool Run(const ConvArgs& args) const override;

 private:
  const Problem problem_;
  const bool is_exact_;
  const int num_workers_;
  const Slabs slabs_;
};

}  // namespace convgrad
