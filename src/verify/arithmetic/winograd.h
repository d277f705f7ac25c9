// Winograd's minimal filtering, which computes other products than the definition's: whether a
// result of a 3x3 convolution with strides of 1 has its errors.
#pragma once

#include <optional>

#include "base/parallel.h"
#include "problem/geometry.h"
#include "tensor/tensor.h"
#include "verify/arithmetic/fingerprint.h"

namespace convgrad {

// None where it does not apply, or its errors are not those of `made`.
std::optional<Fingerprint> FindWinograd(const Problem& problem, const Tensor& first,
                                        const Tensor& second, const Tensor& made,
                                        const Parallel& parallel);

}  // namespace convgrad
