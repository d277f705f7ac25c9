// The terms of every element of a result: which products make it up, in canonical order, one after
// the other. It is what the reference adds up, and knows nothing of speed.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/checked.h"
#include "order/canonical_order.h"
#include "problem/geometry.h"

namespace convgrad {

// The taps of one dimension that reach a position of the input, as PhaseTaps has them. Only phases
// with taps are kept: there are at most as many as taps, however large the stride.
class TapsByPhase {
 public:
  TapsByPhase() = default;
  TapsByPhase(int64_t stride, int64_t dilation, int64_t pad, int64_t kernel);
  const std::vector<int64_t>& At(int64_t position) const;
  // How many taps phases have, each number once.
  std::vector<int64_t> Counts() const;

 private:
  int64_t stride_ = 1;
  int64_t pad_ = 0;
  std::unordered_map<int64_t, std::vector<int64_t>> taps_;
};

// Strides, in elements, of a data tensor.
struct DataStrides {
  int64_t image, row, col, channel;

  static DataStrides Of(DataFormat format, int64_t h, int64_t w, int64_t c) {
    if (format == DataFormat::kNHWC) return {h * w * c, w * c, c, 1};
    return {c * h * w, w, 1, h * w};
  }
  int64_t At(int64_t n, int64_t i, int64_t j, int64_t c) const {
    return n * image + i * row + j * col + c * channel;
  }
};

// Enumerates the products of single elements of the result. Indices are element indices in C order
// of the tensors' own shapes (data_format order); "first" and "second" are the operands in the
// order of InfoOf(op).operands.
class TermWalk {
 public:
  explicit TermWalk(const Problem& problem);

  // For result element `element`: visitor.Term(first, second) for each product on the input, in
  // canonical order, visitor.EndBlock() after the last product of a block (which may have none),
  // visitor.EndRun() after the last block of a run. At least one run ends.
  template <class Visitor>
  void Visit(int64_t element, Visitor& visitor) const;

 private:
  struct Position {
    int64_t image, row, col, channel;
  };

  static Position PositionOf(int64_t element, DataFormat format, int64_t h, int64_t w, int64_t c);

  // kernel[row][col][in_channel of the group][out_channel], for depthwise filters too.
  int64_t FilterAt(int64_t row, int64_t col, int64_t in_channel, int64_t out_channel) const {
    return ((row * geometry_.kernel_w + col) * geometry_.group_in_c + in_channel) *
               geometry_.out_c +
           out_channel;
  }
  int64_t InRow(int64_t out_row, int64_t tap) const {
    return out_row * geometry_.stride_h + tap * geometry_.dilation_h - geometry_.pad_top;
  }
  int64_t InCol(int64_t out_col, int64_t tap) const {
    return out_col * geometry_.stride_w + tap * geometry_.dilation_w - geometry_.pad_left;
  }
  static int64_t Quotient(int64_t number, int64_t stride) {
    return stride == 1 ? number : number / stride;  // most strides are, and division is slow
  }
  // Returns the blocks of an input gradient's elements that meet so many taps.
  const std::vector<TapBlock>& BlocksOf(int64_t num_taps) const {
    const auto same = [&](const auto& blocks) { return blocks.first == num_taps; };
    return std::ranges::find_if(phase_blocks_, same)->second;
  }
  static bool Inside(int64_t at, int64_t size) { return at >= 0 && at < size; }

  // Terms that lie in both operands at even distances: term i at `first` + i * `first_step` and so
  // on, of which those on the input are [begin, end).
  struct TermRun {
    int64_t first, first_step, second, second_step;
    int64_t begin, end;
  };
  // The run's terms in [begin, end) in canonical order: ascending, or in pairs from `begin` on, the
  // second of each first.
  template <class Visitor>
  void VisitRun(const TermRun& run, int64_t begin, int64_t end, Visitor& visitor) const {
    const int64_t first = std::max(begin, run.begin), last = std::min(end, run.end);
    const auto visit = [&](int64_t i) {
      visitor.Term(run.first + i * run.first_step, run.second + i * run.second_step);
    };
    if (!in_pairs_) {
      for (int64_t i = first; i < last; ++i) visit(i);
      return;
    }
    for (int64_t i = begin; i < end; ++i) {
      const int64_t partner = begin + ((i - begin) ^ 1), at = partner < end ? partner : i;
      if (at >= first && at < last) visit(at);
    }
  }
  // The blocks of a forward pass or an input gradient, whose taps are rows of num_cols; run_of(i,
  // j) has the channels of a tap, none if it falls off the input.
  template <class RunOf, class Visitor>
  void VisitTaps(const std::vector<TapBlock>& blocks, int64_t num_cols, const RunOf& run_of,
                 Visitor& visitor) const {
    for (const TapBlock& block : blocks) {
      int64_t i = block.tap_begin == 0 ? 0 : block.tap_begin / num_cols;
      int64_t j = block.tap_begin - i * num_cols;
      for (int64_t tap = block.tap_begin; tap < block.tap_end; ++tap) {
        const std::optional<TermRun> run = run_of(i, j);
        if (run) VisitRun(*run, block.channel_begin, block.channel_end, visitor);
        if (++j < num_cols) continue;
        j = 0;
        ++i;
      }
      visitor.EndBlock();
    }
    visitor.EndRun();
  }

  template <class Visitor>
  void VisitForward(int64_t element, Visitor& visitor) const;
  template <class Visitor>
  void VisitBackpropInput(int64_t element, Visitor& visitor) const;
  template <class Visitor>
  void VisitBackpropFilter(int64_t element, Visitor& visitor) const;

  Direction direction_;
  DataFormat format_;
  bool in_pairs_;
  ConvGeometry geometry_;
  DataStrides input_;
  DataStrides output_;
  std::vector<TapBlock> tap_blocks_;                                     // forward
  TapsByPhase row_taps_, col_taps_;                                      // input gradient
  std::vector<std::pair<int64_t, std::vector<TapBlock>>> phase_blocks_;  // by numbers of taps
  std::vector<PixelBlock> pixel_blocks_;                                 // filter gradient
};

// --- implementation of the visits ---

template <class Visitor>
void TermWalk::Visit(int64_t element, Visitor& visitor) const {
  switch (direction_) {
    case Direction::kForward: return VisitForward(element, visitor);
    case Direction::kBackpropInput: return VisitBackpropInput(element, visitor);
    case Direction::kBackpropFilter: return VisitBackpropFilter(element, visitor);
  }
}

// y[n,i,j,o] = sum over r,t,q of x[n, i*sh + r*dh - pt, j*sw + t*dw - pl, base(o) + q] * w[r,t,q,o]
template <class Visitor>
void TermWalk::VisitForward(int64_t element, Visitor& visitor) const {
  const ConvGeometry& g = geometry_;
  const Position y = PositionOf(element, format_, g.out_h, g.out_w, g.out_c);
  const int64_t base = y.channel / g.group_out_c * g.group_in_c;
  const auto run_of = [&](int64_t r, int64_t t) -> std::optional<TermRun> {
    const int64_t row = InRow(y.row, r), col = InCol(y.col, t);
    if (!Inside(row, g.in_h) || !Inside(col, g.in_w)) return std::nullopt;
    return TermRun{input_.At(y.image, row, col, base),
                   input_.channel,
                   FilterAt(r, t, 0, y.channel),
                   g.out_c,
                   0,
                   g.group_in_c};
  };
  VisitTaps(tap_blocks_, g.kernel_w, run_of, visitor);
}

// dx[n,a,b,c] = sum over (i,j,r,t,o) with i*sh + r*dh - pt = a, j*sw + t*dw - pl = b and o in the
// group of c, of w[r,t,q,o] * g[n,i,j,o]
template <class Visitor>
void TermWalk::VisitBackpropInput(int64_t element, Visitor& visitor) const {
  const ConvGeometry& g = geometry_;
  const Position x = PositionOf(element, format_, g.in_h, g.in_w, g.in_c);
  const int64_t base = x.channel / g.group_in_c * g.group_out_c, q = x.channel % g.group_in_c;
  const auto& rows = row_taps_.At(x.row);
  const auto& cols = col_taps_.At(x.col);
  const int64_t num_cols = static_cast<int64_t>(cols.size());
  const int64_t num_taps = static_cast<int64_t>(rows.size()) * num_cols;
  const auto run_of = [&](int64_t i, int64_t j) -> std::optional<TermRun> {
    const int64_t r = rows[static_cast<size_t>(i)], t = cols[static_cast<size_t>(j)];
    const int64_t row = Quotient(x.row + g.pad_top - r * g.dilation_h, g.stride_h);
    const int64_t col = Quotient(x.col + g.pad_left - t * g.dilation_w, g.stride_w);
    if (InRow(row, r) != x.row || !Inside(row, g.out_h)) return std::nullopt;
    if (InCol(col, t) != x.col || !Inside(col, g.out_w)) return std::nullopt;
    return TermRun{FilterAt(r, t, q, base), 1, output_.At(x.image, row, col, base),
                   output_.channel,         0, g.group_out_c};
  };
  VisitTaps(BlocksOf(num_taps), num_cols, run_of, visitor);
}

// dw[r,t,q,o] = sum over n,i,j of x[n, i*sh + r*dh - pt, j*sw + t*dw - pl, base(o) + q] *
// g[n,i,j,o]
template <class Visitor>
void TermWalk::VisitBackpropFilter(int64_t element, Visitor& visitor) const {
  const ConvGeometry& g = geometry_;
  const int64_t o = element % g.out_c;
  const int64_t channel = o / g.group_out_c * g.group_in_c + element / g.out_c % g.group_in_c;
  const int64_t tap = element / g.out_c / g.group_in_c;
  const int64_t r = tap / g.kernel_w, left = InCol(0, tap % g.kernel_w);
  // The columns of out_backprop that meet the input.
  const int64_t begin = -FloorDiv(left, g.stride_w);
  const int64_t end = FloorDiv(g.in_w - 1 - left, g.stride_w) + 1;
  int64_t blocks_of_run = 0;
  for (const PixelBlock& block : pixel_blocks_) {
    if (blocks_of_run == kRunBlocks) {
      visitor.EndRun();
      blocks_of_run = 0;
    }
    for (int64_t n = block.image_begin; n < block.image_end; ++n) {
      for (int64_t i = block.row_begin; i < block.row_end; ++i) {
        const int64_t row = InRow(i, r);
        if (!Inside(row, g.in_h)) continue;
        const TermRun run = {input_.At(n, row, left, channel),
                             g.stride_w * input_.col,
                             output_.At(n, i, 0, o),
                             output_.col,
                             begin,
                             end};
        VisitRun(run, block.col_begin, block.col_end, visitor);
      }
    }
    visitor.EndBlock();
    ++blocks_of_run;
  }
  visitor.EndRun();
}

}  // namespace convgrad
