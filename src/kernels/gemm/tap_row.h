// The micro-kernel of the filter gradient of one row of a filter on few input channels: what an
// output pixel meets of that row lies side by side, and only what is on the image is multiplied.
//
//   sums[t][j] += in double: chain from +0 over the segments, their rows and the columns of
//                   x[segment.a + row * x_row_step + column * x_col_step + t] *
//                   g[segment.b + row * g_row_step + column * g_col_step + j]
//
// for those columns that have t among their numbers.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/gemm/indirect_gemm.h"

namespace convgrad {

// The numbers [first, last) of a column that are on the image.
struct TapRowRange {
  int32_t first, last;
};

// Offsets and steps count elements. Compute: float or double. Rows of g are not aligned.
template <class Compute>
struct TapRowArgs {
  const Compute* x;
  int64_t x_row_step, x_col_step;
  const Compute* g;
  int64_t g_row_step, g_col_step;
  std::span<const GemmSegment> segments;  // `length` rows each
  // Columns before and behind those that have all numbers, one after the other.
  std::span<const TapRowRange> before, behind;
  int64_t whole;  // columns between these
  int64_t ahead;  // elements: so far behind every column of g memory is fetched; it need not exist
  // kNumbers x columns of the kernel, row-major; of the errors, which double alone has, likewise.
  double* sums;
  double* errors;
};

// A tile has so many numbers, and columns of g: whole vectors.
template <class Compute>
struct TapRowTile {
  int numbers, cols;
  void (*run)(const TapRowArgs<Compute>& args);
};

template <class Compute>
struct TapRowKernels {
  int lanes;  // elements in a vector
  std::span<const TapRowTile<Compute>> tiles;
};

}  // namespace convgrad
