// Runs strips of a part whose sums slide down the rows (sliding_rows.h), once their rows of the
// source are packed. Knows neither how they are packed nor where results go.
#pragma once

#include <algorithm>
#include <span>

#include "conv/conv2d/data/image_lanes_cut.h"
#include "conv/conv2d/data/sliding_rows.h"

namespace convgrad {

// Strips of a part are run from its first row to its last.
template <class Stored, class Element>
class SlidingRows {
 public:
  using Compute = ComputeType<Stored>;
  using Scratch = ImageLanesScratch<Stored, Element>;

  SlidingRows(const ImageLanesCut<Stored, Element>& cut, const ImageLanesPart& part,
              const Element* filter, Scratch& scratch);

  // The results of positions [begin, end). Scratch begins with the first row of the source that no
  // strip before this one has read.
  void Run(int64_t begin, int64_t end);

 private:
  void RunClass(const TapPhase& phase, const AxisClass& cols, std::span<const SlidingPiece> pieces,
                Range steps);
  void RunTile(const SlidingTile<Element>& tile, SlidingTileArgs<Element> args);

  int64_t lanes() const { return cut_.kernels.lanes; }

  const ImageLanesCut<Stored, Element>& cut_;
  const ImageLanesPart& part_;
  const Element* filter_;
  Scratch& scratch_;
  const Range source_cols_, result_cols_;
  const int64_t source_c_;  // channels of the chunk
  int64_t num_sums_ = 0;    // vectors of sums in flight, of the strip's tiles so far
};

template <class Stored, class Element>
SlidingRows<Stored, Element>::SlidingRows(const ImageLanesCut<Stored, Element>& cut,
                                          const ImageLanesPart& part, const Element* filter,
                                          Scratch& scratch)
    : cut_(cut),
      part_(part),
      filter_(filter + part.first_group * cut.BlockElements()),
      scratch_(scratch),
      source_cols_(cut.parts.SourceCols(part)),
      result_cols_(cut.parts.ResultCols(part)),
      source_c_(part.num_groups * cut.sum.source_c) {
  if (!cut.parts.slides) return;
  std::fill_n(scratch_.chains.data(), scratch_.chains.size(), Compute{0});
  std::fill_n(scratch_.sums.data(), scratch_.sums.size(), 0.0);
}

template <class Stored, class Element>
void SlidingRows<Stored, Element>::Run(int64_t begin, int64_t end) {
  const int64_t taps_before_last = cut_.parts.rows.high - cut_.parts.rows.low;
  const Range steps{begin == part_.row_begin ? 0 : begin - part_.row_begin + taps_before_last,
                    end - part_.row_begin + taps_before_last};
  num_sums_ = 0;
  cut_.ListsOf(part_).pieces->ForClasses(
      [&](const TapPhase& phase, const AxisClass& cols, std::span<const SlidingPiece> pieces) {
        RunClass(phase, cols, pieces, steps);
      });
}

// The columns of one class.
template <class Stored, class Element>
void SlidingRows<Stored, Element>::RunClass(const TapPhase& phase, const AxisClass& cols,
                                            std::span<const SlidingPiece> pieces, Range steps) {
  const AxisPhase& axis = *phase.cols;
  const int64_t result_w = result_cols_.end - result_cols_.begin;
  SlidingTileArgs<Element> args{};
  args.a_line = (source_cols_.end - source_cols_.begin) * source_c_;
  args.a_step = axis.source_step * source_c_;
  args.pieces = pieces;
  args.num_blocks = static_cast<int64_t>(phase.blocks.size());
  args.step_begin = steps.begin;
  args.step_end = steps.end;
  args.line_end = steps.end;
  if (cut_.parts.whole_images()) {
    args.line_begin = -cut_.parts.rows.Of(part_.row_begin, part_.row_end).begin;
    args.line_end = args.line_begin + cut_.source.h;
  }
  args.c_line = phase.rows->step * result_w * part_.num_groups;
  args.c_step = axis.step * part_.num_groups;
  args.odd = sizeof(Stored) == 2;
  const int64_t end = std::min(cols.end, part_.col_end);
  auto tile = cut_.sliding.begin();
  for (int64_t j = std::max(cols.begin, part_.col_begin); j < end; j += tile->rows) {
    while (tile->rows > end - j) ++tile;
    int64_t source_col = 0;
    if (cols.tap_begin < cols.tap_end) {
      source_col = axis.source_first + j * axis.source_step +
                   axis.offsets[static_cast<size_t>(cols.tap_begin)] - source_cols_.begin;
    }
    const int64_t result_col = axis.first + j * axis.step - result_cols_.begin;
    args.a = scratch_.source.data() + source_col * source_c_ * lanes();
    args.b = filter_ + phase.first_term;
    args.c = scratch_.result.data() +
             (phase.rows->first * result_w + result_col) * part_.num_groups * lanes();
    RunTile(*tile, args);
  }
}

// All groups of these columns.
template <class Stored, class Element>
void SlidingRows<Stored, Element>::RunTile(const SlidingTile<Element>& tile,
                                           SlidingTileArgs<Element> args) {
  for (int64_t group = 0; group < part_.num_groups; ++group) {
    args.chains = scratch_.chains.data() + num_sums_ * lanes();
    args.sums = scratch_.sums.data() + num_sums_ * lanes() * int64_t{sizeof(Compute) / 4};
    tile.run(args);
    num_sums_ += int64_t{tile.rows} * tile.cols;
    args.a += cut_.sum.source_c * lanes();
    args.b += cut_.BlockElements();
    args.c += lanes();
  }
}

}  // namespace convgrad
