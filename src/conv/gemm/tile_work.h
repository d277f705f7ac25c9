// Counts what the micro-kernels of matrix products do (conv/plan/work.h), from their tiles alone.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "base/memory.h"
#include "conv/gemm/tiles.h"
#include "conv/plan/work.h"

namespace convgrad {

// What every sum of a tile adds up.
struct TileTerms {
  double terms, segments, blocks;
};

struct TileSize {
  double rows, vectors;
  double vector_bytes;
};

// Where a multiply-add's sum is wanted four cycles later, so many could have been issued meanwhile:
// one a cycle of vectors that fill a line, two of narrower ones.
inline double IssuedFmas(double multiply_adds, double vector_bytes) {
  return std::max(multiply_adds, vector_bytes < double{kAlignment} ? 8.0 : 4.0);
}

// `count` tiles of the kernels whose kinds these are. `multiply_adds` for a term: rows x vectors,
// or fewer where a vector is computed in half. Does not count what waits for memory.
inline void AddTiles(Work& work, WorkKind fma, WorkKind load, double count, const TileSize& size,
                     double multiply_adds, const TileTerms& sums) {
  work.Add(fma, count * sums.terms * IssuedFmas(multiply_adds, size.vector_bytes));
  work.Add(load, count * sums.terms * (size.rows + size.vectors));
  work.Add(WorkKind::kSegment, count * sums.segments);
  work.Add(WorkKind::kFold, count * size.rows * size.vectors * std::max(1.0, sums.blocks));
}

// `times` matrices of so many rows and columns, each one panel wide, by the indirect micro-kernel:
// whole tiles, and a smaller one for the rows that are left.
template <class Element>
void AddMatrices(Work& work, const IndirectGemmKernels<Element>& kernels, double times,
                 int64_t num_rows, int64_t num_cols, const TileTerms& sums) {
  constexpr int64_t kTilesAtOnce = 16;  // of a call
  const auto tiles = TilesOfWidth(kernels, num_cols);
  const int64_t lanes = kernels.lanes, vectors = tiles.front().cols / lanes;
  const double vector_bytes = static_cast<double>(lanes) * double{sizeof(ComputeType<Element>)};
  // The kernel computes half a vector of lines where that is enough.
  const bool halves =
      vector_bytes == double{kAlignment} && vectors <= 3 && num_cols <= vectors * lanes - lanes / 2;
  const auto add = [&](double count, int64_t rows) {
    const double row_vectors = static_cast<double>(vectors) - (halves ? 0.5 : 0);
    AddTiles(work, WorkKind::kGemmFma, WorkKind::kGemmLoad, count,
             {static_cast<double>(rows), static_cast<double>(vectors), vector_bytes},
             static_cast<double>(rows) * row_vectors, sums);
  };
  const int64_t rows = tiles.front().rows, whole = num_rows / rows, rest = num_rows % rows;
  add(times * static_cast<double>(whole), rows);
  if (rest > 0) add(times, SmallestTile(tiles, rest).rows);
  work.Add(WorkKind::kCall,
           times * static_cast<double>(CeilDiv(whole, kTilesAtOnce) + (rest > 0 ? 1 : 0)));
}

// The same in panels.
template <class Element>
void AddPanels(Work& work, const IndirectGemmKernels<Element>& kernels, double times,
               int64_t num_rows, int64_t num_cols, const Panels& panels, const TileTerms& sums) {
  const int64_t last = panels.count - 1;
  AddMatrices(work, kernels, times * static_cast<double>(last), num_rows, panels.cols, sums);
  AddMatrices(work, kernels, times, num_rows, panels.ColsOf(last, num_cols), sums);
}

}  // namespace convgrad
