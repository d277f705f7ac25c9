// The work of a depthwise forward or input gradient, counted from what its cut decided: with
// lanes along channels (`direct`), and plane by plane.
#pragma once

#include "conv/depthwise/data/direct_cut.h"
#include "conv/depthwise/data/planes_cut.h"
#include "conv/plan/work.h"
#include "kernels/kernel_table.h"

namespace convgrad {

Work CountDirect(const DepthwiseDataCut& cut, const KernelTable& kernels);
Work CountPlanes(const PlanesCut& cut, const KernelTable& kernels);

}  // namespace convgrad
