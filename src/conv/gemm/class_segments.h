// The micro-kernel's segments for pixels that meet the same taps, and its rows, those pixels.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <utility>
#include <vector>

#include "conv/axes/tap_sum.h"
#include "conv/gemm/class_pixels.h"
#include "conv/gemm/tiles.h"
#include "conv/move/staging.h"
#include "kernels/gemm/indirect_gemm.h"

namespace convgrad {

// How far apart rows and columns of the source lie, how many channels a term's pixel has, and how
// far apart terms of the filter lie, all in elements.
struct SegmentSteps {
  int64_t row, col, channels, b;
};

// The segments of some blocks for one class of pixels.
class SegmentList {
 public:
  // `blocks`: of the phase.
  void Build(const TapPhase& phase, const AxisClass& rows, const AxisClass& cols,
             const SegmentSteps& steps, const Range& blocks) {
    segments_.clear();
    block_ends_.clear();
    const int64_t num_cols = static_cast<int64_t>(phase.cols->taps.size());
    for (int64_t i = blocks.begin; i < blocks.end; ++i) {
      const TapBlock& block = phase.blocks[static_cast<size_t>(i)];
      const size_t block_begin = segments_.size();
      for (int64_t tap = block.tap_begin; tap < block.tap_end; ++tap) {
        const int64_t r = tap / num_cols, t = tap % num_cols;
        if (r < rows.tap_begin || r >= rows.tap_end || t < cols.tap_begin || t >= cols.tap_end)
          continue;
        const int64_t a = Offset(*phase.rows, rows, r) * steps.row +
                          Offset(*phase.cols, cols, t) * steps.col + block.channel_begin;
        const int64_t b = (phase.first_term + tap * steps.channels + block.channel_begin) * steps.b;
        // With dilation 1 the taps of a filter row are one segment.
        AppendTerms({a, b, block.channel_end - block.channel_begin}, {1, steps.b, phase.in_pairs},
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

// The segments of every class of pixels of some phases, which must outlive it. They are made once,
// unless they would take more memory than they save time; then each is made when it is asked for.
class SegmentTable {
 public:
  // The blocks of phase i are taken in parts[i] parts; in one where `parts` is empty.
  SegmentTable(const std::vector<TapPhase>& phases, const SegmentSteps& steps,
               std::vector<int64_t> parts = {})
      : phases_(phases), steps_(steps), parts_(std::move(parts)) {
    if (parts_.empty()) parts_.assign(phases.size(), 1);
    if (Size() > kMostKept) return;
    for (size_t i = 0; i < phases.size(); ++i) {
      first_.push_back(lists_.size());
      for (int64_t part = 0; part < parts_[i]; ++part) {
        SegmentList list;
        ForEachClass(i, [&](const AxisClass& rows, const AxisClass& cols) {
          list.Build(phases[i], rows, cols, steps_, BlocksOf(i, part));
          lists_.push_back(list);
        });
      }
    }
  }

  int64_t PartsOf(size_t phase) const { return parts_[phase]; }

  // That ForClasses puts into `scratch`, at most; a vector that grows holds twice what it needs.
  int64_t ScratchBytes() const {
    if (!first_.empty()) return 0;
    int64_t segments = 0;
    for (const TapPhase& phase : phases_) segments = std::max(segments, MostSegments(phase));
    return 2 * segments * int64_t{sizeof(GemmSegment) + sizeof(int64_t)};
  }

  // body(rows, cols, segments) for every class of a phase, with the blocks of one of its parts.
  template <class Body>
  void ForClasses(size_t phase, int64_t part, SegmentList& scratch, const Body& body) const {
    const SegmentList* list = nullptr;
    if (!first_.empty()) {
      list = lists_.data() + first_[phase] + part * phases_[phase].num_classes();
    }
    ForEachClass(phase, [&](const AxisClass& rows, const AxisClass& cols) {
      if (list != nullptr) return body(rows, cols, *list++);
      scratch.Build(phases_[phase], rows, cols, steps_, BlocksOf(phase, part));
      body(rows, cols, scratch);
    });
  }

 private:
  static constexpr int64_t kMostKept = 1 << 14;  // segments

  Range BlocksOf(size_t phase, int64_t part) const {
    return ShareOf(std::ssize(phases_[phase].blocks), parts_[phase], part);
  }

  template <class Body>
  void ForEachClass(size_t phase, const Body& body) const {
    for (const AxisClass& rows : phases_[phase].rows->classes) {
      for (const AxisClass& cols : phases_[phase].cols->classes) body(rows, cols);
    }
  }

  static int64_t MostSegments(const TapPhase& phase) {
    return std::max<int64_t>(phase.num_taps() * (phase.in_pairs ? 2 : 1), std::ssize(phase.blocks));
  }

  // At most; a list counts as a few segments. More than kMostKept may be any number of them.
  int64_t Size() const {
    int64_t size = 0;
    for (size_t i = 0; i < phases_.size() && size <= kMostKept; ++i) {
      const TapPhase& phase = phases_[i];
      const int64_t classes = phase.num_classes();
      const int64_t segments = MostSegments(phase) + std::ssize(phase.blocks) + 4 * parts_[i];
      if (classes > kMostKept || segments > kMostKept) return kMostKept + 1;
      size += classes * segments;
    }
    return size;
  }

  const std::vector<TapPhase>& phases_;
  const SegmentSteps steps_;
  std::vector<int64_t> parts_;
  std::vector<SegmentList> lists_;  // [phase][part][class of rows][class of columns]
  std::vector<size_t> first_;       // of each phase; none where lists are not kept
};

// Runs the kernel on some pixels of one class in a slab; the offsets are those of the tensors as
// they lie for it.
template <class Element>
void RunClassPixels(const Range& pixels, const Slab& slab, const TapPhase& phase,
                    const AxisClass& row_class, const AxisClass& col_class,
                    const PixelOffsets& source, const PixelOffsets& result,
                    RowGatherer<Element>& gatherer) {
  if (pixels.begin == pixels.end) return;
  const Range rows = RowsOfClass(slab, phase, row_class);
  const int64_t num_cols = col_class.end - col_class.begin;
  const auto source_at = [](const AxisPhase& axis, const AxisClass& c, int64_t p) {
    if (c.tap_begin == c.tap_end) return int64_t{0};
    return axis.source_first + p * axis.source_step +
           axis.offsets[static_cast<size_t>(c.tap_begin)];
  };
  const auto source_step = [](const AxisPhase& axis, const AxisClass& c, int64_t stride) {
    return c.tap_begin == c.tap_end ? 0 : axis.source_step * stride;
  };
  const int64_t source_col_step = source_step(*phase.cols, col_class, source.col_stride);
  const int64_t source_row_step = source_step(*phase.rows, row_class, source.row_stride);
  const int64_t result_col_step = phase.cols->step * result.col_stride;
  const int64_t result_row_step = phase.rows->step * result.row_stride;
  // Pixels at even distances: of a row, or of rows and images, where these go on from there.
  int64_t even = num_cols;
  if (source_row_step == even * source_col_step && result_row_step == even * result_col_step) {
    even *= rows.size();
    if (source.image_stride == even * source_col_step &&
        result.image_stride == even * result_col_step) {
      even *= slab.num_images();
    }
  }
  for (int64_t pixel = pixels.begin; pixel < pixels.end;) {
    const int64_t line = pixel / num_cols, col = pixel % num_cols;
    const int64_t count = std::min(even - pixel % even, pixels.end - pixel);
    const int64_t n = slab.image_begin + line / rows.size(), i = rows.begin + line % rows.size();
    const int64_t source_row = source_at(*phase.rows, row_class, i);
    const int64_t source_col = source_at(*phase.cols, col_class, col_class.begin);
    const int64_t result_row = phase.rows->first + i * phase.rows->step;
    const int64_t result_col = phase.cols->first + (col_class.begin + col) * phase.cols->step;
    gatherer.Add({count, source.At(n, source_row, source_col) + col * source_col_step,
                  source_col_step, result.At(n, result_row, result_col), result_col_step});
    pixel += count;
  }
  gatherer.Flush();
}

}  // namespace convgrad
