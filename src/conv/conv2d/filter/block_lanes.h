// Filter gradients, of conv2d and depthwise, with lanes along blocks of the canonical order.
#pragma once

#include "conv/plan/algorithm.h"

namespace convgrad {

// For few channels, or groups of few.
extern const Algorithm kFilterBlockLanes;

}  // namespace convgrad
