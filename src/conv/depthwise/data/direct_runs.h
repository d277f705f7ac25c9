// Running a depthwise forward or input gradient with lanes along channels.
#pragma once

#include "conv/depthwise/data/direct_cut.h"
#include "conv/plan/plan.h"

namespace convgrad {

// For tensors that the kernels read and write where they lie: cut.source_in_place.
void RunInPlace(const ConvArgs& args, const DepthwiseDataCut& cut);
// For all others.
void RunThroughStrips(const ConvArgs& args, const DepthwiseDataCut& cut);

}  // namespace convgrad
