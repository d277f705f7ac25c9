// Which depthwise forward and input gradients can have all rows of results made by one kernel call;
// see depthwise_rows.h. Knows no memory.
#pragma once

#include "conv/axes/lines.h"

namespace convgrad {

// True for an input gradient whose sources are spread, with stride 2.
bool IsSpread(const Dimension& dimension);

// True if the kernels for 3x3 filters can make all rows of such results.
bool CanMakeAllRows(const Dimension& rows, const Dimension& cols);
// True if the kernel for any filter can.
bool CanTakeRowsInTurn(const Dimension& rows, const Dimension& cols);

}  // namespace convgrad
