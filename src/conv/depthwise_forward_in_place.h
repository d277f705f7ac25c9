// Depthwise forward and input gradient of tensors that the kernels read and write where they lie.
#pragma once

#include "conv/algorithm.h"
#include "conv/depthwise_forward_plan.h"

namespace convgrad {

// plan.source_in_place.
void RunForwardInPlace(const ConvArgs& args, const ForwardPlan& plan);

}  // namespace convgrad
