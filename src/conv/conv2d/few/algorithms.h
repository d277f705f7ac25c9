// conv2d where few pixels or few terms make one side of the matrix product small: neither operand
// is copied into panels, whose making would take as long as the product.
#pragma once

#include "conv/plan/algorithm.h"

namespace convgrad {

// Forward and input gradient.
extern const Algorithm kConv2DFewPixels;
extern const Algorithm kConv2DFewTerms;
extern const Algorithm kConv2DIm2Col;
// Filter gradient.
extern const Algorithm kConv2DFilterFewPixels;

}  // namespace convgrad
