// Which depthwise forward and input gradients can have all rows of results made by one kernel call,
// and how their rows and columns are told to it. Knows no memory.
#pragma once

#include <cstdint>

#include "conv/axes/lines.h"

namespace convgrad {

// One dimension in the terms of depthwise_rows.h.
struct RowsAxis {
  explicit RowsAxis(const Dimension& dimension);

  // At most the first and the last position that results read are off the source.
  bool HasNarrowEnds() const;

  const Dimension& of;
  bool spread;
  int64_t first;                // first_row or origin, of result 0
  int64_t first_tap, tap_step;  // of the filter
};

// With the kernels for 3x3 filters.
bool CanMakeAllRows(const Dimension& rows, const Dimension& cols);
// With that for any.
bool CanTakeRowsInTurn(const Dimension& rows, const Dimension& cols);

}  // namespace convgrad
