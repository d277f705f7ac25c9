// What a run of a depthwise filter gradient does, counted from what its cut decided.
#pragma once

#include "conv/depthwise/filter/cut.h"
#include "conv/plan/work.h"
#include "kernels/kernel_table.h"

namespace convgrad {

Work CountFilter(const DepthwiseFilterCut& cut, const KernelTable& kernels);

}  // namespace convgrad
