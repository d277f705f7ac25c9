// The depthwise forward kernel for all rows of results of a 3x3 filter with stride 2 where
// registers are few; see depthwise_rows.h. Included once per target.
//
// A tile is at most four neighbouring columns of two vectors of channels, in one row of results:
// eight chains, which hide each other's latency, the weights of one row of taps and what a column
// reads are all that registers hold. (A stride leaves a row of the source too few sums to go down
// the rows with.) Vectors that share a line are read together, and all channels of a row before the
// next row: columns whose lines share sets of the first cache are read once while they are there,
// and memory is read in the order in which it lies.
#if defined(CONVGRAD_KERNELS_DEPTHWISE_STRIDED_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CONVGRAD_KERNELS_DEPTHWISE_STRIDED_ROWS_INL_H_
#undef CONVGRAD_KERNELS_DEPTHWISE_STRIDED_ROWS_INL_H_
#else
#define CONVGRAD_KERNELS_DEPTHWISE_STRIDED_ROWS_INL_H_
#endif

#include "kernels/depthwise/depthwise_rows.h"
#include "kernels/depthwise/depthwise_store-inl.h"
#include "kernels/depthwise/depthwise_tile-inl.h"
#include "kernels/kernel_table.h"

HWY_BEFORE_NAMESPACE();
namespace convgrad {
namespace HWY_NAMESPACE {

inline constexpr int64_t kRowsStride = 2;

// What a tile meets in one row of results.
template <class T>
struct StridedTile {
  const T* source;   // the first column, in the first row of taps that is on the source
  const T* filter;   // that row of taps
  T* out;            // the first column
  int64_t num_rows;  // of taps that are on the source
  bool left, right;  // the first and the last column that the tile reads are on the row
};

// Adds one row of taps to kVectors sums of each column, column by column.
template <class D, class T, class V, int64_t kWidth, int64_t kVectors>
HWY_INLINE void AddStridedRow(D d, const DepthwiseRows<T>& rows, const StridedTile<T>& tile,
                              V (&sums)[kWidth][kVectors]) {
  constexpr int64_t kSize = kRowsGroup<T>;
  constexpr int64_t kSpan = TileSpan(kRowsTaps, kRowsStride, 1, kWidth);
  V weights[kRowsTaps][kVectors];
#pragma GCC unroll 8
  for (int64_t i = 0; i < kRowsTaps * kVectors; ++i) {
    const int64_t k = i / kVectors, v = i % kVectors;
    weights[k][v] = LoadWidened(d, tile.filter + k * rows.filter_stride + v * kSize);
  }
  const T* at = tile.source;
#pragma GCC unroll 16
  for (int64_t col = 0; col < kSpan; ++col, at = Opaque(at + rows.source_stride)) {
    if ((col == 0 && !tile.left) || (col == kSpan - 1 && !tile.right)) continue;
#pragma GCC unroll 2
    for (int64_t v = 0; v < kVectors; ++v) {
      V x = LoadWidened(d, at + v * kSize);
      if (col % kRowsStride == 0) x = InRegister(x);
#pragma GCC unroll 4
      for (int64_t p = 0; p < kWidth; ++p) {
        const int64_t k = col - p * kRowsStride;
        if (k < 0 || k >= kRowsTaps) continue;
        sums[p][v] = Fma(x, weights[k][v], sums[p][v]);
      }
    }
  }
}

// The results of kVectors vectors of channels.
template <int64_t kWidth, int64_t kVectors, class T>
HWY_INLINE void ForwardStridedVectors(const DepthwiseRows<T>& rows, StridedTile<T> tile) {
  const hn::ScalableTag<ComputeType<T> > d;
  hn::Vec<decltype(d)> sums[kWidth][kVectors];
#pragma GCC unroll 8
  for (int64_t i = 0; i < kWidth * kVectors; ++i) sums[i / kVectors][i % kVectors] = hn::Zero(d);
  for (; tile.num_rows > 0; --tile.num_rows) {
    AddStridedRow(d, rows, tile, sums);
    tile.source += rows.source_row_step;
    tile.filter += rows.filter_row_step;
  }
#pragma GCC unroll 4
  for (int64_t p = 0; p < kWidth; ++p, tile.out += rows.out_stride) {
    EndSums<T>(d, sums[p]);
#pragma GCC unroll 2
    for (int64_t v = 0; v < kVectors; ++v) {
      StoreEnded(d, sums[p][v], tile.out + v * kRowsGroup<T>);
    }
  }
}

// All rows of kWidth columns of results from first_out on.
template <int64_t kWidth, class T>
HWY_NOINLINE void ForwardRowByRow(const DepthwiseRows<T>& given, int64_t first_out) {
  constexpr int64_t kSize = kRowsGroup<T>;
  const DepthwiseRows<T> rows = given;  // a copy, which no result can overwrite
  const int64_t first_col = rows.origin + first_out * kRowsStride;
  StridedTile<T> tile = {};
  tile.left = first_col >= 0;
  tile.right = first_col + TileSpan(kRowsTaps, kRowsStride, 1, kWidth) <= rows.num_cols;
  const T* const source = rows.source + first_col * rows.source_stride;
  T* out = rows.out + first_out * rows.out_stride;
  for (int64_t r = 0; r < rows.count_rows; ++r, out += rows.out_row_step) {
    const int64_t top = rows.first_row + r * kRowsStride, first = HWY_MAX(top, 0);
    tile.num_rows = HWY_MIN(top + kRowsTaps, rows.num_source_rows) - first;
    const auto at = [&](int64_t channel) HWY_ATTR {
      tile.source = source + first * rows.source_row_step + channel;
      tile.filter = rows.filter + (first - top) * rows.filter_row_step + channel;
      tile.out = out + channel;
      return tile;
    };
    int64_t channel = 0;
    for (; channel + 2 * kSize <= rows.channels; channel += 2 * kSize) {
      ForwardStridedVectors<kWidth, 2>(rows, at(channel));
    }
    for (; channel < rows.channels; channel += kSize) {
      ForwardStridedVectors<kWidth, 1>(rows, at(HWY_MIN(channel, rows.channels - kSize)));
    }
  }
}

template <class T>
void DepthwiseStridedRows(const DepthwiseRows<T>& rows) {
  ForColumns(rows.count,
             [&](auto width, int64_t first) HWY_ATTR { ForwardRowByRow<width()>(rows, first); });
}

template <class T>
void FillStridedRowsOf(DepthwiseRowKernels<T>* kernels) {
  if constexpr (kSlide && !kManyRegisters && kGroupParts<T> == 1) {
    kernels->strided_rows = DepthwiseStridedRows<T>;
  }
}

inline void FillDepthwiseStridedRows(KernelTable& table) {
  FillStridedRowsOf(&table.depthwise_rows_f16);
  FillStridedRowsOf(&table.depthwise_rows_bf16);
  FillStridedRowsOf(&table.depthwise_rows_f32);
  FillStridedRowsOf(&table.depthwise_rows_f64);
}

}  // namespace HWY_NAMESPACE
}  // namespace convgrad
HWY_AFTER_NAMESPACE();

#endif  // toggle
