// The products of BlockRows on a part of the padded planes of a group, panel by panel.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/checked.h"
#include "base/memory.h"
#include "conv/conv2d/data/block_rows.h"
#include "conv/conv2d/data/plane_columns.h"
#include "conv/gemm/tiles.h"

namespace convgrad {

// The products of a group read panels of the source, each copied to `panel`, and write sums of rows
// a `sums_stride` apart, whose position 0 lies blocks.most_shift behind the beginning.
template <class Compute>
struct BlockRowsPart {
  const Compute* filter;  // of the group
  const PlaneColumns<Compute>& source;
  Compute* panel;
  int64_t panel_cols;  // at most
  Compute* sums;
  int64_t sums_stride;
  double* tile_sums;
  int64_t num_positions;  // between the first and the last of any phase, padding included
};

// Lines that are wanted next: `count` of each plane, which the tiles of a product fetch one by one
// for its channels. The first one is most likely there already, so they are told by their ends.
template <class Compute>
struct NextLines {
  const Compute* first;
  int64_t plane, count;

  void Take(int64_t channel, GemmTileArgs<Compute>& args) {
    constexpr int64_t kLine = kLineBytes / int64_t{sizeof(Compute)};
    const bool wanted = count-- > 0;
    first += kLine;
    args.ahead = wanted ? first - 1 + channel * plane : args.b;
    args.ahead_step = wanted ? plane * int64_t{sizeof(Compute)} : 0;
    args.ahead_bytes = wanted ? kLineBytes : 0;
  }
};

// The rows of a product that have positions in a panel, whose first column is `first`, come in
// tiles as even as can be.
template <class Compute>
void RunBlockProduct(const IndirectGemmKernels<Compute>& kernels, const BlockProduct& product,
                     int64_t first, const BlockRowsPart<Compute>& part, NextLines<Compute> next,
                     GemmTileArgs<Compute>& args) {
  const auto is_met = [&](const BlockRow& row) {
    return row.shift < first + args.num_cols && first < row.shift + part.num_positions;
  };
  const int64_t num_rows = std::count_if(product.rows.begin(), product.rows.end(), is_met);
  if (num_rows == 0) return;
  const int64_t tallest = TilesOfWidth(kernels, args.num_cols).front().rows;
  const int64_t height = CeilDiv(num_rows, CeilDiv(num_rows, tallest));
  const GemmSegment terms = {0, 0, product.num_terms()};
  const int64_t end = 1;
  args.segments = &terms;
  args.block_ends = &end;
  args.num_blocks = 1;
  args.goes_on = product.goes_on;
  auto row = product.rows.begin();
  for (int64_t left = num_rows; left > 0; left -= height) {
    next.Take(product.channel_begin, args);
    RowGatherer<Compute> gatherer(kernels, args);
    for (int64_t taken = 0; taken < std::min(height, left); ++row) {
      if (!is_met(*row)) continue;
      gatherer.Add({1, row->filter, 0, row->sums * part.sums_stride - row->shift, 0});
      ++taken;
    }
    gatherer.Flush();
  }
}

// All products of a panel of columns come before the next panel's, which so stays in the first
// cache.
template <class Compute>
void RunBlockRows(const IndirectGemmKernels<Compute>& kernels, const BlockRows& blocks,
                  const BlockRowsPart<Compute>& part) {
  GemmTileArgs<Compute> args{};
  args.a = part.filter;
  args.a_step = blocks.term_step;
  args.b_step = part.panel_cols;
  args.sums = part.tile_sums;
  const int64_t plane = part.source.plane();
  const int64_t num_cols = part.num_positions + blocks.most_shift;
  const Panels panels = CutPanels(kernels, num_cols, part.panel_cols);
  for (int64_t panel = 0; panel < panels.count; ++panel) {
    const int64_t first = panel * panels.cols;
    args.num_cols = panels.ColsOf(panel, num_cols);
    args.c = part.sums + blocks.most_shift + first;
    part.source.Copy(first, args.num_cols, part.panel, part.panel_cols);
    const int64_t lines = CeilDiv(args.num_cols * int64_t{sizeof(Compute)}, kLineBytes);
    const NextLines<Compute> next = {part.source.At(first + args.num_cols), plane,
                                     plane > 0 ? lines : 0};
    for (const BlockProduct& product : blocks.products) {
      args.b = part.panel + product.channel_begin * part.panel_cols;
      RunBlockProduct(kernels, product, first, part, next, args);
    }
  }
}

}  // namespace convgrad
