// The micro-kernel of matrix products with few rows or terms; see few_rows.h. Included once per
// target.
#if defined(CONVGRAD_KERNELS_FEW_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CONVGRAD_KERNELS_FEW_ROWS_INL_H_
#undef CONVGRAD_KERNELS_FEW_ROWS_INL_H_
#else
#define CONVGRAD_KERNELS_FEW_ROWS_INL_H_
#endif

#include "kernels/gemm/few_rows.h"
#include "kernels/kernel_table.h"
#include "kernels/pack/transpose-inl.h"
#include "kernels/simd/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace convgrad {
namespace HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR

// A vector's numbers, of the last one of a tile that is not whole its first `last_cols`.
template <bool kWhole, int kVectors, class D, class T>
HWY_INLINE hn::Vec<D> LoadOfTile(D d, int v, const T* from, int64_t last_cols) {
  const bool whole = kWhole || v + 1 < kVectors;
  return whole ? hn::LoadU(d, from) : LoadFirst(d, from, last_cols);
}

// The sums of a tile begin as zeros, or as what the rows hold from a column on: whole vectors, or
// some lanes of the last one.
template <bool kWhole, class V, class Compute, int kRows, int kVectors>
HWY_INLINE void LoadSums(bool begins, Compute* const (&rows)[kRows], int64_t col, int64_t last_cols,
                         V (&sums)[kRows][kVectors]) {
  const hn::ScalableTag<Compute> d;
  constexpr int64_t kLanes = hn::MaxLanes(d);
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) sums[i][v] = hn::Zero(d);
  }
  if (begins) return;
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) {
      sums[i][v] = LoadOfTile<kWhole, kVectors>(d, v, rows[i] + col + v * kLanes, last_cols);
    }
  }
}

// They go back to the rows, as results if they end, maybe around the caches. `spills`: behind a row
// is what has yet to be written, so its last vector can be a whole one.
template <bool kWhole, class V, class Compute, int kRows, int kVectors>
HWY_INLINE void StoreSums(bool ends, bool streams, bool spills, Compute* const (&rows)[kRows],
                          int64_t col, int64_t last_cols, V (&sums)[kRows][kVectors]) {
  const hn::ScalableTag<Compute> d;
  constexpr int64_t kLanes = hn::MaxLanes(d);
  Compute* to[kRows];  // a store can not change these, for all that the compiler knows
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) to[i] = rows[i] + col;
  if (ends) {
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 16
      for (int v = 0; v < kVectors; ++v) sums[i][v] = CanonicalSum(d, sums[i][v]);
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) {
      if (kWhole || v + 1 < kVectors) {
        streams ? hn::Stream(sums[i][v], d, to[i] + v * kLanes)
                : hn::StoreU(sums[i][v], d, to[i] + v * kLanes);
      } else if (spills) {
        hn::StoreU(sums[i][v], d, to[i] + v * kLanes);
      } else {
        StoreFirst(d, sums[i][v], to[i] + v * kLanes, last_cols);
      }
    }
  }
}

// With a single row each multiply-add reads its column from memory, else the registers hold a
// term's columns, too.
inline constexpr FewRowsTile kTilesOfManyRegisters[] = {{1, 8}, {2, 8}, {3, 6}, {4, 5}};
inline constexpr FewRowsTile kTilesOfFewRegisters[] = {{1, 8}, {2, 4}, {3, 4}, {4, 3}};
inline constexpr const auto& kInOrderTiles =
    kManyRegisters ? kTilesOfManyRegisters : kTilesOfFewRegisters;

// Tiles of windows by the vectors of their rows: sums wait for each other, so a narrow tile has
// more rows, and what no wide one divides is taken by pairs of vectors.
inline constexpr FewRowsTile kWindowTilesOfManyRegisters[] = {
    {8, 1}, {6, 2}, {4, 3}, {4, 4}, {4, 5}};
inline constexpr FewRowsTile kWindowTilesOfFewRegisters[] = {
    {8, 1}, {6, 2}, {4, 3}, {6, 2}, {4, 3}, {4, 3}, {4, 3}, {6, 2}, {4, 3}, {6, 2}, {4, 3}};
inline constexpr std::span<const FewRowsTile> kWindowTiles =
    kManyRegisters ? std::span<const FewRowsTile>(kWindowTilesOfManyRegisters)
                   : std::span<const FewRowsTile>(kWindowTilesOfFewRegisters);

constexpr int MostVectors(int num_rows) {
  return num_rows <= 4 ? kInOrderTiles[num_rows - 1].vectors : num_rows <= 6 ? 2 : 1;
}

// A call computes parts of its chains, all of them, or all of windows.
enum class Chains { kParts, kWhole, kOfWindows };

// True if a row that fills no whole vectors may be stored as if it did: the surplus is in the next
// row, which is written later.
template <class Compute>
bool RowsMaySpill(const FewRowsArgs<Compute>& args) {
  constexpr int64_t kLanes = hn::MaxLanes(hn::ScalableTag<Compute>());
  const int64_t last_cols = args.num_cols % kLanes;
  if (last_cols == 0 || kLanes - last_cols > args.num_cols) return false;
  for (int64_t i = 1; i < args.num_rows; ++i) {
    if (args.rows[i].sums != args.rows[i - 1].sums + args.num_cols) return false;
  }
  return true;
}

// Tiles of kMostVectors whole vectors end at one column, and the last tile begins at the other. The
// vectors that are left are shared: a narrow tile takes as long as one twice as wide.
struct TileColumns {
  int64_t end_whole, begin_last;

  template <int kMostVectors, int64_t kLanes>
  static TileColumns Of(int64_t num_cols) {
    const int64_t vectors = (num_cols + kLanes - 1) / kLanes;
    const int64_t whole = HWY_MAX(vectors - 2, 0) / kMostVectors * kMostVectors;
    const int64_t shared = vectors - whole > kMostVectors ? (kMostVectors + 1) / 2 : 0;
    return {whole * kLanes, (whole + shared) * kLanes};
  }
};

// Tiles of kRows rows, whose sums are in registers for all terms of a call.
template <class Compute, int kRows, Chains kChains>
class FewRowsTiles {
 public:
  FewRowsTiles(const FewRowsArgs<Compute>& args, const FewRow* rows, bool spills)
      : args_(args), spills_(kMaySpill && spills) {
    for (int i = 0; i < kRows; ++i) {
      a_[i] = args.a + rows[i].a;
      sums_[i] = args.sums + rows[i].sums;
    }
  }

  static TileColumns ColumnsOf(int64_t num_cols) {
    return TileColumns::Of<kMostVectors, kLanes>(num_cols);
  }

  // The last tile is the first if it spills.
  HWY_INLINE void Run(const TileColumns& columns) const {
    if (kMaySpill && spills_) RunLast<kMostVectors>(columns.begin_last);
    for (int64_t col = 0; col < columns.end_whole; col += kMostVectors * kLanes) {
      ComputeTile<kMostVectors, true>(col);
    }
    if (columns.end_whole < columns.begin_last) {
      RunTile<(kMostVectors + 1) / 2, true>(columns.end_whole);
    }
    if (!kMaySpill || !spills_) RunLast<kMostVectors>(columns.begin_last);
  }

 private:
  using D = hn::ScalableTag<Compute>;
  using V = hn::Vec<D>;
  static constexpr int64_t kLanes = hn::MaxLanes(D());
  static constexpr int kMostVectors = MostVectors(kRows);
  static constexpr bool kOnce = kChains != Chains::kParts;
  static constexpr bool kMaySpill = kChains == Chains::kOfWindows;

  // The columns from `col` on, of kVectors vectors at most.
  template <int kVectors>
  HWY_INLINE void RunLast(int64_t col) const {
    if constexpr (kVectors > 0) {
      const int64_t last_cols = args_.num_cols - col - (kVectors - 1) * kLanes;
      if (last_cols == kLanes) return RunTile<kVectors, true>(col);
      if (last_cols > 0) return RunTile<kVectors, false>(col, last_cols);
      RunLast<kVectors - 1>(col);
    }
  }

  template <int kVectors, bool kWhole>
  HWY_NOINLINE void RunTile(int64_t col, int64_t last_cols = kLanes) const {
    ComputeTile<kVectors, kWhole>(col, last_cols);
  }

  // So many vectors of columns, of the last one, if not all are whole, some. A call of it would
  // take as long as some terms.
  template <int kVectors, bool kWhole>
  HWY_INLINE void ComputeTile(int64_t col, int64_t last_cols = kLanes) const {
    constexpr bool kLoadsWhole = kWhole || kChains == Chains::kOfWindows;
    const D d;
    V sums[kRows][kVectors];
    LoadSums<kWhole>(kOnce || args_.begins, sums_, col, last_cols, sums);
    const Compute* b = args_.b + col;
    const int64_t a_step = args_.a_step, b_step = args_.b_step;
    for (int64_t k = 0, step = 0; k < args_.num_terms; ++k, step += a_step, b += b_step) {
      const int64_t at = kChains == Chains::kOfWindows ? args_.window[k] : step;
      V columns[kVectors];
#pragma GCC unroll 16
      for (int v = 0; v < kVectors; ++v) {
        columns[v] = LoadOfTile<kLoadsWhole, kVectors>(d, v, b + v * kLanes, last_cols);
      }
#pragma GCC unroll 16
      for (int i = 0; i < kRows; ++i) {
        const V factor = hn::Set(d, a_[i][at]);
#pragma GCC unroll 16
        for (int v = 0; v < kVectors; ++v) sums[i][v] = Fma(factor, columns[v], sums[i][v]);
      }
    }
    StoreSums<kWhole>(kOnce || args_.ends, args_.streams, kMaySpill && spills_, sums_, col,
                      last_cols, sums);
  }

  const FewRowsArgs<Compute>& args_;
  const Compute* a_[kRows];
  Compute* sums_[kRows];
  const bool spills_;
};

// Takes rows from `row` on in tiles of kRows, as long as there are so many; returns the next row.
template <Chains kChains, int kRows, class Compute>
const FewRow* RunTilesOf(const FewRowsArgs<Compute>& args, const FewRow* row, bool spill) {
  using Tiles = FewRowsTiles<Compute, kRows, kChains>;
  const FewRow* const end = args.rows + args.num_rows;
  const TileColumns columns = Tiles::ColumnsOf(args.num_cols);
  for (; end - row >= kRows; row += kRows) {
    Tiles(args, row, spill && end - row > kRows).Run(columns);
  }
  return row;
}

// Takes all rows from `row` on. `spill`: those with one behind them.
template <Chains kChains, class Compute>
void RunFewRowsFrom(const FewRow* row, const FewRowsArgs<Compute>& args, bool spill = false) {
  row = RunTilesOf<kChains, 4>(args, row, spill);
  switch (args.rows + args.num_rows - row) {
    case 3: RunTilesOf<kChains, 3>(args, row, spill); break;
    case 2: RunTilesOf<kChains, 2>(args, row, spill); break;
    case 1: RunTilesOf<kChains, 1>(args, row, spill); break;
    default: break;
  }
}

template <class Compute>
void RunFewRows(const FewRowsArgs<Compute>& args) {
  const bool once = args.begins && args.ends;
  once ? RunFewRowsFrom<Chains::kWhole>(args.rows, args)
       : RunFewRowsFrom<Chains::kParts>(args.rows, args);
}

template <class Compute>
void RunFewRowsOfWindows(const FewRowsArgs<Compute>& args) {
  constexpr Chains kChains = Chains::kOfWindows;
  constexpr int64_t kLanes = hn::MaxLanes(hn::ScalableTag<Compute>());
  const bool spill = RowsMaySpill(args);
  const FewRow* row = args.rows;
  switch (TileAt(kWindowTiles, (args.num_cols + kLanes - 1) / kLanes).rows) {
    case 8: row = RunTilesOf<kChains, 8>(args, row, spill); break;
    case 6: row = RunTilesOf<kChains, 6>(args, row, spill); break;
    default: break;
  }
  RunFewRowsFrom<kChains>(row, args, spill);
}

// Columns whose terms lie side by side are taken so many at a time: their terms stay in the first
// cache from rows to rows.
template <class Compute>
inline constexpr int64_t kColsAtOnce = 3 * hn::MaxLanes(hn::ScalableTag<Compute>());

inline constexpr FewRowsTile kTurnedTiles[] = {{1, 3}, {2, 3}, {3, 2}, {4, 1}, {5, 1}, {6, 1}};

// Columns whose terms lie side by side: squares of them are transposed in registers, which with the
// sums they must fit. A chain is as long as a square is wide, and so are its waits: tiles have six
// sums, which are enough to fill them.
template <class Compute, int kRows>
class TurnedTiles {
 public:
  static constexpr int kVectors = kTurnedTiles[kRows - 1].vectors;

  TurnedTiles(const FewRowsArgs<Compute>& args, const FewRow* rows) : args_(args) {
    for (int i = 0; i < kRows; ++i) {
      a_[i] = args.a + rows[i].a;
      sums_[i] = args.sums + rows[i].sums;
    }
  }

  HWY_INLINE void Run(int64_t col, int64_t end) const {
    for (; col + kVectors * kLanes <= end; col += kVectors * kLanes) RunTile<kVectors, true>(col);
    for (; col + kLanes <= end; col += kLanes) RunTile<1, true>(col);
    if (col < end) RunTile<1, false>(col, end - col);
  }

 private:
  using D = hn::ScalableTag<Compute>;
  using V = hn::Vec<D>;
  static constexpr int64_t kLanes = hn::MaxLanes(D());

  // So many vectors of columns, or, if not whole, some columns of one.
  template <int kTileVectors, bool kWhole>
  HWY_NOINLINE void RunTile(int64_t col, int64_t num_cols = kLanes) const {
    const D d;
    V sums[kRows][kTileVectors];
    LoadSums<kWhole>(args_.begins, sums_, col, num_cols, sums);
    const Compute* b = args_.b + col * args_.b_step;
    int64_t k = 0;
    for (; k + kLanes <= args_.num_terms; k += kLanes) {
#pragma GCC unroll 4
      for (int v = 0; v < kTileVectors; ++v) {
        const int64_t step = Opaque(args_.b_step);
        const Compute* corner = Opaque(b + v * kLanes * step + k);
        if (args_.fetches && k * int64_t{sizeof(Compute)} % 64 == 0) {
          FetchLines(corner, step, num_cols, kColsAtOnce<Compute> * step);
        }
        TransposeSquare<kWhole>(
            d, num_cols, kLanes,
            [&](int64_t j) HWY_ATTR { return hn::LoadU(d, corner + j * step); },
            [&](int64_t t, V terms) HWY_ATTR { AddTerm(k + t, terms, v, sums); });
      }
    }
    if (k < args_.num_terms) {
      const int64_t count = args_.num_terms - k;
#pragma GCC unroll 4
      for (int v = 0; v < kTileVectors; ++v) {
        const Compute* corner = b + v * kLanes * args_.b_step + k;
        TransposeSquare<false>(
            d, num_cols, count,
            [&](int64_t j) HWY_ATTR { return LoadFirst(d, corner + j * args_.b_step, count); },
            [&](int64_t t, V terms) HWY_ATTR { AddTerm(k + t, terms, v, sums); });
      }
    }
    StoreSums<kWhole>(args_.ends, args_.streams, /*spills=*/false, sums_, col, num_cols, sums);
  }

  template <int kTileVectors>
  HWY_INLINE void AddTerm(int64_t k, V terms, int v, V (&sums)[kRows][kTileVectors]) const {
    const int64_t at = k * args_.a_step;
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
      sums[i][v] = Fma(hn::Set(D(), a_[i][at]), terms, sums[i][v]);
    }
  }

  const FewRowsArgs<Compute>& args_;
  const Compute* a_[kRows];
  Compute* sums_[kRows];
};

template <class Compute>
void RunFewRowsTurned(const FewRowsArgs<Compute>& args) {
  constexpr int kMostRows = 6;
  for (int64_t col = 0; col < args.num_cols; col += kColsAtOnce<Compute>) {
    const int64_t end_col = HWY_MIN(col + kColsAtOnce<Compute>, args.num_cols);
    const FewRow *row = args.rows, *end = args.rows + args.num_rows;
    for (; end - row >= kMostRows; row += kMostRows) {
      TurnedTiles<Compute, kMostRows>(args, row).Run(col, end_col);
    }
    switch (end - row) {
      case 5: TurnedTiles<Compute, 5>(args, row).Run(col, end_col); break;
      case 4: TurnedTiles<Compute, 4>(args, row).Run(col, end_col); break;
      case 3: TurnedTiles<Compute, 3>(args, row).Run(col, end_col); break;
      case 2: TurnedTiles<Compute, 2>(args, row).Run(col, end_col); break;
      case 1: TurnedTiles<Compute, 1>(args, row).Run(col, end_col); break;
      default: break;
    }
  }
}

#endif  // HWY_TARGET

template <class Compute>
FewRowsKernels<Compute> MakeFewRowsKernels() {
  FewRowsKernels<Compute> kernels{};
#if HWY_TARGET != HWY_SCALAR
  kernels.lanes = static_cast<int64_t>(hn::Lanes(hn::ScalableTag<Compute>()));
  kernels.tiles = kInOrderTiles;
  kernels.turned_tiles = kTurnedTiles;
  kernels.window_tiles = kWindowTiles;
  kernels.run = RunFewRows<Compute>;
  kernels.run_turned = RunFewRowsTurned<Compute>;
  kernels.run_windows = RunFewRowsOfWindows<Compute>;
#endif
  return kernels;
}

inline void FillFewRows(KernelTable& table) {
  table.few_rows_f32 = MakeFewRowsKernels<float>();
  table.few_rows_f64 = MakeFewRowsKernels<double>();
}

}  // namespace HWY_NAMESPACE
}  // namespace convgrad
HWY_AFTER_NAMESPACE();

#endif  // toggle
