// How algorithms cut a matrix product into the micro-kernel's tiles: panels of columns of one
// width, and rows gathered one by one until a tile is full. Knows offsets, not convolutions.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "base/checked.h"
#include "base/memory.h"
#include "kernels/gemm/indirect_gemm.h"

namespace convgrad {

// Columns cut into `count` panels of `cols` columns (whole vectors), the last one maybe narrower.
struct Panels {
  int64_t count, cols;

  int64_t ColsOf(int64_t panel, int64_t num_cols) const {
    return std::min(cols, num_cols - panel * cols);
  }
};

// Panels as even as vectors are, of no more than most_cols.
template <class Compute>
Panels CutPanels(const IndirectGemmKernels<Compute>& kernels, int64_t num_cols, int64_t most_cols) {
  const int64_t vectors = CeilDiv(num_cols, int64_t{kernels.lanes});
  const int64_t count = CeilDiv(vectors, most_cols / kernels.lanes);
  const int64_t cols = CeilDiv(vectors, count) * kernels.lanes;
  return {CeilDiv(num_cols, cols), cols};
}

template <class Compute>
Panels CutPanels(const IndirectGemmKernels<Compute>& kernels, int64_t num_cols) {
  return CutPanels(kernels, num_cols, kernels.tiles.back().cols);
}

// The tiles of the least width that has num_cols columns, most rows first.
template <class Compute>
std::span<const GemmTile<Compute>> TilesOfWidth(const IndirectGemmKernels<Compute>& kernels,
                                                int64_t num_cols) {
  const auto& tiles = kernels.tiles;
  size_t begin = 0;
  while (begin + 1 < tiles.size() && tiles[begin].cols < num_cols) ++begin;
  size_t end = begin;
  while (end < tiles.size() && tiles[end].cols == tiles[begin].cols) ++end;
  return tiles.subspan(begin, end - begin);
}

// The tile with the fewest rows that has num_rows, else the one with most.
template <class Tile>
const Tile& SmallestTile(std::span<const Tile> tiles, int64_t num_rows) {
  const Tile* tile = &tiles.front();
  for (const auto& smaller : tiles) {
    if (smaller.rows >= num_rows) tile = &smaller;
  }
  return *tile;
}

// A term's time in a tile of `rows` and `vectors`, in eighths of a cycle: its multiply-adds, eight
// of which take as long as one that waits for the last, or its columns, which few rows wait for,
// and a part of its loads.
inline int64_t TermCycles(int64_t rows, int64_t vectors) {
  return std::max(4 * std::max<int64_t>(rows * vectors, 8), 16 * vectors) + rows + vectors;
}

// The same of `num_rows` rows of a panel of num_cols columns, cut into blocks of block_rows and a
// rest, each in the smallest tile that has its rows.
template <class Compute>
int64_t TermCyclesOfPanel(const IndirectGemmKernels<Compute>& kernels, int64_t num_rows,
                          int64_t block_rows, int64_t num_cols) {
  const auto tiles = TilesOfWidth(kernels, num_cols);
  const auto block_cycles = [&](int64_t rows) {
    return TermCycles(SmallestTile(tiles, rows).rows, tiles.front().cols / kernels.lanes);
  };
  const int64_t rest = num_rows % block_rows;
  return num_rows / block_rows * block_cycles(block_rows) + (rest == 0 ? 0 : block_cycles(rest));
}

// The rows of the tiles of a panel of num_cols columns: the most that a tile has, unless num_rows
// rows take clearly fewer cycles with others. Only the tallest tiles of half a vector find the
// addresses of several terms at once.
template <class Compute>
int64_t TileRowsFor(const IndirectGemmKernels<Compute>& kernels, int64_t num_rows,
                    int64_t num_cols) {
  constexpr double kClearly = 0.95;
  if (num_cols <= kernels.lanes / 2) return TilesOfWidth(kernels, num_cols).front().rows;
  int64_t best = 0;
  double least = std::numeric_limits<double>::infinity();
  for (const auto& tile : TilesOfWidth(kernels, num_cols)) {
    const auto cycles =
        static_cast<double>(TermCyclesOfPanel(kernels, num_rows, tile.rows, num_cols));
    if (cycles > kClearly * least) continue;
    least = cycles;
    best = tile.rows;
  }
  return best;
}

// The panels in whose tiles the fewest lanes and rows are surplus, for a matrix of so many rows.
template <class Compute>
Panels CutPanelsForRows(const IndirectGemmKernels<Compute>& kernels, int64_t num_rows,
                        int64_t num_cols) {
  const int64_t lanes = kernels.lanes;
  // All panels' rows are cut as those of the widest.
  const auto panel_cycles = [&](int64_t cols, int64_t tile_rows) {
    return TermCyclesOfPanel(kernels, num_rows, tile_rows, cols);
  };
  Panels best{};
  int64_t least = std::numeric_limits<int64_t>::max();
  const int64_t widest = std::min<int64_t>(kernels.tiles.back().cols, RoundUp(num_cols, lanes));
  for (int64_t cols = widest; cols > 0; cols -= lanes) {
    const int64_t count = CeilDiv(num_cols, cols);
    const int64_t tile_rows = TileRowsFor(kernels, num_rows, std::min(cols, num_cols));
    const int64_t all = (count - 1) * panel_cycles(cols, tile_rows) +
                        panel_cycles(num_cols - (count - 1) * cols, tile_rows);
    if (all < least) {
      least = all;
      best = {count, cols};
    }
  }
  return best;
}

inline constexpr int kMaxTileRows = 16;

// How the terms of a segment follow each other.
struct TermSteps {
  int64_t a, b;
  bool in_pairs;
};

// Adds terms behind those of segments[block_begin...], joined to the last ones where they go on
// from there. In pairs an odd last term gets a segment of its own, and starts no pair with what
// follows.
inline void AppendTerms(GemmSegment next, const TermSteps& steps, size_t block_begin,
                        std::vector<GemmSegment>& segments) {
  const int64_t alone = steps.in_pairs && next.length > 1 ? next.length % 2 : 0;
  next.length -= alone;
  GemmSegment* last = segments.size() > block_begin ? &segments.back() : nullptr;
  if (last != nullptr && last->a + last->length * steps.a == next.a &&
      last->b + last->length * steps.b == next.b &&
      !(steps.in_pairs && (last->length | next.length) % 2 != 0)) {
    last->length += next.length;
  } else {
    segments.push_back(next);
  }
  if (alone > 0) {
    segments.push_back({next.a + next.length * steps.a, next.b + next.length * steps.b, 1});
  }
}

// Doubles that the sums of one tile take.
template <class Compute>
int64_t SumsOfTile(const GemmTile<Compute>& tile) {
  return int64_t{tile.rows} * tile.cols * int64_t{sizeof(Compute) / sizeof(float)};
}

// Tiles of one call of the micro-kernel, at most.
inline constexpr int64_t kTilesAtOnce = 16;

// Runs the micro-kernel on rows that are handed over run by run. `args` holds everything but the
// rows; when its sums are kept, those of all tiles lie one behind the other from args.sums.
template <class Compute>
class RowGatherer {
 public:
  RowGatherer(const IndirectGemmKernels<Compute>& kernels, const GemmTileArgs<Compute>& args)
      : kernels_(kernels), tiles_(TilesOfWidth(kernels, args.num_cols)), args_(args) {}

  void SetSegments(const GemmSegment* segments, const int64_t* block_ends, int64_t num_blocks) {
    args_.segments = segments;
    args_.block_ends = block_ends;
    args_.num_blocks = num_blocks;
  }

  // Runs these rows, or keeps them for the next whole tiles.
  void Add(EvenRows rows) {
    if (TakesEvenRows(rows)) Skip(kernels_.even_rows(args_, rows), rows);
    const int64_t most = kTilesAtOnce * tiles_.front().rows;
    while (rows.count > 0) {
      const int64_t now = std::min(rows.count, most - num_rows_);
      for (int64_t i = 0; i < now; ++i) {
        a_rows_[num_rows_ + i] = rows.a_row + i * rows.a_step;
        c_rows_[num_rows_ + i] = rows.c_row + i * rows.c_step;
      }
      num_rows_ += now;
      Skip(now, rows);
      if (num_rows_ == most) Flush();
    }
  }

  // Runs what is left, the last tile maybe unfilled.
  void Flush() {
    const GemmTile<Compute>& tile = tiles_.front();
    const int64_t whole = num_rows_ / tile.rows, left = num_rows_ % tile.rows;
    if (whole > 0) RunTiles(tile, 0, whole, tile.rows);
    if (left > 0) {
      const GemmTile<Compute>& smaller = SmallestTile(tiles_, left);
      std::fill_n(a_rows_ + num_rows_, smaller.rows - left, a_rows_[num_rows_ - 1]);
      RunTiles(smaller, whole * tile.rows, 1, left);
    }
    num_rows_ = 0;
  }

 private:
  // True if even rows are best taken as such: they fill several tiles, and the machine by itself
  // fetches them, as it does from beyond the caches where they are short.
  bool TakesEvenRows(const EvenRows& rows) const {
    constexpr int64_t kFewRows = 24, kShortBytes = 96;
    return rows.count >= kFewRows && args_.a_step == 1 && !args_.in_pairs && !args_.resume &&
           !args_.keep && args_.num_panels == 1 &&
           (!args_.far || rows.a_step * int64_t{sizeof(Compute)} <= kShortBytes);
  }

  static void Skip(int64_t count, EvenRows& rows) {
    rows.count -= count;
    rows.a_row += count * rows.a_step;
    rows.c_row += count * rows.c_step;
  }

  // From the row `first` on; the last tile has num_rows.
  void RunTiles(const GemmTile<Compute>& tile, int64_t first, int64_t num_tiles, int64_t num_rows) {
    args_.a_rows = a_rows_ + first;
    args_.c_rows = c_rows_ + first;
    args_.num_tiles = num_tiles;
    args_.num_rows = num_rows;
    if (args_.keep || args_.resume) args_.sums_step = SumsOfTile(tile);
    tile.run(args_);
    args_.sums += num_tiles * args_.sums_step;
    if (args_.ahead != nullptr) {
      args_.ahead = static_cast<const char*>(args_.ahead) + num_tiles * args_.ahead_tile_step;
    }
  }

  const IndirectGemmKernels<Compute>& kernels_;
  std::span<const GemmTile<Compute>> tiles_;
  GemmTileArgs<Compute> args_;
  int64_t num_rows_ = 0;
  int64_t a_rows_[(kTilesAtOnce + 1) * kMaxTileRows];
  int64_t c_rows_[(kTilesAtOnce + 1) * kMaxTileRows];
};

}  // namespace convgrad
