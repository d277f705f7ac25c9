// A part of a golden that was never written: a box, or a run in memory, of zeros, NaNs, one number
// again and again, or numbers of no sense where the result has others.
#pragma once

#include <vector>

#include "tensor/tensor.h"
#include "verify/diagnosis/hypotheses.h"

namespace convgrad {

// Hypotheses of such a part; none where there is no such part. `actual` is the right result.
std::vector<Hypothesis> UnwrittenParts(const Problem& problem, const Tensor& actual,
                                       const Tensor& golden);

}  // namespace convgrad
