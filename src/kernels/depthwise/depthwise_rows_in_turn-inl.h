// The depthwise kernel that makes all rows of results one after the other, where registers are few;
// see depthwise_rows.h. Included once per target.
//
// A tile is up to seven neighbouring columns of two vectors of channels in one row of results. Its
// sums take all registers but those of one tap's weights: so many chains hide each other's latency,
// and a multiply-add that reads the source from memory is one instruction, where loading what taps
// share would take another. Vectors that share a line are read together, and all channels of a row
// before the next row: columns whose lines share sets of the first cache are read while they are
// there, and memory is read in the order in which it lies.
#if defined(CONVGRAD_KERNELS_DEPTHWISE_ROWS_IN_TURN_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CONVGRAD_KERNELS_DEPTHWISE_ROWS_IN_TURN_INL_H_
#undef CONVGRAD_KERNELS_DEPTHWISE_ROWS_IN_TURN_INL_H_
#else
#define CONVGRAD_KERNELS_DEPTHWISE_ROWS_IN_TURN_INL_H_
#endif

#include "kernels/depthwise/depthwise_rows.h"
#include "kernels/depthwise/depthwise_store-inl.h"
#include "kernels/depthwise/depthwise_tile-inl.h"
#include "kernels/kernel_table.h"

HWY_BEFORE_NAMESPACE();
namespace convgrad {
namespace HWY_NAMESPACE {

inline constexpr int64_t kWidestInTurn = 7;  // columns

// The columns of a tile that find one tap on the row, from begin to end; if none, none are before
// end, and all before begin.
struct ColumnsOfTap {
  int32_t begin, end;
};

// A tile in one row of results.
template <class T>
struct TileInTurn {
  const T* source;   // what the first column meets with the first tap, in the first row of taps
                     // that is on the source
  const T* filter;   // that row of taps
  T* out;            // the first column
  int64_t num_rows;  // of taps that are on the source
  const ColumnsOfTap* taps;
};

// The addresses of a tile's columns of one row of the source: each that is not among the bases lies
// one or two steps behind one.
template <int64_t kWidth, class T>
struct TileColumns {
  static constexpr int64_t kOfBase = 3;

  HWY_INLINE TileColumns(const DepthwiseRows<T>& rows, const T* first)
      : step(rows.stride * rows.source_stride), tap_step(rows.source_stride) {
#pragma GCC unroll 4
    for (const T*& base : bases) {
      base = Opaque(first);
      first += kOfBase * step;
    }
  }
  HWY_INLINE const T* operator[](int64_t p) const {
    return bases[p / kOfBase] + p % kOfBase * step;
  }
  // To what the columns meet with the next tap.
  HWY_INLINE void Move() {
#pragma GCC unroll 4
    for (const T*& base : bases) base = Opaque(base + tap_step);
  }

  const T* bases[(kWidth + kOfBase - 1) / kOfBase];
  int64_t step, tap_step;
};

template <int64_t kVectors, class D, class T, class V>
HWY_INLINE void LoadTap(D d, const T* filter, V (&weights)[kVectors]) {
#pragma GCC unroll 2
  for (int64_t v = 0; v < kVectors; ++v) {
    weights[v] = InRegister(LoadWidened(d, filter + v * kRowsGroup<T>));
  }
}

// Adds what one tap meets at `at` to a column's sums.
template <int64_t kVectors, class D, class T, class V>
HWY_INLINE void AddColumn(D d, const T* at, const V (&weights)[kVectors], V (&sums)[kVectors]) {
#pragma GCC unroll 2
  for (int64_t v = 0; v < kVectors; ++v) {
    sums[v] = Fma(weights[v], LoadWidened(d, at + v * kRowsGroup<T>), sums[v]);
  }
}

// Adds a row of kTaps taps to the sums of kWidth columns of kVectors vectors. What its first and
// its last column meet with the middle tap is on the row: so few columns can be off it.
template <int64_t kTaps, int64_t kWidth, int64_t kVectors, class D, class T, class V>
HWY_INLINE void AddOddTaps(D d, const DepthwiseRows<T>& rows, const TileInTurn<T>& tile,
                           V (&sums)[kWidth][kVectors]) {
  constexpr int64_t kHalf = kTaps / 2;
  TileColumns<kWidth, T> columns(rows, tile.source);
  const T* filter = tile.filter;
#pragma GCC unroll 8
  for (int64_t k = 0; k < kTaps; ++k) {
    V weights[kVectors];
    LoadTap(d, filter, weights);
#pragma GCC unroll 8
    for (int64_t p = 0; p < kWidth; ++p) {
      if (k + p < kHalf && p < tile.taps[k].begin) continue;
      if (kTaps - 1 - k + kWidth - 1 - p < kHalf && p >= tile.taps[k].end) continue;
      AddColumn(d, columns[p], weights, sums[p]);
    }
    columns.Move();
    filter = Opaque(filter + rows.filter_stride);
  }
}

// Adds one tap to the columns that have it, from the last one on.
template <int64_t kWidth, int64_t kVectors, class D, class T, class V>
HWY_INLINE void AddSomeColumns(D d, const TileColumns<kWidth, T>& columns, ColumnsOfTap has,
                               const V (&weights)[kVectors], V (&sums)[kWidth][kVectors]) {
  switch (has.end) {
    case 7:
      if constexpr (kWidth > 6) {
        AddColumn(d, columns[6], weights, sums[6]);
        if (has.begin == 6) break;
      }
      [[fallthrough]];
    case 6:
      if constexpr (kWidth > 5) {
        AddColumn(d, columns[5], weights, sums[5]);
        if (has.begin == 5) break;
      }
      [[fallthrough]];
    case 5:
      if constexpr (kWidth > 4) {
        AddColumn(d, columns[4], weights, sums[4]);
        if (has.begin == 4) break;
      }
      [[fallthrough]];
    case 4:
      if constexpr (kWidth > 3) {
        AddColumn(d, columns[3], weights, sums[3]);
        if (has.begin == 3) break;
      }
      [[fallthrough]];
    case 3:
      if constexpr (kWidth > 2) {
        AddColumn(d, columns[2], weights, sums[2]);
        if (has.begin == 2) break;
      }
      [[fallthrough]];
    case 2:
      if constexpr (kWidth > 1) {
        AddColumn(d, columns[1], weights, sums[1]);
        if (has.begin == 1) break;
      }
      [[fallthrough]];
    case 1: AddColumn(d, columns[0], weights, sums[0]); break;
    default: break;  // none
  }
}

// Adds any row of taps to the sums of kWidth columns of kVectors vectors.
template <int64_t kWidth, int64_t kVectors, class D, class T, class V>
HWY_INLINE void AddTaps(D d, const DepthwiseRows<T>& rows, const TileInTurn<T>& tile,
                        V (&sums)[kWidth][kVectors]) {
  TileColumns<kWidth, T> columns(rows, tile.source);
  const T* filter = tile.filter;
  const ColumnsOfTap *has = tile.taps, *const end = has + rows.num_taps;
  do {
    V weights[kVectors];
    LoadTap(d, filter, weights);
    if (HWY_LIKELY(has->end - has->begin == kWidth)) {
#pragma GCC unroll 8
      for (int64_t p = 0; p < kWidth; ++p) AddColumn(d, columns[p], weights, sums[p]);
    } else {
      AddSomeColumns(d, columns, *has, weights, sums);
    }
    // GCC else keeps sums that are not always added to in memory.
#pragma GCC unroll 16
    for (int64_t i = 0; i < kWidth * kVectors; ++i) {
      V& sum = sums[i / kVectors][i % kVectors];
      sum = InRegister(sum);
    }
    columns.Move();
    filter += rows.filter_stride;
  } while (++has != end);
}

// Makes a tile's results, of kVectors vectors of channels.
template <int64_t kTaps, int64_t kWidth, int64_t kVectors, class T>
HWY_INLINE void ForwardVectors(const DepthwiseRows<T>& rows, TileInTurn<T> tile) {
  const hn::ScalableTag<ComputeType<T> > d;
  hn::Vec<decltype(d)> sums[kWidth][kVectors];
#pragma GCC unroll 16
  for (int64_t i = 0; i < kWidth * kVectors; ++i) sums[i / kVectors][i % kVectors] = hn::Zero(d);
  if (HWY_LIKELY(tile.num_rows > 0)) {
    do {
      if constexpr (kTaps > 0) {
        AddOddTaps<kTaps, kWidth, kVectors>(d, rows, tile, sums);
      } else {
        AddTaps<kWidth, kVectors>(d, rows, tile, sums);
      }
      tile.source += rows.source_row_step;
      tile.filter += rows.filter_row_step;
    } while (--tile.num_rows > 0);
  }
#pragma GCC unroll 8
  for (int64_t p = 0; p < kWidth; ++p, tile.out += rows.out_stride) {
    EndSums<T>(d, sums[p]);
#pragma GCC unroll 2
    for (int64_t v = 0; v < kVectors; ++v) {
      StoreEnded(d, sums[p][v], tile.out + v * kRowsGroup<T>);
    }
  }
}

// Finds the columns of each tap, of a tile whose first column meets first_col with the first tap.
template <int64_t kWidth, class T>
HWY_INLINE void FindColumns(const DepthwiseRows<T>& rows, int64_t first_col, ColumnsOfTap* taps) {
  for (int64_t k = 0, col = first_col; k < rows.num_taps; ++k, ++col) {
    ColumnsOfTap has = {0, kWidth};
    while (has.begin < kWidth && col + has.begin * rows.stride < 0) ++has.begin;
    while (has.end > has.begin && col + (has.end - 1) * rows.stride >= rows.num_cols) --has.end;
    taps[k] = has.begin < has.end ? has : ColumnsOfTap{kWidth, 0};
  }
}

// Makes all rows of kWidth columns of results, from first_out on.
template <int64_t kTaps, int64_t kWidth, class T>
HWY_NOINLINE void ForwardRowByRow(const DepthwiseRows<T>& given, int64_t first_out) {
  constexpr int64_t kSize = kRowsGroup<T>;
  const DepthwiseRows<T> rows = given;  // a copy, which no result can overwrite
  TileInTurn<T> tile = {};
  const int64_t first_col = rows.origin + first_out * rows.stride;
  ColumnsOfTap taps[kMostTapsInTurn];
  FindColumns<kWidth>(rows, first_col, taps);
  tile.taps = taps;
  const T* const source = rows.source + first_col * rows.source_stride;
  T* out = rows.out + first_out * rows.out_stride;
  for (int64_t r = 0; r < rows.count_rows; ++r, out += rows.out_row_step) {
    const int64_t top = rows.first_row + r * rows.row_stride, first_row = HWY_MAX(top, 0);
    const int64_t first = first_row - top;  // row of taps on the source
    tile.num_rows = HWY_MIN(rows.num_tap_rows, rows.num_source_rows - top) - first;
    const auto at = [&](int64_t channel) HWY_ATTR {
      tile.source = source + first_row * rows.source_row_step + channel;
      tile.filter = rows.filter + first * rows.filter_row_step + channel;
      tile.out = out + channel;
      return tile;
    };
    int64_t channel = 0;
    for (; channel + 2 * kSize <= rows.channels; channel += 2 * kSize) {
      ForwardVectors<kTaps, kWidth, 2>(rows, at(channel));
    }
    for (; channel < rows.channels; channel += kSize) {
      ForwardVectors<kTaps, kWidth, 1>(rows, at(HWY_MIN(channel, rows.channels - kSize)));
    }
  }
}

// True if the middle taps of all columns are on the row.
template <class T>
bool HasMiddleTaps(const DepthwiseRows<T>& rows) {
  const int64_t first = rows.origin + rows.num_taps / 2;
  return first >= 0 && first + (rows.count - 1) * rows.stride < rows.num_cols;
}

// With kTaps 0 rows of any taps.
template <int64_t kTaps, class T>
void RowsInTurnOfTaps(const DepthwiseRows<T>& rows) {
  ForColumns<1, kWidestInTurn>(rows.count, [&](auto width, int64_t first) HWY_ATTR {
    ForwardRowByRow<kTaps, width()>(rows, first);
  });
}

template <class T>
void DepthwiseRowsInTurn(const DepthwiseRows<T>& rows) {
  if (rows.num_taps == 3 && HasMiddleTaps(rows)) return RowsInTurnOfTaps<3>(rows);
  if constexpr (!kInStorage<T>) {  // numbers that have to be widened take longer than their loops
    if (rows.num_taps == 5 && HasMiddleTaps(rows)) return RowsInTurnOfTaps<5>(rows);
    if (rows.num_taps == 7 && HasMiddleTaps(rows)) return RowsInTurnOfTaps<7>(rows);
  }
  RowsInTurnOfTaps<0>(rows);
}

template <class T>
void FillRowsInTurnOf(DepthwiseRowKernels<T>* kernels) {
  if constexpr (kSlide && !kManyRegisters && kGroupParts<T> == 1) {
    kernels->rows_in_turn = DepthwiseRowsInTurn<T>;
  }
}

inline void FillDepthwiseRowsInTurn(KernelTable& table) {
  FillRowsInTurnOf(&table.depthwise_rows_f16);
  FillRowsInTurnOf(&table.depthwise_rows_bf16);
  FillRowsInTurnOf(&table.depthwise_rows_f32);
  FillRowsInTurnOf(&table.depthwise_rows_f64);
}

}  // namespace HWY_NAMESPACE
}  // namespace convgrad
HWY_AFTER_NAMESPACE();

#endif  // toggle
