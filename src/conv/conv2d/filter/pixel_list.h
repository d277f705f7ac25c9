// The output pixels of a filter gradient's blocks as segments of terms for the micro-kernel, for
// one tap of the filter. Knows places of pixels, not what is there.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "conv/conv2d/filter/plan.h"
#include "conv/gemm/tiles.h"

namespace convgrad {

// The terms of some blocks for one tap: runs of pixels along output rows.
class PixelList {
 public:
  template <class Operands>
  void Build(const FilterGradientPlan& plan, const Operands& operands, int64_t first_block,
             int64_t last_block, int64_t tap) {
    segments_.clear();
    block_ends_.clear();
    for (int64_t i = first_block; i < last_block; ++i) {
      AppendBlock(plan, operands, plan.blocks[static_cast<size_t>(i)], tap);
      block_ends_.push_back(static_cast<int64_t>(segments_.size()));
    }
  }

  template <class Element>
  void Give(GemmTileArgs<Element>& tile) const {
    tile.segments = segments_.data();
    tile.block_ends = block_ends_.data();
    tile.num_blocks = static_cast<int64_t>(block_ends_.size());
  }

 private:
  // The output positions of [begin, end) whose tap is on the grid.
  static Slab ColsOnGrid(const AxisGrid& grid, int64_t tap, int64_t begin, int64_t end) {
    const int64_t at = grid.offset + tap * grid.dilation;  // index for position 0
    const int64_t first = at >= 0 ? 0 : CeilDiv(-at, grid.stride);
    const int64_t last = at >= grid.count ? 0 : CeilDiv(grid.count - at, grid.stride);
    return {0, 0, std::max(begin, first), std::min(end, last)};
  }

  template <class Operands>
  void AppendBlock(const FilterGradientPlan& plan, const Operands& operands,
                   const PixelBlock& block, int64_t tap) {
    const int64_t r = tap / plan.geometry.kernel_w, t = tap % plan.geometry.kernel_w;
    const Slab cols = ColsOnGrid(plan.cols, t, block.col_begin, block.col_end);
    if (cols.row_begin >= cols.row_end) return;
    const size_t block_begin = segments_.size();
    const TermSteps steps{operands.row_step(), operands.column_step(), plan.in_pairs};
    // Without its partner before it the first column stands alone.
    const int64_t alone = plan.in_pairs ? (cols.row_begin - block.col_begin) % 2 : 0;
    for (int64_t n = block.image_begin; n < block.image_end; ++n) {
      for (int64_t i = block.row_begin; i < block.row_end; ++i) {
        const int64_t row = plan.rows.IndexOf(i, r);
        if (row < 0 || row >= plan.rows.count) continue;
        GemmSegment next =
            operands.Terms(operands.InputPixel(n, row, plan.cols.IndexOf(cols.row_begin, t)),
                           operands.OutputPixel(n, i, cols.row_begin), alone);
        if (alone > 0) segments_.push_back(next);
        next.a += alone * steps.a;
        next.b += alone * steps.b;
        next.length = cols.row_end - cols.row_begin - alone;
        if (next.length > 0) AppendTerms(next, steps, block_begin, segments_);
      }
    }
  }

  std::vector<GemmSegment> segments_;
  std::vector<int64_t> block_ends_;
};

}  // namespace convgrad
