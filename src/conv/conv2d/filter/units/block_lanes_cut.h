// How a filter gradient with lanes along blocks of the canonical order is cut: into units of groups
// and runs of blocks, and how a unit's operands lie when they are packed. Follows from problem and
// kernels; touches no data, and lists no blocks.
#pragma once

#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "base/checked.h"
#include "conv/axes/pixel_sum.h"
#include "conv/axes/tap_sum.h"
#include "conv/move/staging.h"
#include "conv/plan/work.h"
#include "kernels/gemm/indirect_gemm.h"
#include "kernels/kernel_table.h"
#include "order/canonical_order.h"
#include "problem/geometry.h"

namespace convgrad {

// One operand as it is packed, as [image][row][column][channel][lane]: of every lane's block as
// many images, rows and columns as the largest has, zeros where there are none.
struct BlockLanesOperand {
  DataShape shape;
  int64_t group_c;     // channels of a group
  int64_t rows, cols;  // of an image of a block
  // Row r of a block is row block.row_begin * row_step + row_first + r of the image; columns alike.
  int64_t row_step, row_first, col_step, col_first;
  int64_t channels = 0;       // of a unit
  int64_t pixel = 0;          // vectors from one pixel to the next
  bool whole_pixels = false;  // of the tensor lie side by side as they do here

  int64_t Vectors(int64_t images) const { return images * rows * cols * pixel; }
  // The columns of a block's row that are on the image, counted from the row's first.
  Range OnImage(const PixelBlock& block) const;
};

struct BlockLanesSums;

struct BlockLanesCut {
  explicit BlockLanesCut(const Problem& problem);

  // True if a unit's packed operands and sums stay in the second cache. Ask before the sizes below.
  bool Fits() const;
  // With vectors of so many lanes. Where rows are cut, putting their parts between zeros is left
  // out.
  Work CountWork(const BlockLanesSums& sums, int64_t lanes) const;

  int64_t num_taps() const { return geometry.kernel_h * geometry.kernel_w; }
  // A group's sums are a matrix of these rows, taps by input channels, and group_out_c columns.
  int64_t num_rows() const { return num_taps() * geometry.group_in_c; }
  int64_t num_units() const { return CeilDiv(geometry.groups, unit_groups); }
  int64_t GroupsOf(int64_t unit) const {
    return std::min(unit_groups, geometry.groups - unit * unit_groups);
  }
  int64_t num_runs() const { return CeilDiv(num_blocks, kRunBlocks); }
  int64_t unit_out_c() const { return unit_groups * geometry.group_out_c; }

  // Where the rows of a group's sums, tiles of `tile_rows`, begin in its input; surplus ones repeat
  // the last.
  std::vector<int64_t> RowOffsets(int64_t num_rows) const;
  // The rows of a block, vectors of both operands.
  std::vector<GemmSegment> Segments() const;

  const ConvGeometry geometry;
  const int64_t element_bytes, most_lanes;  // of the compute type; of the widest vector
  const int64_t num_blocks;
  const PixelBlockSize most;  // of a block
  const bool whole_rows;      // else rows of a block are parts, which are put between zeros first
  const int64_t unit_groups;
  const BlockLanesOperand input, output;

 private:
  BlockLanesOperand InputForm(DataFormat format) const;
  BlockLanesOperand OutputForm(DataFormat format) const;
  // The operand of all groups of a unit.
  BlockLanesOperand OfUnit(BlockLanesOperand operand) const;
  int64_t UnitGroups() const;
};

// The sums of a unit, tile by tile: [group][tile of columns][tile of rows][row][column].
struct BlockLanesSums {
  template <class Compute>
  BlockLanesSums(const BlockLanesCut& cut, const VectorOuterKernels<Compute>& kernels)
      : BlockLanesSums(cut) {
    const std::span<const OuterTile<Compute>> tiles = kernels.tiles;
    const int64_t waiting = WaitingSlots(kernels.lanes == most_lanes);
    double least = HUGE_VAL;
    for (const OuterTile<Compute>& tile : tiles) {
      const double cost = CostOf(tile.rows, tile.cols, waiting);
      if (cost >= least) continue;
      least = cost;
      tile_index = &tile - tiles.data();
      tile_rows = tile.rows;
      tile_cols = tile.cols;
    }
  }

  int64_t row_tiles() const { return CeilDiv(rows, tile_rows); }
  int64_t col_tiles() const { return CeilDiv(cols, tile_cols); }
  int64_t TileSize() const { return tile_rows * tile_cols; }
  int64_t GroupSize() const { return row_tiles() * col_tiles() * TileSize(); }
  // In whole vectors.
  int64_t UnitSize() const { return RoundUp(groups * GroupSize(), most_lanes); }

  int64_t groups, rows, cols, most_lanes;
  int64_t tile_index = 0, tile_rows = 0, tile_cols = 0;

 private:
  explicit BlockLanesSums(const BlockLanesCut& cut);
  double CostOf(int64_t tile_rows, int64_t tile_cols, int64_t waiting) const;
};

}  // namespace convgrad
