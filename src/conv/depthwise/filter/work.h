// The work of a depthwise filter gradient, counted from what its cut decided.
#pragma once

#include "conv/depthwise/filter/cut.h"
#include "conv/plan/work.h"
#include "kernels/kernel_table.h"

namespace convgrad {

Work CountFilter(const DepthwiseFilterCut& cut, const KernelTable& kernels);

}  // namespace convgrad
