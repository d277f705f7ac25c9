// A tensor's elements with its dimensions in another order.
#pragma once

#include <array>
#include <cstdint>

#include "base/parallel.h"
#include "tensor/tensor.h"

namespace convgrad {

// A tensor of `shape` that holds the elements of `tensor`, seen as an array of `sizes`, so that
// dimension i of the result is dimension order[i] of it. `sizes` and `shape` have as many elements
// as `tensor`.
Tensor Permuted(const Tensor& tensor, const std::array<int64_t, 4>& sizes,
                const std::array<int, 4>& order, Shape shape, const Parallel& parallel);

}  // namespace convgrad
