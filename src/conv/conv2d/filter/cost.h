// Rough counts of the cycles that the forms of a filter gradient take, by which one is chosen.
// Knows sizes of problem and tiles; plans nothing.
#pragma once

#include "conv/conv2d/filter/plan.h"

namespace convgrad {

// The tiles of one group and tap, or of all taps where they are joined.
struct FilterTiles {
  template <class Element>
  FilterTiles(const IndirectGemmKernels<Element>& kernels, int64_t num_rows, int64_t num_cols);

  Panels panels;
  int64_t tile_rows, row_blocks;
  double term_cycles = 0;  // of all tiles for one term
  double vectors = 0;      // of their sums
  double count = 0;
  double brief = 0;  // of them, whose terms are too short to hide where a segment ends

 private:
  static constexpr int64_t kWideVector = 64;  // bytes: takes a cycle, others half of one

  void Add(int64_t num_tiles, int64_t rows, int64_t tile_vectors, bool halves, bool wide);
};

// What forms have in common, and the form.
struct FilterWork {
  const Problem& problem;
  FilterForm form;
  int64_t element_bytes;  // of an operand's element
  int64_t pixels;         // of an element: 2 in pairs
};

// For one thread. Fitted to the times of 208 random layers with AVX-512 and 56 with AVX2, NHWC and
// NCHW, on a Zen 4: the standard deviation is a fifth.
double CyclesOf(const FilterWork& work, const FilterTiles& tiles);

template <class Element>
FilterTiles::FilterTiles(const IndirectGemmKernels<Element>& kernels, int64_t num_rows,
                         int64_t num_cols)
    : panels(CutPanelsForRows(kernels, num_rows, num_cols)),
      tile_rows(TilesOfWidth(kernels, panels.cols).front().rows),
      row_blocks(CeilDiv(num_rows, tile_rows)) {
  const int64_t lanes = kernels.lanes;
  const bool wide = lanes * int64_t{sizeof(ComputeType<Element>)} == kWideVector;
  const auto add = [&](int64_t num_tiles, int64_t rows, int64_t cols) {
    const auto tiles = TilesOfWidth(kernels, cols);
    const int64_t vectors_taken = tiles.front().cols / lanes;
    // The kernel computes half a vector where that is enough.
    const bool halves = wide && vectors_taken <= 3 && cols <= vectors_taken * lanes - lanes / 2;
    Add(num_tiles, SmallestTile(tiles, rows).rows, vectors_taken, halves, wide);
  };
  const int64_t rest = num_rows % tile_rows;
  const auto add_panels = [&](int64_t num_panels, int64_t cols) {
    if (num_rows >= tile_rows) add(num_panels * (num_rows / tile_rows), tile_rows, cols);
    if (rest > 0) add(num_panels, rest, cols);
  };
  if (panels.count > 1) add_panels(panels.count - 1, panels.cols);
  add_panels(1, panels.ColsOf(panels.count - 1, num_cols));
}

}  // namespace convgrad
