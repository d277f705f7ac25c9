// The work of a matrix product's tiles for one term, counted for the cost model.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "conv/gemm/tiles.h"
#include "conv/plan/work.h"

namespace convgrad {

struct TileCounts {
  // A matrix cut by CutPanelsForRows, whose panels all have the rows of the widest one's tiles.
  template <class Element>
  TileCounts(const IndirectGemmKernels<Element>& kernels, int64_t num_rows, int64_t num_cols)
      : TileCounts(kernels, CutPanelsForRows(kernels, num_rows, num_cols), num_rows, num_cols,
                   /*same_rows=*/true) {}

  // One that is cut so; unless they have the same rows each panel has those of its own tiles.
  template <class Element>
  TileCounts(const IndirectGemmKernels<Element>& kernels, const Panels& panels_in, int64_t num_rows,
             int64_t num_cols, bool same_rows)
      : panels(panels_in),
        tile_rows(same_rows ? TileRowsFor(kernels, num_rows, std::min(panels.cols, num_cols))
                            : TilesOfWidth(kernels, panels.cols).front().rows),
        row_blocks(CeilDiv(num_rows, tile_rows)),
        element_bytes(sizeof(Element)),
        pixels(std::is_same_v<Element, BFloat16Pair> ? 2 : 1),
        wide(kernels.lanes * sizeof(ComputeType<Element>) == 64) {
    const auto add_panels = [&](int64_t num_panels, int64_t num_panel_cols) {
      if (num_panels == 0) return;
      const auto tiles = TilesOfWidth(kernels, num_panel_cols);
      const int64_t most_rows = same_rows ? tile_rows : int64_t{tiles.front().rows};
      const int64_t whole = num_rows / most_rows, rest = num_rows % most_rows;
      const int64_t vectors_taken = tiles.front().cols / kernels.lanes;
      // The kernel computes half a vector where that is enough.
      const bool halves =
          wide && vectors_taken <= 3 && num_panel_cols <= tiles.front().cols - kernels.lanes / 2;
      Add(num_panels * whole, SmallestTile(tiles, most_rows).rows, vectors_taken, halves);
      if (rest > 0) Add(num_panels, SmallestTile(tiles, rest).rows, vectors_taken, halves);
    };
    add_panels(panels.count - 1, panels.cols);
    add_panels(1, panels.ColsOf(panels.count - 1, num_cols));
  }

  Panels panels;
  int64_t tile_rows, row_blocks;
  int64_t element_bytes;
  int64_t pixels;  // of an element: 2 in pairs
  bool wide;       // vectors are 64 bytes
  // All tiles', for one term. A tile of few sums counts as many multiply-adds as could be issued
  // while a sum waits for its last term.
  double added = 0, loaded = 0, singles = 0;
  double vectors = 0;  // of their sums
  double count = 0;

 private:
  void Add(int64_t num_tiles, int64_t rows, int64_t tile_vectors, bool halves) {
    const double waiting = Product(WaitingSlots(wide));
    const auto tiles = static_cast<double>(num_tiles);
    const auto sums = static_cast<double>(rows * tile_vectors);
    // Half a vector takes half of a multiply-add's time on some processors, all of it on others.
    const double slots = std::max(halves ? sums - 0.25 * static_cast<double>(rows) : sums, waiting);
    added += tiles * slots;
    loaded += tiles * static_cast<double>(tile_vectors);
    singles += tiles * static_cast<double>(rows);
    vectors += tiles * sums;
    count += tiles;
  }
};

}  // namespace convgrad
