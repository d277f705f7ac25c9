// The depthwise algorithms: all three directions, every type and layout.
#pragma once

#include "conv/plan/algorithm.h"

namespace convgrad {

// Forward and input gradient, then filter gradient.
extern const Algorithm kDepthwiseWholePlanesAlgorithm;
extern const Algorithm kDepthwisePlanesAlgorithm;
extern const Algorithm kDepthwiseDataAlgorithm;
extern const Algorithm kDepthwiseFilterAlgorithm;

}  // namespace convgrad
