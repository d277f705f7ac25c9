// conv2d of windows side by side, such as patch embeddings.
#pragma once

#include "conv/plan/algorithm.h"

namespace convgrad {

// All directions.
extern const Algorithm kConv2DSpaceToDepth;

}  // namespace convgrad
