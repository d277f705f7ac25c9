// The products of BlockRows on a part of the padded planes of a group.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/checked.h"
#include "conv/conv2d/data/block_rows.h"
#include "conv/gemm/tiles.h"

namespace convgrad {

// The products of a group read planes of the source a `plane_stride` apart, and write sums of rows
// a `sums_stride` apart, whose position 0 lies blocks.most_shift behind the beginning.
template <class Compute>
struct BlockRowsPart {
  const Compute* filter;  // of the group
  const Compute* planes;
  int64_t plane_stride;
  Compute* sums;
  int64_t sums_stride;
  double* tile_sums;
  int64_t num_positions;  // between the first and the last of any phase, padding included
};

// The rows of a product that have positions in a panel, whose first column is `first`, come in
// tiles as even as can be.
template <class Compute>
void RunBlockProduct(const IndirectGemmKernels<Compute>& kernels, const BlockProduct& product,
                     int64_t first, const BlockRowsPart<Compute>& part,
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
  args.b = part.planes + product.channel_begin * part.plane_stride + first;
  args.segments = &terms;
  args.block_ends = &end;
  args.num_blocks = 1;
  args.goes_on = product.goes_on;
  RowGatherer<Compute> gatherer(kernels, args);
  int64_t waiting = 0;
  for (const BlockRow& row : product.rows) {
    if (!is_met(row)) continue;
    gatherer.Add({1, row.filter, 0, row.sums * part.sums_stride - row.shift, 0});
    if (++waiting % height == 0) gatherer.Flush();
  }
  gatherer.Flush();
}

// All products of a panel of columns come before the next panel's, which so stays in the first
// cache.
template <class Compute>
void RunBlockRows(const IndirectGemmKernels<Compute>& kernels, const BlockRows& blocks,
                  const BlockRowsPart<Compute>& part) {
  GemmTileArgs<Compute> args{};
  args.a = part.filter;
  args.a_step = blocks.term_step;
  args.b_step = part.plane_stride;
  args.sums = part.tile_sums;
  const int64_t num_cols = part.num_positions + blocks.most_shift;
  const Panels panels = CutPanels(kernels, num_cols);
  for (int64_t panel = 0; panel < panels.count; ++panel) {
    const int64_t first = panel * panels.cols;
    args.num_cols = panels.ColsOf(panel, num_cols);
    args.c = part.sums + blocks.most_shift + first;
    for (const BlockProduct& product : blocks.products) {
      RunBlockProduct(kernels, product, first, part, args);
    }
  }
}

}  // namespace convgrad
