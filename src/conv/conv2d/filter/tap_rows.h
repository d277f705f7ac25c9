// Filter gradients of few input channels, one row of the filter at a time.
#pragma once

#include "conv/plan/algorithm.h"

namespace convgrad {

extern const Algorithm kConv2DFilterTapRows;

}  // namespace convgrad
