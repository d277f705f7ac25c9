// Depthwise forward and input gradient of tensors that the kernels read and write where they lie.
#pragma once

#include "conv/depthwise/data/direct_plan.h"
#include "conv/plan/algorithm.h"

namespace convgrad {

// plan.source_in_place.
void RunForwardInPlace(const ConvArgs& args, const ForwardPlan& plan);

}  // namespace convgrad
