// Tensors of another type than the problem's: which numbers they hold, and these in another type.
#pragma once

#include "base/parallel.h"
#include "tensor/tensor.h"
#include "verify/truth/float_format.h"
#include "verify/truth/oracle.h"

namespace convgrad {

// The type whose numbers a tensor of floats holds: `computed`, or else float32, if it is narrower
// and has every one of them, as where a bfloat16 result was widened; else the tensor's own.
DType TypeOfNumbers(const Tensor& tensor, DType computed, const Parallel& parallel);

// A tensor of floats in another type, each number rounded once.
Tensor ConvertTo(const Tensor& tensor, DType dtype, const Parallel& parallel);

// The same tensor with each number rounded to `format`.
Tensor RoundedThrough(const FloatFormat& format, const Tensor& tensor, const Parallel& parallel);

// That with fewer bits in a number.
DType CoarserOf(DType a, DType b);

// One number of a tensor of floats.
double ValueAt(const Tensor& tensor, int64_t element);

// The exact results, each rounded once to `dtype`.
Tensor RoundedTo(DType dtype, const Oracle& oracle, const Shape& shape);

}  // namespace convgrad
