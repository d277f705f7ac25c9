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

#include "kernels/gemm/indirect_gemm.h"

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

// Sums that slide over lines, `cols` of them in flight for every row:
//
//   result[y][i] (a vector) = sum over j < cols, pieces: chains of
//                               a[(y + j) * a_line + i * a_step + segment.a + k] (a vector)
//                               * b[segment.b + k * cols + j]
//
// Step s reads line s once for the results s, s - 1, ..., s - cols + 1.
struct SlidingPiece {
  GemmSegment segment;
  uint32_t ends;  // bit j: behind it a block ends of the results whose j-th line this is
};

template <class Element>
struct SlidingTileArgs {
  const Element* a;  // line `step_begin`; offsets of a and c count vectors
  int64_t a_line, a_step;
  const Element* b;

  std::span<const SlidingPiece> pieces;  // of every line; the last one ends blocks of j = cols - 1
  int64_t num_blocks;

  int64_t step_begin, step_end;
  int64_t line_begin, line_end;  // others have no terms

  // Between calls: the chains of rows x cols vectors, and the sums of finished blocks as as many
  // vectors of doubles, for double twice; both zeros before step 0, aligned to kAlignment.
  ComputeType<Element>* chains;
  double* sums;

  // Result y >= 0 is written in step y + cols - 1: the first one of the call to vectors
  // c[i * c_step], others c_line vectors apart. `odd`: rounded for a later rounding to 16 bits.
  ComputeType<Element>* c;
  int64_t c_line, c_step;
  bool odd;
};

template <class Element>
struct SlidingTile {
  int rows, cols;
  void (*run)(const SlidingTileArgs<Element>& args);
};

template <class Element>
struct VectorGemmKernels {
  int lanes;  // elements in a vector
  // Grouped by columns, ascending from 1 without gaps; rows descending inside a group.
  std::span<const VectorTile<Element>> tiles;
  // Grouped by columns from 2 on, likewise; rows descending to 1.
  std::span<const SlidingTile<Element>> sliding;
};

}  // namespace convgrad
