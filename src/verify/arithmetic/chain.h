// Sums of neighbouring terms as one arithmetic adds them, step by step.
#pragma once

#include <cstdint>
#include <span>

#include "verify/arithmetic/model.h"

namespace convgrad {

// The sum of n products x[i] * y[i], for any chain but kAnyOrder.
double ChainSum(const Model& model, const double* x, const double* y, int64_t n);

// Numbers that stand side by side, added in `format`; overwrites them. 0 if there are none.
double JoinSums(std::span<double> numbers, Join join, Format format);

}  // namespace convgrad
