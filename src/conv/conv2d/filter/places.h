// Where the elements of a filter gradient's operands lie in one stage, in scratch memory, packed,
// or in the tensors; and the output pixels of its blocks as segments of terms for the micro-kernel.
// Follows from the cut; touches no data.
#pragma once

#include <algorithm>
#include <cstdint>
#include <mutex>
#include <vector>

#include "base/parallel.h"
#include "conv/axes/slab.h"
#include "conv/conv2d/filter/cut.h"
#include "conv/gemm/tiles.h"
#include "problem/geometry.h"

namespace convgrad {

// Strides of one operand, in its elements. Pixels of the input are those of the grid.
struct OperandPlaces {
  int64_t channel, pixel, row, image;
  int64_t first_image, first_row;  // that are there
  int64_t block;                   // from one block of channels, or panel, to the next
  int64_t group;                   // from one group to the next
  int64_t begin = 0;  // of what the pass meets, from where the tensor or the packed elements begin

  int64_t Of(int64_t n, int64_t i, int64_t j) const {
    return (n - first_image) * image + (i - first_row) * row + j * pixel;
  }
  // Packed pixel by pixel: those of a slab, with so many columns.
  static OperandPlaces Packed(const Slab& slab, int64_t num_cols, int64_t pixel) {
    const int64_t row = num_cols * pixel, image = slab.num_rows() * row;
    return {1, pixel, row, image, slab.image_begin, slab.row_begin, 0, 0};
  }
};

class StagePlaces {
 public:
  using Pass = FilterCut::Pass;

  StagePlaces(const FilterCut& cut, const Pass& pass, const PixelStage& stage)
      : cut_(&cut),
        input_(cut.inputs_in_lanes ? InputColumns(cut, pass, stage) : InputRows(cut, pass, stage)),
        output_(cut.inputs_in_lanes ? OutputRows(cut, pass, stage)
                                    : OutputColumns(cut, pass, stage)),
        panels_per_group_(pass.panel_end - pass.panel_begin) {}

  const OperandPlaces& input() const { return input_; }
  const OperandPlaces& output() const { return output_; }

  // The place in the operand whose channels are the tiles' rows, from its `begin`.
  int64_t Rows(int64_t group_in_pass) const { return group_in_pass * rows().group; }
  // The places of all rows of the result's matrix (of those of a tap when apart) from the group's
  // pixel; surplus ones repeat the last.
  void SetRowOffsets(std::vector<int64_t>& offsets) const {
    const int64_t num = cut_->NumRows();
    offsets.resize(static_cast<size_t>(cut_->RowsHeld()));
    int64_t* const to = offsets.data();
    if (cut_->inputs_in_lanes) {
      for (int64_t i = 0; i < num; ++i) to[i] = i * output_.channel;
    } else if (cut_->joined) {
      SetJoinedOffsets(to);
    } else {
      SetBlockOffsets(num, to);
    }
    std::fill(to + num, to + offsets.size(), to[num - 1]);
  }
  // The place of a panel of the operand whose channels are columns, from its `begin`.
  int64_t Columns(int64_t panel_in_pass) const {
    return panel_in_pass / panels_per_group_ * columns().group +
           panel_in_pass % panels_per_group_ * columns().block;
  }
  // From one term of a segment to the next.
  int64_t row_step() const { return cut_->inputs_in_lanes ? output_.pixel : input_step(); }
  int64_t column_step() const { return cut_->inputs_in_lanes ? input_step() : output_.pixel; }
  // Output pixels from (n, row, col) on, which meet the input's from (n, grid_row, grid_col) on.
  GemmSegment Terms(int64_t n, int64_t grid_row, int64_t grid_col, int64_t row, int64_t col,
                    int64_t length) const {
    const int64_t in = input_.Of(n, grid_row, grid_col), out = output_.Of(n, row, col);
    return cut_->inputs_in_lanes ? GemmSegment{out, in, length} : GemmSegment{in, out, length};
  }

 private:
  const OperandPlaces& rows() const { return cut_->inputs_in_lanes ? output_ : input_; }
  const OperandPlaces& columns() const { return cut_->inputs_in_lanes ? input_ : output_; }
  int64_t input_step() const { return cut_->cols.stride * input_.pixel; }

  void SetBlockOffsets(int64_t num, int64_t* offsets) const {
    const int64_t block_c = cut_->ChannelBlock();
    for (int64_t first = 0, block = 0; first < num; first += block_c, block += input_.block) {
      const int64_t count = std::min(block_c, num - first);
      for (int64_t i = 0; i < count; ++i) *offsets++ = block + i * input_.channel;
    }
  }
  void SetJoinedOffsets(int64_t* offsets) const {
    const ConvGeometry& g = cut_->geometry;
    for (int64_t tap = 0; tap < cut_->num_taps; ++tap) {
      const int64_t pixel = tap / g.kernel_w * g.dilation_h * input_.row +
                            tap % g.kernel_w * g.dilation_w * input_.pixel;
      for (int64_t i = 0; i < g.group_in_c; ++i) *offsets++ = pixel + i * input_.channel;
    }
  }

  static OperandPlaces InputRows(const FilterCut& cut, const Pass& pass, const PixelStage& stage);
  static OperandPlaces InputPlanes(const FilterCut& cut, const Pass& pass, const PixelStage& stage);
  static OperandPlaces InputColumns(const FilterCut& cut, const Pass& pass,
                                    const PixelStage& stage);
  static OperandPlaces InputPixels(const FilterCut& cut, const Pass& pass, const PixelStage& stage);
  static OperandPlaces OutputRows(const FilterCut& cut, const Pass& pass, const PixelStage& stage);
  static OperandPlaces OutputColumns(const FilterCut& cut, const Pass& pass,
                                     const PixelStage& stage);

  const FilterCut* cut_;
  OperandPlaces input_, output_;
  int64_t panels_per_group_;
};

// The terms of some blocks for one tap: runs of pixels along output rows.
class PixelList {
 public:
  void Build(const FilterCut& cut, const StagePlaces& places, int64_t first_block,
             int64_t last_block, int64_t tap) {
    segments_.clear();
    block_ends_.clear();
    for (int64_t i = first_block; i < last_block; ++i) {
      AppendBlock(cut, places, cut.blocks[static_cast<size_t>(i)], tap);
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
  void AppendBlock(const FilterCut& cut, const StagePlaces& places, const PixelBlock& block,
                   int64_t tap) {
    const int64_t r = tap / cut.geometry.kernel_w, t = tap % cut.geometry.kernel_w;
    const Range on_grid =
        OutputsOnInput(cut.cols.IndexOf(0, t), cut.cols.stride, cut.cols.count, block.col_end);
    const Range cols = {std::max(block.col_begin, on_grid.begin), on_grid.end};
    if (cols.begin >= cols.end) return;
    const size_t block_begin = segments_.size();
    const TermSteps steps{places.row_step(), places.column_step(), cut.in_pairs};
    // Without its partner before it the first column stands alone.
    const int64_t alone = cut.in_pairs ? (cols.begin - block.col_begin) % 2 : 0;
    for (int64_t n = block.image_begin; n < block.image_end; ++n) {
      for (int64_t i = block.row_begin; i < block.row_end; ++i) {
        const int64_t row = cut.rows.IndexOf(i, r);
        if (row < 0 || row >= cut.rows.count) continue;
        GemmSegment next =
            places.Terms(n, row, cut.cols.IndexOf(cols.begin, t), i, cols.begin, alone);
        if (alone > 0) segments_.push_back(next);
        next.a += alone * steps.a;
        next.b += alone * steps.b;
        next.length = cols.size() - alone;
        if (next.length > 0) AppendTerms(next, steps, block_begin, segments_);
      }
    }
  }

  std::vector<GemmSegment> segments_;
  std::vector<int64_t> block_ends_;
};

// Those of all chunks of a stage's blocks, of every tap.
class StageLists {
 public:
  void Build(const Parallel& parallel, const FilterCut& cut, const StagePlaces& places,
             const PixelStage& stage) {
    tile_taps_ = cut.tile_taps;
    lists_.resize(static_cast<size_t>((stage.block_end - stage.block_begin) * tile_taps_));
    const int64_t first_portion = stage.block_begin / cut.portion_blocks;
    const int64_t portions = CeilDiv(stage.block_end, cut.portion_blocks) - first_portion;
    parallel.For(portions * tile_taps_, [&](int64_t i) {
      const int64_t tap = i % tile_taps_;
      const Range blocks = stage.BlocksOf(first_portion + i / tile_taps_, cut.portion_blocks);
      for (int64_t block = blocks.begin; block < blocks.end; block += cut.chunk_blocks) {
        const int64_t end = std::min(blocks.end, block + cut.chunk_blocks);
        lists_[IndexOf(block - stage.block_begin, tap)].Build(cut, places, block, end, tap);
      }
    });
  }

  // The list of the chunk that begins so many blocks behind the stage's first.
  const PixelList& Of(int64_t block, int64_t tap) const { return lists_[IndexOf(block, tap)]; }

 private:
  size_t IndexOf(int64_t block, int64_t tap) const {
    return static_cast<size_t>(block * tile_taps_ + tap);
  }

  int64_t tile_taps_ = 0;
  std::vector<PixelList> lists_;  // by a chunk's first block, and tap
};

// The lists of a cut's first pass and stage, made by the first run: plans are also made to be
// counted only.
class FrontLists {
 public:
  const StageLists& Of(const Parallel& parallel, const FilterCut& cut) const {
    std::call_once(once_, [&] {
      const StagePlaces places(cut, cut.passes.front(), cut.stages.front());
      lists_.Build(parallel, cut, places, cut.stages.front());
    });
    return lists_;
  }

 private:
  mutable std::once_flag once_;
  mutable StageLists lists_;
};

}  // namespace convgrad
