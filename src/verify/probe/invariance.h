// Batch invariance: in forward and input gradient an image has the same bits alone and in any
// batch. A check without golden and tolerance, of this program's results and of anyone's.
#pragma once

#include <span>
#include <string>

#include "base/parallel.h"
#include "conv/compute.h"
#include "problem/geometry.h"
#include "tensor/tensor.h"
#include "verify/compare/compare.h"

namespace convgrad {

// Throws usage: "invariance/sum" for a filter gradient, which is a sum over images, and
// "invariance/one-image" where a batch has none to be parted from.
void RequireImages(const Problem& problem);

// Computes every image of the batch alone with `execution`, and compares with `whole`, the result
// of the batch. Takes as much memory as `whole`, and what one image needs. Throws as RequireImages.
CheckResult CheckInvariance(const Problem& problem, const Tensor& first, const Tensor& second,
                            const Tensor& whole, const Execution& execution,
                            const Parallel& parallel);

// Someone's results for some images of the batch each, in the order of the images.
struct Part {
  std::string name;
  Tensor tensor;
};

// Compares them with `whole`, someone's result of the batch. Parts of other types or sizes, or that
// don't make up the batch, are "incomparable": FAILED.
CheckResult ComparePartsOfBatch(const Problem& problem, const Tensor& whole,
                                std::span<const Part> parts, const Parallel& parallel);

}  // namespace convgrad
