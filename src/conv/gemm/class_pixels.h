// Which pixels of a slab belong to a class, and equal shares of all for threads. They are cut
// between tiles and not between rows of an image, so that a class fills no more tiles than in one
// piece.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/checked.h"
#include "conv/axes/slab.h"
#include "conv/axes/tap_sum.h"

namespace convgrad {

// The class' rows in a slab, as indices of its phase.
inline Range RowsOfClass(const Slab& slab, const TapPhase& phase, const AxisClass& row_class) {
  const Range within = IndicesWithin(*phase.rows, slab.row_begin, slab.row_end);
  const int64_t begin = std::max(row_class.begin, within.begin);
  return {begin, std::max(begin, std::min(row_class.end, within.end))};
}

// One of `count` equal shares of a slab's tiles.
struct TileShare {
  int64_t index, count;
};

// body(pixels in the slab, taps that they meet) for all classes, phase by phase.
template <class Body>
void ForEachClassOf(const std::vector<TapPhase>& phases, const Slab& slab, const Body& body) {
  for (const TapPhase& phase : phases) {
    for (const AxisClass& rows : phase.rows->classes) {
      const int64_t lines = slab.num_images() * RowsOfClass(slab, phase, rows).size();
      for (const AxisClass& cols : phase.cols->classes) {
        body(lines * (cols.end - cols.begin),
             (rows.tap_end - rows.tap_begin) * (cols.tap_end - cols.tap_begin));
      }
    }
  }
}

// For every class, phase by phase, its pixels in one share of a slab, counted row by row, image by
// image. Shares have equally many taps of tiles of `tile_rows` pixels.
inline void CutShare(const std::vector<TapPhase>& phases, const Slab& slab, int64_t tile_rows,
                     const TileShare& share, std::vector<Range>& classes) {
  classes.clear();
  int64_t all = 0;
  ForEachClassOf(phases, slab, [&](int64_t pixels, int64_t taps) {
    all += CeilDiv(pixels, tile_rows) * std::max<int64_t>(1, taps);
  });
  int64_t before = 0;  // taps of the tiles of the classes before
  const auto pixel_at = [&](int64_t index, int64_t pixels, int64_t taps) {
    const int64_t wanted = std::max<int64_t>(0, all * index / share.count - before);
    return std::min(CeilDiv(wanted, taps) * tile_rows, pixels);
  };
  ForEachClassOf(phases, slab, [&](int64_t pixels, int64_t met) {
    const int64_t taps = std::max<int64_t>(1, met);
    classes.push_back(
        {pixel_at(share.index, pixels, taps), pixel_at(share.index + 1, pixels, taps)});
    before += CeilDiv(pixels, tile_rows) * taps;
  });
}

}  // namespace convgrad
