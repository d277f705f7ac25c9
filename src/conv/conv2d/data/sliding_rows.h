// Sums that slide down the rows of an image: a row of the source is read once, for as many rows of
// results as the filter has rows of taps. What the kernel (kernels/whole_vectors/vector_gemm.h)
// needs for that: the pieces of a row's terms, and the filter in their order. Touches no source or
// result.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <vector>

#include "conv/axes/tap_sum.h"
#include "kernels/whole_vectors/vector_gemm.h"

namespace convgrad {

// A row's terms for columns of one class, cut where blocks of any row of taps end. Pixels of the
// source are `pixel` vectors apart.
inline std::vector<SlidingPiece> SlidingPieces(const TapPhase& phase, const AxisClass& cols,
                                               int64_t num_channels, int64_t pixel) {
  const int64_t num_cols = static_cast<int64_t>(phase.cols->taps.size());
  const int64_t num_rows = static_cast<int64_t>(phase.rows->taps.size());
  const int64_t begin = cols.tap_begin * num_channels, end = cols.tap_end * num_channels;
  std::map<int64_t, uint32_t> cuts;  // behind so many terms of a row: which rows' blocks end
  for (int64_t t = cols.tap_begin; t < cols.tap_end; ++t) cuts[(t + 1) * num_channels] = 0;
  for (const TapBlock& block : phase.blocks) {
    const int64_t tap = block.tap_end - 1;
    const int64_t at = tap % num_cols * num_channels + block.channel_end;
    cuts[std::clamp(at, begin, end)] |= uint32_t{1} << (tap / num_cols);
  }
  std::vector<SlidingPiece> pieces;
  int64_t from = begin;
  for (const auto& [to, ends] : cuts) {
    const int64_t t = std::min(from / std::max<int64_t>(num_channels, 1), cols.tap_end - 1);
    const int64_t a = to == from ? 0
                                 : (phase.cols->offsets[static_cast<size_t>(t)] -
                                    phase.cols->offsets[static_cast<size_t>(cols.tap_begin)]) *
                                           pixel +
                                       from - t * num_channels;
    SlidingPiece* last = pieces.empty() ? nullptr : &pieces.back();
    if (last != nullptr && last->ends == 0 && last->segment.a + last->segment.length == a) {
      last->segment.length += to - from;
      last->ends = ends;
    } else {
      pieces.push_back({{a, from * num_rows, to - from}, ends});
    }
    from = to;
  }
  return pieces;
}

// The pieces of every class of columns of some phases, which must outlive it: kept unless they are
// too many.
class SlidingTable {
 public:
  SlidingTable(const std::vector<TapPhase>& phases, int64_t num_channels, int64_t pixel)
      : phases_(phases), num_channels_(num_channels), pixel_(pixel) {
    if (Size() > kMostKept) return;
    for (const TapPhase& phase : phases) {
      for (const AxisClass& cols : phase.cols->classes) {
        kept_.push_back(SlidingPieces(phase, cols, num_channels, pixel));
      }
    }
  }

  // body(phase, class of columns, pieces)
  template <class Body>
  void ForClasses(const Body& body) const {
    auto kept = kept_.begin();
    for (const TapPhase& phase : phases_) {
      for (const AxisClass& cols : phase.cols->classes) {
        if (kept_.empty()) {
          body(phase, cols, SlidingPieces(phase, cols, num_channels_, pixel_));
        } else {
          body(phase, cols, *kept++);
        }
      }
    }
  }

 private:
  static constexpr int64_t kMostKept = 1 << 14;  // pieces

  // At most: a tap of a row, or a block that ends.
  int64_t Size() const {
    int64_t size = 0;
    for (const TapPhase& phase : phases_) {
      const int64_t pieces = std::ssize(phase.cols->taps) + std::ssize(phase.blocks) + 4;
      if (pieces > kMostKept) return pieces;
      size += std::ssize(phase.cols->classes) * pieces;
    }
    return size;
  }

  const std::vector<TapPhase>& phases_;
  const int64_t num_channels_, pixel_;
  std::vector<std::vector<SlidingPiece>> kept_;  // [phase][class of columns]
};

// A phase's filter of one channel of the result, from [tap][source channel] to [column of taps]
// [source channel][row of taps].
template <class Element>
void ArrangeForSliding(const TapPhase& phase, int64_t num_channels, const Element* from,
                       Element* to) {
  const int64_t num_rows = static_cast<int64_t>(phase.rows->taps.size());
  const int64_t terms = static_cast<int64_t>(phase.cols->taps.size()) * num_channels;
  for (int64_t k = 0; k < terms; ++k) {
    for (int64_t row = 0; row < num_rows; ++row) to[k * num_rows + row] = from[row * terms + k];
  }
}

}  // namespace convgrad
