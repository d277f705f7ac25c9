// The filter gradient as sums over output pixels: in which order, in which portions, and which
// pixel of the input each tap of the filter meets. Nothing here touches data.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "conv/axes/slab.h"
#include "order/canonical_order.h"
#include "problem/geometry.h"

namespace convgrad {

// The positions of one axis of the input that are kept for the kernels: first + i * step for
// i < count. Output position p meets tap k at index p * stride + offset + k * dilation, which may
// lie outside [0, count): then it is padding, unless the grid is padded, where it never does.
struct AxisGrid {
  int64_t first, step, count;
  int64_t stride, dilation, offset;

  int64_t IndexOf(int64_t position, int64_t tap) const {
    return position * stride + offset + tap * dilation;
  }
};

// Every input position; with a single tap and `sparse`, only those the stride does not jump over.
AxisGrid InputGrid(int64_t in, int64_t stride, int64_t dilation, int64_t pad, int64_t kernel,
                   bool sparse);
// Every position that output positions [0, out) meet, padding included: `first` is negative then.
AxisGrid PaddedGrid(int64_t out, int64_t stride, int64_t dilation, int64_t pad, int64_t kernel);
// The same for pairs of output columns: index i holds first + i * step and the position `stride`
// further, of which one at least is on the input; positions are those of pairs. With a single tap
// and `sparse` every output pair has one.
AxisGrid PairGrid(int64_t in, int64_t out, int64_t stride, int64_t dilation, int64_t pad,
                  int64_t kernel, bool sparse);
// Blocks of the canonical order, as PixelBlocks lists them.
int64_t NumPixelBlocks(const ConvGeometry& g);
// The most images, rows and columns that any of them has, if there are some.
struct PixelBlockSize {
  int64_t images, rows, cols;
  int64_t pixels() const { return images * rows * cols; }
};
PixelBlockSize LargestPixelBlock(const ConvGeometry& g);
// True if they are few enough for a list of them. No machine has room for tensors of more.
inline bool CanListPixelBlocks(const ConvGeometry& g) {
  return NumPixelBlocks(g) <= int64_t{1} << 25;
}
// Columns of blocks count pairs from now on.
void CountInPairs(std::vector<PixelBlock>& blocks);

// Consecutive blocks whose operands are packed together: whole images, or rows of one image.
struct PixelStage {
  Slab output;
  int64_t block_begin, block_end;

  int64_t num_pixels(int64_t out_w) const {
    return output.num_images() * output.num_rows() * out_w;
  }
  // Those of a portion of so many blocks that are in the stage.
  Range BlocksOf(int64_t portion, int64_t portion_blocks) const {
    return {std::max(portion * portion_blocks, block_begin),
            std::min((portion + 1) * portion_blocks, block_end)};
  }
};

// `blocks` in stages of at most about max_pixels output pixels, at least one row of blocks each;
// or, if not 0, what of that row belongs to one portion of `portion_blocks` blocks.
std::vector<PixelStage> SplitStages(const std::vector<PixelBlock>& blocks, int64_t out_h,
                                    int64_t out_w, int64_t max_pixels, int64_t portion_blocks);

// The stages, of all in their order, that consist of blocks [begin, end); none goes across either.
template <class Stage>
std::span<const Stage> StagesOfBlocks(const std::vector<Stage>& stages, const Range& blocks) {
  const auto first_from = [&](int64_t block) {
    return std::partition_point(stages.begin(), stages.end(),
                                [&](const Stage& stage) { return stage.block_begin < block; });
  };
  return {first_from(blocks.begin), first_from(blocks.end)};
}

// Adds portions of `portion_blocks` blocks each, a whole run or one, to the total as the canonical
// order does: those of a run to each other, and every run to the total. They begin with a run's
// first. sums_of(portion) is where its sums are, which may be the total's place; add(from, to).
template <class SumsOf, class Add>
void AddPortions(const Range& portions, int64_t portion_blocks, double* total,
                 const SumsOf& sums_of, const Add& add) {
  const int64_t run_portions = kRunBlocks / portion_blocks;
  for (int64_t first = portions.begin; first < portions.end; first += run_portions) {
    double* const run = sums_of(first);
    const int64_t end = std::min(first + run_portions, portions.end);
    for (int64_t portion = first + 1; portion < end; ++portion) add(sums_of(portion), run);
    if (run != total) add(run, total);
  }
}

}  // namespace convgrad
