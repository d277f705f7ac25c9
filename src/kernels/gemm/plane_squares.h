// The micro-kernel of products of planes: sums along pixels, which follow each other in both
// operands' planes. Squares of the columns' planes are transposed in registers and multiplied at
// once, so no copy of them is made.
//
//   sums[i][j] += in double: chain from +0 over the segments and k < length of
//                   a[a_rows[i] + segment.a + k] * b[j * b_col_step + segment.b + k]
#pragma once

#include <cstdint>
#include <span>

#include "kernels/gemm/indirect_gemm.h"

namespace convgrad {

// Offsets and steps count elements; nothing needs to be aligned. Compute: float or double.
template <class Compute>
struct PlaneSquareArgs {
  const Compute* a;
  const int64_t* a_rows;  // as many as the tile has rows
  const Compute* b;
  int64_t b_col_step;
  int64_t num_cols;  // that exist: no more are read, the others' sums mean nothing
  std::span<const GemmSegment> segments;
  int64_t ahead;  // elements: so far behind what is read memory is fetched; it need not exist
  // Rows x columns of the tile, row-major; of the errors, which double alone has, likewise.
  double* sums;
  double* errors;
};

// A tile has so many rows, and columns: whole vectors.
template <class Compute>
struct PlaneSquareTile {
  int rows, cols;
  void (*run)(const PlaneSquareArgs<Compute>& args);
};

template <class Compute>
struct PlaneSquareKernels {
  int lanes;                                        // elements in a vector
  std::span<const PlaneSquareTile<Compute>> tiles;  // none without vectors
};

}  // namespace convgrad
