// Depthwise forward and input gradient of tensors that the kernels read and write where they lie.
#pragma once

#include "conv/depthwise/data/direct_cut.h"
#include "conv/plan/algorithm.h"

namespace convgrad {

// cut.source_in_place.
void RunInPlace(const ConvArgs& args, const DepthwiseDataCut& cut);

}  // namespace convgrad
