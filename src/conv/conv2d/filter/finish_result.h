// The last step of a filter gradient by tiles: sums in the compute type become the result.
#pragma once

#include <algorithm>

#include "base/checked.h"
#include "conv/conv2d/filter/cut.h"

namespace convgrad {

// Rounds these columns of the result's matrix, which `from` has without gaps.
template <class Stored>
void RoundColumns(const ConvArgs& args, const FilterCut& cut, const Range& columns,
                  const ComputeType<Stored>* from) {
  constexpr int64_t kRows = 64;  // at a time
  const auto narrow = args.kernels.template Pack<Stored>().narrow;
  const int64_t out_c = cut.geometry.out_c, cols = columns.size();
  args.parallel.For(CeilDiv(cut.ResultRows(), kRows), [&](int64_t i) {
    const int64_t end = std::min(cut.ResultRows(), (i + 1) * kRows);
    const int64_t step = cols == out_c ? end - i * kRows : 1;  // whole rows follow each other
    for (int64_t row = i * kRows; row < end; row += step) {
      narrow(from + row * cols, static_cast<Stored*>(args.result) + row * out_c + columns.begin,
             step * cols);
    }
  });
}

// Turns and rounds the result of inputs in lanes, whose rows of `num_cols` numbers are output
// channels: of each tap, [group][tap][output channel][input channel]; of joined taps [group][output
// channel][tap][input channel], where taps of a column follow each other if pixels share columns.
template <class Stored>
void TurnResult(const ConvArgs& args, const FilterCut& cut, int64_t num_cols,
                const ComputeType<Stored>* result) {
  const ConvGeometry& g = cut.geometry;
  const int64_t matrix = g.group_out_c * num_cols;
  args.parallel.For(g.groups * cut.num_taps, [&](int64_t i) {
    const int64_t group = i / cut.num_taps, tap = i % cut.num_taps;
    const int64_t r = tap / g.kernel_w, t = tap % g.kernel_w;
    const int64_t place = FilterCut::SharesColumns(g) ? t * g.kernel_h + r : tap;
    const ComputeType<Stored>* from =
        cut.joined ? result + group * matrix + place * g.group_in_c : result + i * matrix;
    args.kernels.template Pack<Stored>().transpose_narrow(
        from, num_cols,
        static_cast<Stored*>(args.result) + tap * g.group_in_c * g.out_c + group * g.group_out_c,
        g.out_c, g.group_out_c, g.group_in_c, 0);
  });
}

}  // namespace convgrad
