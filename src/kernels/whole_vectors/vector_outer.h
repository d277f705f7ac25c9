// The micro-kernel for sums of outer products of vectors whose lanes never meet: both operands are
// whole vectors. It knows nothing of convolutions.
//
//   sums[i][j] (a vector) = chain from +0 over the segments and k < length of
//                             a[a_rows[i] + segment.a + k * a_step] *
//                             b[segment.b + j + k * b_step]
#pragma once

#include <cstdint>
#include <span>

#include "kernels/gemm/indirect_gemm.h"

namespace convgrad {

// Offsets and steps count vectors; all vectors are aligned to their size. Compute: float or double.
template <class Compute>
struct OuterTileArgs {
  const Compute* a;
  const int64_t* a_rows;  // as many as the kernel has rows
  int64_t a_step;
  const Compute* b;
  int64_t b_step;
  std::span<const GemmSegment> segments;
  Compute* sums;  // rows x cols of them
};

template <class Compute>
struct OuterTile {
  int rows, cols;
  void (*run)(const OuterTileArgs<Compute>& args);
};

template <class Compute>
struct VectorOuterKernels {
  int lanes;  // elements in a vector
  std::span<const OuterTile<Compute>> tiles;
};

}  // namespace convgrad
