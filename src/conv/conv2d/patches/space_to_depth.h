// conv2d where windows lie side by side, as those of patch embeddings do.
#pragma once

#include "conv/plan/algorithm.h"

namespace convgrad {

// It computes all directions.
extern const Algorithm kConv2DSpaceToDepth;

}  // namespace convgrad
