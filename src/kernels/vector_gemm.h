// The matrix micro-kernel for lanes that never meet: one operand is whole vectors, one of them for
// every row and term, the other single numbers. Element: float, double, or BFloat16Pair. It knows
// nothing of convolutions.
//
//   tile[i][j] (a vector) = sum over blocks (in double) of
//                             chain over the block's segments and k < length of
//                               a[a_rows[i] + segment.a + k] (a vector) * b[segment.b + k * cols +
//                               j]
#pragma once

#include <cstdint>
#include <span>

#include "kernels/indirect_gemm.h"

namespace convgrad {

// Offsets a_rows, c_rows and segment.a count vectors, segment.b counts numbers.
template <class Element>
struct VectorTileArgs {
  const Element* a;
  const int64_t* a_rows;  // as many as the kernel has rows; surplus ones repeat a valid row
  const Element* b;

  // The segments of block i end at block_ends[i]. At least one block; a block may have no segments.
  const GemmSegment* segments;
  const int64_t* block_ends;
  int64_t num_blocks;

  // Room for rows x cols vectors of doubles, for double twice; aligned to kAlignment.
  double* sums;

  // Vector c[c_rows[i] + j] for i < num_rows, j < num_cols; `odd`: rounded for a later rounding to
  // 16 bits.
  ComputeType<Element>* c;
  const int64_t* c_rows;
  int64_t num_rows, num_cols;
  bool odd;
};

template <class Element>
struct VectorTile {
  int rows, cols;
  void (*run)(const VectorTileArgs<Element>& args);
};

template <class Element>
struct VectorGemmKernels {
  int lanes;  // elements in a vector
  // Grouped by columns, ascending from 1 without gaps; rows descending inside a group.
  std::span<const VectorTile<Element>> tiles;
};

}  // namespace convgrad
