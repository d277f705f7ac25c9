// Filter gradients of 3x3 filters from one vector of channels; see depthwise.h. Included once per
// target.
//
// The sums of all taps stay in registers for all rows of outputs of a call.
#if defined(CONVGRAD_KERNELS_DEPTHWISE_SHORT_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CONVGRAD_KERNELS_DEPTHWISE_SHORT_ROWS_INL_H_
#undef CONVGRAD_KERNELS_DEPTHWISE_SHORT_ROWS_INL_H_
#else
#define CONVGRAD_KERNELS_DEPTHWISE_SHORT_ROWS_INL_H_
#endif

#include "kernels/depthwise/depthwise_tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace convgrad {
namespace HWY_NAMESPACE {

// One vector of channels, short rows of taps: rows and taps of each.
inline constexpr int64_t kShortRows = 3, kShortTaps = 3;

// Outputs [begin, end) of one row into the sums of kRows rows of taps; source[i] is what the first
// tap of row i reads for output 0. Steps along pointers: addresses must not need more registers
// than there are.
template <int64_t kRows, bool kChecked, class D, class T, class V>
HWY_INLINE void AddOutputs(D d, const DepthwiseGradientRows<T>& rows, const T* out_backprop,
                           const T* const (&source)[kRows], int64_t begin, int64_t end,
                           V (&acc)[kRows][kShortTaps]) {
  const int64_t step = rows.stride * rows.source_stride,
                tap_step = rows.dilation * rows.source_stride;
  const int64_t g_step = rows.out_backprop_stride;
  const T* g_at = out_backprop + begin * g_step;
  const T* at[kRows];
#pragma GCC unroll 4
  for (int64_t i = 0; i < kRows; ++i) at[i] = source[i] + begin * step;
  for (int64_t t = begin; t < end; ++t) {
    const V g = hn::LoadU(d, g_at);
    g_at += g_step;
#pragma GCC unroll 4
    for (int64_t k = 0; k < kShortTaps; ++k) {
      const int64_t col = rows.segments[0].origin + t * rows.stride + k * rows.dilation;
      if (kChecked && static_cast<uint64_t>(col) >= static_cast<uint64_t>(rows.num_cols)) continue;
#pragma GCC unroll 4
      for (int64_t i = 0; i < kRows; ++i) {
        acc[i][k] = Fma(hn::LoadU(d, at[i] + k * tap_step), g, acc[i][k]);
      }
    }
#pragma GCC unroll 4
    for (int64_t i = 0; i < kRows; ++i) at[i] += step;
  }
}

// Columns [kBegin, kEnd) of a tile whose outputs and taps are neighbours, likewise; at[i] is what
// row i reads there, g_at the output that is met there first and enters `g`: three of them are in
// registers at a time. A source vector is loaded once for all taps.
template <int64_t kBegin, int64_t kEnd, int64_t kRows, class D, class T, class V>
HWY_INLINE void AddColumns(D d, const DepthwiseGradientRows<T>& rows, bool on_row, const T*& g_at,
                           const T* (&at)[kRows], V (&g)[kTile], V (&acc)[kRows][kShortTaps]) {
#pragma GCC unroll 16
  for (int64_t col = kBegin; col < kEnd; ++col) {
    if (col < kTile) {
      g[col] = hn::LoadU(d, g_at);
      g_at += rows.out_backprop_stride;
    }
    if (on_row) {
#pragma GCC unroll 4
      for (int64_t i = 0; i < kRows; ++i) {
        const V x = InRegister(hn::LoadU(d, at[i]));
#pragma GCC unroll 4
        for (int64_t k = 0; k < kShortTaps; ++k) {
          if (k <= col && col - k < kTile) acc[i][k] = Fma(x, g[col - k], acc[i][k]);
        }
      }
    }
#pragma GCC unroll 4
    for (int64_t i = 0; i < kRows; ++i) at[i] += rows.source_stride;
  }
}

// All tiles of one row but for those of which more than the first and the last column are off the
// row; returns how many outputs they are.
template <int64_t kRows, class D, class T, class V>
HWY_INLINE int64_t AddTiles(D d, const DepthwiseGradientRows<T>& rows, const T* out_backprop,
                            const T* const (&source)[kRows], LineFetcher& lines,
                            V (&acc)[kRows][kShortTaps]) {
  constexpr int64_t kSpan = TileSpan(kShortTaps, 1);
  int64_t first = 0;
  for (; first + kTile <= rows.count; first += kTile) {
    const int64_t first_col = rows.segments[0].origin + first;
    if (first_col < -1 || first_col + kSpan > rows.num_cols + 1) break;
    lines.Fetch(kTile);
    const T* g_at = out_backprop + first * rows.out_backprop_stride;
    const T* at[kRows];
#pragma GCC unroll 4
    for (int64_t i = 0; i < kRows; ++i) at[i] = source[i] + first * rows.source_stride;
    V g[kTile];
    AddColumns<0, 1>(d, rows, first_col >= 0, g_at, at, g, acc);
    AddColumns<1, kSpan - 1>(d, rows, true, g_at, at, g, acc);
    AddColumns<kSpan - 1, kSpan>(d, rows, first_col + kSpan <= rows.num_cols, g_at, at, g, acc);
  }
  return first;
}

// kNeighbours: stride and dilation are 1, and rows have a tile.
template <int64_t kRows, bool kNeighbours, class T>
HWY_NOINLINE void GradientOfShortRows(const DepthwiseGradientRows<T>& rows) {
  const hn::ScalableTag<T> d;
  using V = hn::Vec<decltype(d)>;
  const DepthwiseSegment<T>* segments = rows.segments;
  const T* source[kRows];
  V acc[kRows][kShortTaps];
#pragma GCC unroll 4
  for (int64_t i = 0; i < kRows; ++i) {
    source[i] = segments[i].source + segments[i].origin * rows.source_stride;
#pragma GCC unroll 4
    for (int64_t k = 0; k < kShortTaps; ++k) {
      acc[i][k] = hn::LoadU(d, segments[i].sums + k * rows.sums_stride);
    }
  }
  // Outputs all of whose taps are on the row.
  const int64_t origin = segments[0].origin, stride = rows.stride;
  const int64_t room = rows.num_cols - origin - (kShortTaps - 1) * rows.dilation;
  const int64_t first = HWY_MIN(rows.count, HWY_MAX(0, (stride - 1 - origin) / stride));
  const int64_t last = HWY_MAX(first, HWY_MIN(rows.count, (room + stride - 1) / stride));
  LineFetcher lines(rows.ahead);
  const T* out_backprop = rows.out_backprop;
  for (int64_t row = 0; row < rows.num_rows; ++row) {
    int64_t t = 0;
    if constexpr (kNeighbours) t = AddTiles(d, rows, out_backprop, source, lines, acc);
    const int64_t whole = HWY_MAX(t, first), checked = HWY_MAX(whole, last);
    lines.Fetch(whole - t + rows.count - checked);
    AddOutputs<kRows, true>(d, rows, out_backprop, source, t, whole, acc);
    for (t = whole; t < checked; t += kTile) {
      const int64_t end = HWY_MIN(t + kTile, checked);
      lines.Fetch(end - t);
      AddOutputs<kRows, false>(d, rows, out_backprop, source, t, end, acc);
    }
    AddOutputs<kRows, true>(d, rows, out_backprop, source, checked, rows.count, acc);
    out_backprop += rows.out_backprop_row_step;
#pragma GCC unroll 4
    for (int64_t i = 0; i < kRows; ++i) source[i] += rows.source_row_step;
  }
#pragma GCC unroll 4
  for (int64_t i = 0; i < kRows; ++i) {
#pragma GCC unroll 4
    for (int64_t k = 0; k < kShortTaps; ++k) {
      hn::StoreU(acc[i][k], d, segments[i].sums + k * rows.sums_stride);
    }
  }
}

// True if all rows of taps are short and alike, and no rows to come are fetched.
template <class T>
bool HasShortRows(const DepthwiseGradientRows<T>& rows) {
  if (rows.channels > static_cast<int64_t>(hn::MaxLanes(hn::ScalableTag<T>())) ||
      rows.num_segments > kShortRows || rows.next.count + rows.next_out_backprop.count > 0) {
    return false;
  }
  for (int64_t i = 0; i < rows.num_segments; ++i) {
    const DepthwiseSegment<T>& segment = rows.segments[i];
    if (segment.num_taps != kShortTaps || segment.origin != rows.segments[0].origin) return false;
  }
  return true;
}

template <int64_t kRows, class T>
void GradientOfAnyShortRows(const DepthwiseGradientRows<T>& rows) {
  if (rows.stride == 1 && rows.dilation == 1 && rows.count >= kTile) {
    return GradientOfShortRows<kRows, true>(rows);
  }
  GradientOfShortRows<kRows, false>(rows);
}

// Rows of that kind; false if these are not.
template <class T>
bool TakeShortRows(const DepthwiseGradientRows<T>& rows) {
  if (!HasShortRows(rows)) return false;
  switch (rows.num_segments) {
    case 3: GradientOfAnyShortRows<3>(rows); break;
    case 2: GradientOfAnyShortRows<2>(rows); break;
    case 1: GradientOfShortRows<1, false>(rows); break;
    default: break;
  }
  return true;
}

}  // namespace HWY_NAMESPACE
}  // namespace convgrad
HWY_AFTER_NAMESPACE();

#endif  // toggle
