// The micro-kernel's segments for pixels that meet the same taps, and its rows, those pixels.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "conv/axes/tap_sum.h"
#include "conv/gemm/tiles.h"
#include "conv/move/staging.h"
#include "kernels/gemm/indirect_gemm.h"

namespace convgrad {

// The segments of some blocks for one class of pixels.
class SegmentList {
 public:
  void Build(const TapPhase& phase, const AxisClass& rows, const AxisClass& cols,
             const PixelOffsets& source, int64_t num_channels, int64_t b_step, int64_t first_block,
             int64_t last_block) {
    segments_.clear();
    block_ends_.clear();
    const int64_t num_cols = static_cast<int64_t>(phase.cols->taps.size());
    for (int64_t i = first_block; i < last_block; ++i) {
      const TapBlock& block = phase.blocks[static_cast<size_t>(i)];
      const size_t block_begin = segments_.size();
      for (int64_t tap = block.tap_begin; tap < block.tap_end; ++tap) {
        const int64_t r = tap / num_cols, t = tap % num_cols;
        if (r < rows.tap_begin || r >= rows.tap_end || t < cols.tap_begin || t >= cols.tap_end)
          continue;
        const int64_t a = Offset(*phase.rows, rows, r) * source.row_stride +
                          Offset(*phase.cols, cols, t) * source.col_stride + block.channel_begin;
        const int64_t b = (phase.first_term + tap * num_channels + block.channel_begin) * b_step;
        // With dilation 1 the taps of a filter row are one segment.
        AppendTerms({a, b, block.channel_end - block.channel_begin}, {1, b_step, phase.in_pairs},
                    block_begin, segments_);
      }
      block_ends_.push_back(static_cast<int64_t>(segments_.size()));
    }
    if (block_ends_.empty()) block_ends_.push_back(0);  // no taps at all: an empty sum
  }

  void Give(auto& gatherer) const {
    gatherer.SetSegments(segments_.data(), block_ends_.data(),
                         static_cast<int64_t>(block_ends_.size()));
  }

 private:
  // From the class' first tap, so that no offset of a pixel lies outside the tensor.
  static int64_t Offset(const AxisPhase& phase, const AxisClass& c, int64_t tap) {
    return phase.offsets[static_cast<size_t>(tap)] -
           phase.offsets[static_cast<size_t>(c.tap_begin)];
  }

  std::vector<GemmSegment> segments_;
  std::vector<int64_t> block_ends_;
};

// Runs the kernel on all pixels of one class in a slab; the offsets are those of the tensors as
// they lie for it.
template <class Element>
void RunClassPixels(const Slab& slab, const TapPhase& phase, const AxisClass& row_class,
                    const AxisClass& col_class, const PixelOffsets& source,
                    const PixelOffsets& result, RowGatherer<Element>& gatherer) {
  const RowRange within = IndicesWithin(*phase.rows, slab.row_begin, slab.row_end);
  const int64_t row_begin = std::max(row_class.begin, within.begin);
  const int64_t row_end = std::min(row_class.end, within.end);
  const auto source_at = [](const AxisPhase& axis, const AxisClass& c, int64_t p) {
    if (c.tap_begin == c.tap_end) return int64_t{0};
    return axis.source_first + p * axis.source_step +
           axis.offsets[static_cast<size_t>(c.tap_begin)];
  };
  const int64_t source_step =
      col_class.tap_begin == col_class.tap_end ? 0 : phase.cols->source_step * source.col_stride;
  const int64_t result_col = phase.cols->first + col_class.begin * phase.cols->step;
  for (int64_t n = slab.image_begin; n < slab.image_end; ++n) {
    for (int64_t i = row_begin; i < row_end; ++i) {
      const int64_t source_row = source_at(*phase.rows, row_class, i);
      const int64_t result_row = phase.rows->first + i * phase.rows->step;
      gatherer.AddRun(col_class.end - col_class.begin,
                      source.At(n, source_row, source_at(*phase.cols, col_class, col_class.begin)),
                      source_step, result.At(n, result_row, result_col),
                      phase.cols->step * result.col_stride);
    }
  }
  gatherer.Flush();
}

}  // namespace convgrad
