// Precisions `double` and `exact` of float32 and 16-bit types: the standard algorithms of float64
// on widened copies, some images at a time. Products are exact there, and nothing is rounded to the
// stored type before the end. `exact` has a bound on what the sums are off by: where every number
// that the bound allows rounds to one and the same, that is the result; else the element is summed
// up exactly, term by term. Must not know how a convolution is computed.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "conv/precise/slabs.h"

namespace convgrad {

bool TakesWidened(const Problem& problem);  // by its type

enum class WidenedUse {
  kDouble,
  kDoubleByReference,  // the same bits, from the algorithm "reference" of float64
  kExact,
  kShownExact,  // for Show()
};

// Some neighbours of a result, with what is known of their exact sums.
struct SizedSums {
  int64_t first, count;  // elements
  const double* sums;    // off by less than relative * S
  const float* sizes;   // S but for 2^-15 of it; or infinite, or less by what float32's range takes
  const void* rounded;  // the sums rounded once to the problem's type
  double relative;
};
using VisitSizedSums = std::function<void(const SizedSums& sums)>;

// A sum is off by (min(K, 256) + 8) * 2^-53 * S at most: a term passes through the chain of its
// block, which has at most 256 (order/canonical_order.h); blocks and slabs are added up with
// compensation, for which the 8 are plenty. S, the sum of the terms' absolute values, is bounded by
// sums of squares (product_sizes.h); if that leaves many elements in doubt, it is computed.
class WidenedPlan : public Plan {
 public:
  WidenedPlan(const Problem& problem, const KernelTable& kernels, int num_threads, WidenedUse use);

  int64_t ScratchBytes() const override;
  std::string Tiles() const override { return slabs_.Tiles(); }
  bool Run(const ConvArgs& args) const override;
  // What kExact computes goes to `visit`, all elements once, from several threads at once; no
  // result is written.
  void Show(const ConvArgs& args, const VisitSizedSums& visit) const;

 private:
  void RunOrShow(const ConvArgs& args, const VisitSizedSums* visit) const;

  const Problem problem_;
  const WidenedUse use_;
  const int num_workers_;
  const Slabs slabs_;
};

}  // namespace convgrad
