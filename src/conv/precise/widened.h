// Precision `double` of float32 and 16-bit types: the standard algorithms of float64 on widened
// copies, some images at a time. Products are exact there, and nothing is rounded to the stored
// type before the end. Must not know how a convolution is computed.
#pragma once

#include "conv/precise/slabs.h"

namespace convgrad {

bool TakesWidened(const Problem& problem);  // by its type

// Slabs of images are cut by sizes alone, since the bits of a filter gradient, which adds up their
// sums with compensation, depend on the cut.
class WidenedPlan : public Plan {
 public:
  // `by_reference`: the same bits, from the algorithm "reference" of float64.
  WidenedPlan(const Problem& problem, const KernelTable& kernels, int num_threads,
              bool by_reference);

  int64_t ScratchBytes() const override;
  std::string Tiles() const override { return slabs_.Tiles(); }
  bool Run(const ConvArgs& args) const override;

 private:
  const Slabs slabs_;
};

}  // namespace convgrad
