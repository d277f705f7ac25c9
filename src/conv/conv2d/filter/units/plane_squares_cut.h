// How the filter gradient of a 1x1 filter in NCHW is cut for the micro-kernel of products of planes
// (kernels/gemm/plane_squares.h): which side's channels are rows of tiles, and units, each a tile
// of one group. Follows from problem and kernels; touches no data.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "base/checked.h"
#include "conv/plan/work.h"
#include "kernels/kernel_table.h"
#include "order/canonical_order.h"
#include "problem/geometry.h"

namespace convgrad {

template <class Compute>
struct PlaneSquaresCut {
  // Channels of an operand: all of them, and a group's.
  struct Planes {
    int64_t channels, group_channels;
  };
  // The tile of a unit: first row and column of the group, and how many it has of either.
  struct Place {
    int64_t group, first_row, first_col, num_rows, num_cols;
  };

  PlaneSquaresCut(const Problem& problem, const KernelTable& kernels, int num_threads);

  // Groups' row tiles follow each other, in each its panels.
  int64_t NumUnits() const { return geometry.groups * row_tiles * panels; }
  int64_t NumSums() const { return int64_t{tile.rows} * tile.cols; }
  int64_t NumRuns() const { return CeilDiv(std::ssize(blocks), kRunBlocks); }
  int64_t Pixels() const { return geometry.out_h * geometry.out_w; }  // of a plane
  Place PlaceOf(int64_t unit) const;
  Work CountWork() const;
  std::string Tiles() const;

  const ConvGeometry geometry;
  const bool wide;             // vectors are 64 bytes
  const bool fetches;          // operands come from beyond the caches
  const bool rows_are_inputs;  // of tiles; else outputs: whatever a group has fewer of
  const Planes rows, cols;
  const int64_t lanes;
  const PlaneSquareTile<Compute> tile;
  const int64_t row_tiles, panels;  // of a group
  const std::vector<PixelBlock> blocks;

 private:
  PlaneSquareTile<Compute> ChooseTile(const PlaneSquareKernels<Compute>& kernels) const;
};

extern template struct PlaneSquaresCut<float>;
extern template struct PlaneSquaresCut<double>;

}  // namespace convgrad
