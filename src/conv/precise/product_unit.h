// The largest power of two of which every product of two tensors' elements is a multiple: sums that
// stay small in that unit are exact in any order, and products that have it don't underflow.
#pragma once

#include "base/parallel.h"
#include "tensor/tensor.h"

namespace convgrad {

struct ProductUnit {
  int exponent = 0;  // 0 where an operand has no finite element but zeros
  // No addition of a sum in double is rounded, in whatever order, where the sum of its terms'
  // absolute values as computed is less: all are multiples of the unit, and not too many.
  double exact_below = 0;
  bool may_underflow =
      false;  // products, or their errors, may be no multiples of double's least number

  static ProductUnit Of(DType dtype, const void* first, int64_t first_count, const void* second,
                        int64_t second_count, const Parallel& parallel);
};

}  // namespace convgrad
