// The exact sum rounded to any type.
#pragma once

#include "tensor/dtype.h"
#include "verify/truth/oracle.h"

namespace convgrad {

// To nearest even; unlike Truth::rounded, to any type and of sums that no oracle has seen.
double RoundedTo(const Truth& truth, DType dtype);

}  // namespace convgrad
