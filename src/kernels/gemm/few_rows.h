// The micro-kernel of matrix products that have few rows, or few terms: both operands are read
// where they lie, and sums wait in memory, in the first cache at best, from one call to the next.
// So the larger operand is read once, in the order of memory.
//
//   sums[rows[i].sums + j] = chain, from what it was or from +0, over k < num_terms of
//                            a[rows[i].a + k * a_step] * b[k * b_step + j],
//                            or, of columns whose terms lie side by side, b[j * b_step + k];
//   of windows, of a[rows[i].a + window[k]], and rows of b are whole vectors
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <span>

namespace convgrad {

struct FewRow {
  int64_t a, sums;
};

// Offsets and steps count elements; nothing needs to be aligned. Compute: float or double.
template <class Compute>
struct FewRowsArgs {
  const Compute* a;
  int64_t a_step;
  const Compute* b;
  int64_t b_step;
  int64_t num_terms, num_cols;
  const FewRow* rows;
  int64_t num_rows;
  Compute* sums;
  bool begins;   // chains start from +0
  bool fetches;  // of columns whose terms lie side by side, the lines of those that come next
  bool ends;     // sums are results: of -0 and NaNs, +0 and the canonical NaN
  bool streams;  // these go around the caches: rows are whole vectors; the caller fences
  const int64_t* window;  // of its terms, in place of a_step; chains begin and end in one call
};

// Rows and vectors of columns whose sums are in registers at once.
struct FewRowsTile {
  int rows, vectors;
};

// Returns the tile of so many rows, or vectors, from one on; of more the last one.
inline const FewRowsTile& TileAt(std::span<const FewRowsTile> tiles, int64_t count) {
  return tiles[static_cast<size_t>(std::min<int64_t>(count, std::ssize(tiles)) - 1)];
}

template <class Compute>
struct FewRowsKernels {
  int64_t lanes;  // elements in a vector
  // The largest tiles of each number of rows, from one on.
  std::span<const FewRowsTile> tiles, turned_tiles;
  // The largest tiles of windows, by their vectors, from one on; of more vectors the last one.
  std::span<const FewRowsTile> window_tiles;
  // All are null without vectors.
  void (*run)(const FewRowsArgs<Compute>& args);
  void (*run_turned)(const FewRowsArgs<Compute>& args);  // terms of a column lie side by side
  void (*run_windows)(const FewRowsArgs<Compute>& args);

  // The tile that takes the first of so many rows that are left.
  FewRowsTile TileOf(int64_t num_rows, bool turned) const {
    return TileAt(turned ? turned_tiles : tiles, num_rows);
  }
  FewRowsTile WindowTile(int64_t num_cols) const {
    return TileAt(window_tiles, (num_cols + lanes - 1) / lanes);
  }
};

}  // namespace convgrad
