// Filter gradients of 3x3 filters, one vector of channels at a time; see depthwise.h. Included once
// per target.
//
// The sums of all taps stay in registers for all rows of outputs of a call: nine chains, which hide
// each other's latency.
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

// Rows of taps, and taps of each.
inline constexpr int64_t kShortRows = 3, kShortTaps = 3;

// An output of one row and of one vector of channels, and what its first taps meet. It moves along
// the row: addresses must not need more registers than there are.
template <class T, int64_t kRows>
struct ShortRowsPlace {
  const T* out_backprop;
  const T* source[kRows];

  HWY_INLINE void Move(int64_t out_backprop_by, int64_t source_by) {
    out_backprop += out_backprop_by;
#pragma GCC unroll 4
    for (int64_t i = 0; i < kRows; ++i) source[i] += source_by;
  }
};

// The outputs from `begin` to `end` of a row into the sums of kRows rows of taps; returns the end.
// kChecked: some taps may be off the row.
template <bool kChecked, class D, class T, class V, int64_t kRows>
HWY_INLINE int64_t AddOutputs(D d, const DepthwiseGradientRows<T>& rows, int64_t begin, int64_t end,
                              ShortRowsPlace<T, kRows>& at, V (&acc)[kRows][kShortTaps]) {
  const int64_t tap_step = rows.dilation * rows.source_stride;
  int64_t col = rows.segments[0].origin + begin * rows.stride;
  for (int64_t t = begin; t < end; ++t, col += rows.stride) {
    const V g = hn::LoadU(d, at.out_backprop);
#pragma GCC unroll 4
    for (int64_t k = 0; k < kShortTaps; ++k) {
      const auto tap_col = static_cast<uint64_t>(col + k * rows.dilation);
      if (kChecked && tap_col >= static_cast<uint64_t>(rows.num_cols)) continue;
#pragma GCC unroll 4
      for (int64_t i = 0; i < kRows; ++i) {
        acc[i][k] = Fma(hn::LoadU(d, at.source[i] + k * tap_step), g, acc[i][k]);
      }
    }
    at.Move(rows.out_backprop_stride, rows.stride * rows.source_stride);
  }
  return HWY_MAX(begin, end);
}

// Columns [kBegin, kEnd) of a tile whose outputs and taps are neighbours, likewise; the place is
// what is read there, and the output that is met there first and enters `g`: three of them are in
// registers at a time. A source vector is loaded once for all taps.
template <int64_t kBegin, int64_t kEnd, int64_t kRows, class D, class T, class V>
HWY_INLINE void AddColumns(D d, const DepthwiseGradientRows<T>& rows, bool on_row,
                           ShortRowsPlace<T, kRows>& at, V (&g)[kTile],
                           V (&acc)[kRows][kShortTaps]) {
#pragma GCC unroll 16
  for (int64_t col = kBegin; col < kEnd; ++col) {
    if (col < kTile) g[col] = hn::LoadU(d, at.out_backprop);
    if (on_row) {
#pragma GCC unroll 4
      for (int64_t i = 0; i < kRows; ++i) {
        const V x = InRegister(hn::LoadU(d, at.source[i]));
#pragma GCC unroll 4
        for (int64_t k = 0; k < kShortTaps; ++k) {
          if (k <= col && col - k < kTile) acc[i][k] = Fma(x, g[col - k], acc[i][k]);
        }
      }
    }
    at.Move(col < kTile ? rows.out_backprop_stride : 0, rows.source_stride);
  }
}

// All tiles of one row but for those of which more than the first and the last column are off the
// row; returns how many outputs they are.
template <int64_t kRows, class D, class T, class V>
HWY_INLINE int64_t AddTiles(D d, const DepthwiseGradientRows<T>& rows, LineFetcher& lines,
                            ShortRowsPlace<T, kRows>& at, V (&acc)[kRows][kShortTaps]) {
  constexpr int64_t kSpan = TileSpan(kShortTaps, 1);
  int64_t first = 0;
  for (; first + kTile <= rows.count; first += kTile) {
    const int64_t first_col = rows.segments[0].origin + first;
    if (first_col < -1 || first_col + kSpan > rows.num_cols + 1) break;
    lines.Fetch(kTile);
    V g[kTile];
    AddColumns<0, 1>(d, rows, first_col >= 0, at, g, acc);
    AddColumns<1, kSpan - 1>(d, rows, true, at, g, acc);
    AddColumns<kSpan - 1, kSpan>(d, rows, first_col + kSpan <= rows.num_cols, at, g, acc);
    at.Move(0, (kTile - kSpan) * rows.source_stride);
  }
  return first;
}

// One vector of channels and where its sums are; and the outputs of each row all of whose taps are
// on the row.
struct ShortRowsPart {
  int64_t channel, slot;
  int64_t first, last;
};

// kNeighbours: stride and dilation are 1, and rows have a tile.
template <int64_t kRows, bool kNeighbours, class T>
HWY_NOINLINE void GradientOfShortRows(const DepthwiseGradientRows<T>& rows,
                                      const ShortRowsPart& part) {
  const hn::ScalableTag<T> d;
  using V = hn::Vec<decltype(d)>;
  const DepthwiseSegment<T>* segments = rows.segments;
  ShortRowsPlace<T, kRows> at;
  at.out_backprop = rows.out_backprop + part.channel;
  V acc[kRows][kShortTaps];
#pragma GCC unroll 4
  for (int64_t i = 0; i < kRows; ++i) {
    at.source[i] = segments[i].source + segments[0].origin * rows.source_stride + part.channel;
#pragma GCC unroll 4
    for (int64_t k = 0; k < kShortTaps; ++k) {
      acc[i][k] = hn::LoadU(d, segments[i].sums + part.slot + k * rows.sums_stride);
    }
  }
  LineFetcher lines(rows.ahead);
  for (int64_t row = 0; row < rows.num_rows; ++row) {
    int64_t t = 0;
    if constexpr (kNeighbours) t = AddTiles(d, rows, lines, at, acc);
    t = AddOutputs<true>(d, rows, t, part.first, at, acc);
    while (t < part.last) {
      const int64_t end = rows.ahead == nullptr ? part.last : HWY_MIN(t + kTile, part.last);
      lines.Fetch(end - t);
      t = AddOutputs<false>(d, rows, t, end, at, acc);
    }
    lines.Fetch(part.first + rows.count - t);
    AddOutputs<true>(d, rows, t, rows.count, at, acc);
    at.Move(rows.out_backprop_row_step - rows.count * rows.out_backprop_stride,
            rows.source_row_step - rows.count * rows.stride * rows.source_stride);
  }
#pragma GCC unroll 4
  for (int64_t i = 0; i < kRows; ++i) {
#pragma GCC unroll 4
    for (int64_t k = 0; k < kShortTaps; ++k) {
      hn::StoreU(acc[i][k], d, segments[i].sums + part.slot + k * rows.sums_stride);
    }
  }
}

// True if the first cache keeps what a row of outputs meets of one vector of channels until the
// next row comes for it: pixels at such a distance lie in few of its sets.
template <class T>
bool StaysInFirstCache(const DepthwiseGradientRows<T>& rows) {
  constexpr int64_t kSets = 64, kWays = 8;
  const int64_t apart = rows.source_stride * static_cast<int64_t>(sizeof(T));
  const int64_t lines = apart / LinesAhead::kLineBytes;
  const int64_t sets =
      apart % LinesAhead::kLineBytes != 0 ? kSets : kSets / HWY_MIN(kSets, lines & -lines);
  const int64_t columns = (rows.count - 1) * rows.stride + kShortTaps;
  return kShortRows * columns + rows.count <= kWays * sets;
}

// True if all rows of taps are short and alike, no rows to come are fetched, and of vectors of
// channels there is one, or they are taken one by one sooner than all of a tile together.
template <class T>
bool HasShortRows(const DepthwiseGradientRows<T>& rows) {
  const bool fetches = rows.next.count + rows.next_out_backprop.count > 0;
  if (rows.num_segments > kShortRows || fetches) return false;
  if (rows.channels > kGroupSize<T>) {
    constexpr bool kPartsOfLines = kGroupSize<T> * sizeof(T) < LinesAhead::kLineBytes;
    if (!kPartsOfLines || rows.count <= kTile || !StaysInFirstCache(rows)) return false;
  }
  for (int64_t i = 0; i < rows.num_segments; ++i) {
    const DepthwiseSegment<T>& segment = rows.segments[i];
    if (segment.num_taps != kShortTaps || segment.origin != rows.segments[0].origin) return false;
  }
  return true;
}

template <int64_t kRows, class T>
void GradientOfAnyShortRows(const DepthwiseGradientRows<T>& rows) {
  const int64_t origin = rows.segments[0].origin, stride = rows.stride;
  const int64_t room = rows.num_cols - origin - (kShortTaps - 1) * rows.dilation;
  ShortRowsPart part = {};
  part.first = HWY_MIN(rows.count, HWY_MAX(0, (stride - 1 - origin) / stride));
  part.last = HWY_MAX(part.first, HWY_MIN(rows.count, (room + stride - 1) / stride));
  constexpr int64_t kSize = kGroupSize<T>;
  const bool neighbours = rows.channels <= kSize && stride == 1 && rows.dilation == 1;
  if (kRows > 1 && neighbours && rows.count >= kTile) {
    return GradientOfShortRows<kRows, (kRows > 1)>(rows, part);
  }
  for (part.slot = 0; part.slot < rows.channels; part.slot += kSize) {
    part.channel = FirstChannel(part.slot / kSize, kSize, rows.channels);
    GradientOfShortRows<kRows, false>(rows, part);
  }
}

// Rows of that kind; false if these are not.
template <class T>
bool TakeShortRows(const DepthwiseGradientRows<T>& rows) {
  if (!HasShortRows(rows)) return false;
  switch (rows.num_segments) {
    case 3: GradientOfAnyShortRows<3>(rows); break;
    case 2: GradientOfAnyShortRows<2>(rows); break;
    case 1: GradientOfAnyShortRows<1>(rows); break;
    default: break;
  }
  return true;
}

}  // namespace HWY_NAMESPACE
}  // namespace convgrad
HWY_AFTER_NAMESPACE();

#endif  // toggle
