// A sum over images in which some channels lack one image: threads that overwrote each other.
#pragma once

#include <vector>

#include "tensor/tensor.h"
#include "verify/diagnosis/hypotheses.h"

namespace convgrad {

// Hypotheses of such updates, in the channels in which the golden is off; none where these are
// all or none of them, or the result is no sum over images. `actual` is the right result.
std::vector<Hypothesis> LostUpdates(const Problem& problem, const Tensor& actual,
                                    const Tensor& golden);

}  // namespace convgrad
