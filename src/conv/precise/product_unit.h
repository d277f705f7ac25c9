// The largest power of two of which every product of two tensors' elements is a multiple: sums that
// stay small in that unit are exact in any order, and products that have it don't underflow.
#pragma once

#include "base/parallel.h"
#include "tensor/tensor.h"

namespace convgrad {

// As an exponent; none, where an operand has no finite element but zeros, is 0.
int ProductUnit(DType dtype, const void* first, int64_t first_count, const void* second,
                int64_t second_count, const Parallel& parallel);

}  // namespace convgrad
