// The depthwise algorithms: all three directions, every type and layout.
#pragma once

#include "conv/algorithm.h"

namespace convgrad {

// Forward and input gradient.
extern const Algorithm kDepthwisePlanesAlgorithm;
extern const Algorithm kDepthwiseForwardAlgorithm;
extern const Algorithm kDepthwiseFilterAlgorithm;

}  // namespace convgrad
