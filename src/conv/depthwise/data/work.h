// The work of a depthwise forward or input gradient, counted from what its cut decided: with
// lanes along channels (`direct`), and plane by plane.
#pragma once

#include <cstdint>

#include "conv/depthwise/data/direct_cut.h"
#include "conv/depthwise/data/planes_cut.h"
#include "conv/plan/work.h"
#include "kernels/kernel_table.h"

namespace convgrad {

// Outputs of a row that the kernels on rows of channels sum together.
inline constexpr int64_t kRowTile = 7;

// Tiles of a row of results, their segments, and their terms as if no column were off the row.
struct RowTiles {
  explicit RowTiles(const DepthwiseDataCut& cut);

  int64_t lines = 0, tiles = 0, segments = 0, terms = 0;
  bool apart = false;  // columns lie by residues
};

// Vectors that a row of `width` results is cut into by the kernel on padded planes, and its tiles.
struct PlaneVectors {
  PlaneVectors(int64_t width, int64_t lanes, int64_t least, int64_t most_live, bool many_registers);

  int64_t vectors, tiles;
};

Work CountDirect(const DepthwiseDataCut& cut, const KernelTable& kernels);
Work CountPlanes(const PlanesCut& cut, const KernelTable& kernels);

// Vectors of 64 bytes and 32 registers.
bool HasWideVectors(const KernelTable& kernels);

}  // namespace convgrad
