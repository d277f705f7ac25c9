// The depthwise kernels for all rows of results of a 3x3 filter; see depthwise_rows.h. Included
// once per target.
//
// A tile is a few neighbouring columns of results of a vector of channels or two, and goes down all
// rows. What a source row adds to all rows of results that read it is added while it is there, so
// that each of its vectors is loaded once. Some lines of channels are taken for all tiles before
// the next ones: tiles share columns, and narrow vectors share lines.
#if defined(CONVGRAD_KERNELS_DEPTHWISE_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CONVGRAD_KERNELS_DEPTHWISE_ROWS_INL_H_
#undef CONVGRAD_KERNELS_DEPTHWISE_ROWS_INL_H_
#else
#define CONVGRAD_KERNELS_DEPTHWISE_ROWS_INL_H_
#endif

#include "kernels/depthwise/depthwise_rows.h"
#include "kernels/depthwise/depthwise_store-inl.h"
#include "kernels/depthwise/depthwise_tile-inl.h"
#include "kernels/kernel_table.h"

HWY_BEFORE_NAMESPACE();
namespace convgrad {
namespace HWY_NAMESPACE {

// Columns of results of a tile at least, and at most: with 32 registers, three rows of seven sums
// and all weights are in them; else three rows of four.
inline constexpr int64_t kNarrowestTile = 2, kWidestTile = kManyRegisters ? 7 : 4;

// Columns of a tile of two vectors of channels, at most: their sums and weights fit 32 registers
// where a source row adds to two rows of results.
inline constexpr int64_t kWidestPair = 3;

template <class V>
using RowsWeights = V[kRowsTaps][kRowsTaps];

// Rows of results that a source row can add to.
constexpr int64_t LiveRows(int64_t stride) {
  return (kRowsTaps + stride - 1) / stride;
}

// A tile's columns of one source row.
template <class T>
struct TileRow {
  const T* first;
  int64_t stride;    // between columns
  bool left, right;  // the first and the last are on the row
  int64_t ahead;     // the memory that a column asks for lies so far behind it
};

// Adds one row of the source to the rows of results that are not finished: row j meets it with
// the row of taps kTop - j * kStride. With kFetches each column asks for memory behind itself, but
// for those that the tile before has asked for.
template <int64_t kTop, int64_t kStride, bool kFetches, class D, class T, class V, size_t kVectors,
          size_t kLive, size_t kWidth>
HWY_INLINE void AddSourceRow(D d, const TileRow<T>& row, const RowsWeights<V> (&weights)[kVectors],
                             V (&sums)[kVectors][kLive][kWidth]) {
  constexpr int64_t kSpan = TileSpan(kRowsTaps, kStride, 1, kWidth);
  const T* at = row.first;
#pragma GCC unroll 16
  for (int64_t col = 0; col < kSpan; ++col, at += row.stride) {
    if ((col == 0 && !row.left) || (col == kSpan - 1 && !row.right)) continue;
    if constexpr (kFetches) {
      if (col >= kRowsTaps - kStride) __builtin_prefetch(at + row.ahead);
    }
#pragma GCC unroll 2
    for (size_t v = 0; v < kVectors; ++v) {
      const V x = InRegister(LoadWidened(d, at + v * hn::Lanes(d)));
#pragma GCC unroll 4
      for (int64_t j = 0; j * kStride <= kTop; ++j) {
#pragma GCC unroll 8
        for (int64_t p = 0; p < static_cast<int64_t>(kWidth); ++p) {
          const int64_t k = col - p * kStride;
          if (k < 0 || k >= kRowsTaps) continue;
          sums[v][j][p] = Fma(x, weights[v][kTop - j * kStride][k], sums[v][j][p]);
        }
      }
    }
  }
}

template <class T>
HWY_INLINE bool IsEnd(const DepthwiseRows<T>& rows, int64_t row) {
  return rows.end_source != nullptr && row == rows.end_row;
}

template <class D, class T, class V>
HWY_INLINE void LoadWeights(D d, const DepthwiseRows<T>& rows, int64_t channel,
                            RowsWeights<V>& weights) {
#pragma GCC unroll 4
  for (int64_t i = 0; i < kRowsTaps; ++i) {
    const T* from = rows.filter + i * rows.filter_row_step + channel;
#pragma GCC unroll 4
    for (int64_t k = 0; k < kRowsTaps; ++k) {
      weights[i][k] = LoadWidened(d, from + k * rows.filter_stride);
    }
  }
}

// All rows of kWidth columns of kVectors vectors of channels, from result column first_out on.
template <int64_t kWidth, int64_t kVectors, int64_t kStride, bool kFetches, class T>
HWY_NOINLINE void ForwardDownRows(const DepthwiseRows<T>& rows, int64_t first_out, int64_t channel,
                                  int64_t ahead) {
  const hn::ScalableTag<ComputeType<T> > d;
  using V = hn::Vec<decltype(d)>;
  constexpr int64_t kLive = LiveRows(kStride), kLanes = hn::MaxLanes(d);
  RowsWeights<V> weights[kVectors];
  V sums[kVectors][kLive][kWidth];
#pragma GCC unroll 2
  for (int64_t v = 0; v < kVectors; ++v) {
    LoadWeights(d, rows, channel + v * kLanes, weights[v]);
#pragma GCC unroll 4
    for (int64_t j = 0; j < kLive; ++j) {
#pragma GCC unroll 8
      for (int64_t p = 0; p < kWidth; ++p) sums[v][j][p] = hn::Zero(d);
    }
  }
  const int64_t first_col = rows.origin + first_out * kStride;
  int64_t next = rows.first_row;  // of the source
  TileRow<T> row = {
      rows.source + next * rows.source_row_step + first_col * rows.source_stride + channel,
      rows.source_stride, first_col >= 0,
      first_col + TileSpan(kRowsTaps, kStride, 1, kWidth) <= rows.num_cols, ahead};
  const auto add = [&](auto top) HWY_ATTR {
    if (static_cast<uint64_t>(next) < static_cast<uint64_t>(rows.num_source_rows)) {
      TileRow<T> at = row;
      if (HWY_UNLIKELY(IsEnd(rows, next))) {
        at.first = rows.end_source + first_col * rows.source_stride + channel;
      }
      AddSourceRow<top(), kStride, kFetches>(d, at, weights, sums);
    }
    ++next;
    row.first += rows.source_row_step;
  };
  add(std::integral_constant<int64_t, 0>());
  if constexpr (kStride == 1) add(std::integral_constant<int64_t, 1>());
  T* out = rows.out + first_out * rows.out_stride + channel;
  for (int64_t r = 0; r < rows.count_rows; ++r, out += rows.out_row_step) {
    if constexpr (kStride == 2) add(std::integral_constant<int64_t, 1>());
    add(std::integral_constant<int64_t, 2>());
#pragma GCC unroll 2
    for (int64_t v = 0; v < kVectors; ++v) {
      EndSums<T>(d, sums[v][0]);
#pragma GCC unroll 8
      for (int64_t p = 0; p < kWidth; ++p) {
        StoreEnded(d, sums[v][0][p], out + v * kLanes + p * rows.out_stride, rows.channels);
#pragma GCC unroll 4
        for (int64_t j = 1; j < kLive; ++j) sums[v][j - 1][p] = sums[v][j][p];
        sums[v][kLive - 1][p] = hn::Zero(d);
      }
    }
  }
}

// Spread: with rows numbered as `u` of depthwise_rows.h, source row q ends the sums of row 2 q,
// which row q - 1 began, makes those of row 2 q + 1, and begins those of row 2 q + 2. Columns
// likewise.

// One source row and a tile of its columns: which of them are there, and where results go.
template <class T>
struct SpreadRow {
  const T* source;  // the column before the tile's first
  int64_t source_stride;
  bool left, right;  // the column before the first, and the last, are there
  bool first, last;  // the first and the last column of results are wanted
  T* to[2];          // the first column of rows 2 q and 2 q + 1
  int64_t to_stride[2];
  int64_t channels;
};

// Ends and stores one result.
template <class D, class T, class V>
HWY_INLINE void StoreSum(D d, V sum, T* to, int64_t channels) {
  if constexpr (kInStorage<T>) {
    StoreNarrowed(d, EndedSum<T>(d, sum), to);
  } else {
    StoreUpTo(d, CanonicalSum(d, sum), to, channels);
  }
}

// begun[] are the sums of row 2 q, and become those of row 2 q + 2. kThere: the source row is.
template <bool kThere, class D, class T, class V, size_t kResults>
HWY_INLINE void AddSpreadRow(D d, const SpreadRow<T>& row, const RowsWeights<V>& weights,
                             V (&begun)[kResults]) {
  constexpr int64_t kWidth = kResults / 2;
  const T* from = row.source;
  T* to[2] = {row.to[0], row.to[1]};
  // The next column's sums, in rows 2 q + 1 and 2 q + 2.
  V odd = hn::Zero(d), next = hn::Zero(d);
  if (kThere && row.left) {
    const V x = LoadWidened(d, from);
    begun[0] = Fma(x, weights[0][2], begun[0]);
    odd = Fma(x, weights[1][2], odd);
    next = Fma(x, weights[2][2], next);
  }
#pragma GCC unroll 8
  for (int64_t p = 0; p < kWidth; ++p) {
    V odd_1 = hn::Zero(d), odd_2 = hn::Zero(d), next_1 = hn::Zero(d), next_2 = hn::Zero(d);
    from += row.source_stride;
    if (kThere && (p + 1 < kWidth || row.right)) {
      const V x = InRegister(LoadWidened(d, from));
      begun[2 * p] = Fma(x, weights[0][0], begun[2 * p]);
      begun[2 * p + 1] = Fma(x, weights[0][1], begun[2 * p + 1]);
      if (p + 1 < kWidth) begun[2 * p + 2] = Fma(x, weights[0][2], begun[2 * p + 2]);
      odd = Fma(x, weights[1][0], odd);
      odd_1 = Fma(x, weights[1][1], odd_1);
      odd_2 = Fma(x, weights[1][2], odd_2);
      next = Fma(x, weights[2][0], next);
      next_1 = Fma(x, weights[2][1], next_1);
      next_2 = Fma(x, weights[2][2], next_2);
    }
    if (p > 0 || row.first) {
      StoreSum(d, begun[2 * p], to[0], row.channels);
      StoreSum(d, odd, to[1], row.channels);
    }
    if (p + 1 < kWidth || row.last) {
      StoreSum(d, begun[2 * p + 1], to[0] + row.to_stride[0], row.channels);
      StoreSum(d, odd_1, to[1] + row.to_stride[1], row.channels);
    }
    to[0] += 2 * row.to_stride[0];
    to[1] += 2 * row.to_stride[1];
    begun[2 * p] = next;
    begun[2 * p + 1] = next_1;
    odd = odd_2;
    next = next_2;
  }
}

// All rows of the results that kWidth source columns from first_col on finish. Rows that are not
// wanted go to a place of no use.
template <int64_t kWidth, class T>
HWY_NOINLINE void SpreadDownRows(const DepthwiseRows<T>& rows, int64_t first_col, int64_t channel) {
  const hn::ScalableTag<ComputeType<T> > d;
  using V = hn::Vec<decltype(d)>;
  RowsWeights<V> weights;
  LoadWeights(d, rows, channel, weights);
  V begun[2 * kWidth];
#pragma GCC unroll 16
  for (int64_t p = 0; p < 2 * kWidth; ++p) begun[p] = hn::Zero(d);
  alignas(64) T unwanted[kRowsGroup<T>];
  const int64_t first = rows.first_row, end = first + rows.count_rows;
  const int64_t last_col = first_col + kWidth - 1;
  int64_t q = (first + 1) / 2 - 1;
  SpreadRow<T> row = {};
  row.source =
      rows.source + q * rows.source_row_step + (first_col - 1) * rows.source_stride + channel;
  row.source_stride = rows.source_stride;
  row.channels = rows.channels;
  row.left = first_col > 0;
  row.right = last_col < rows.num_cols;
  row.first = 2 * first_col >= rows.origin;
  row.last = 2 * last_col + 1 < rows.origin + rows.count;
  T* const out = rows.out + (2 * first_col - rows.origin) * rows.out_stride + channel;
  for (; 2 * q < end; ++q, row.source += rows.source_row_step) {
    for (int64_t i = 0; i < 2; ++i) {
      const int64_t r = 2 * q + i - first;
      const bool wanted = r >= 0 && r < rows.count_rows;
      row.to[i] = wanted ? out + r * rows.out_row_step : unwanted;
      row.to_stride[i] = wanted ? rows.out_stride : 0;
    }
    if (q >= 0 && q < rows.num_source_rows) {
      if (HWY_UNLIKELY(IsEnd(rows, q))) {
        row.source = rows.end_source + (first_col - 1) * rows.source_stride + channel;
      }
      AddSpreadRow<true>(d, row, weights, begun);
    } else {
      AddSpreadRow<false>(d, row, weights, begun);
    }
  }
}

// Calls body(width as a constant, first column, first channel, how far the next tile's is) for all
// of `count` columns and `channels`, so many vectors of these a tile.
template <class T, int64_t kVectors = 1, class Body>
HWY_INLINE void ForTiles(int64_t count, int64_t channels, const Body& body) {
  constexpr int64_t kSize = kVectors * kRowsGroup<T>;
  constexpr int64_t kWidest = kVectors == 1 ? kWidestTile : kWidestPair;
  constexpr int64_t kTogether =
      HWY_MAX(kSize, 4 * LinesAhead::kLineBytes / static_cast<int64_t>(sizeof(T)));
  for (int64_t begin = 0; begin < channels; begin += kTogether) {
    const int64_t end = HWY_MIN(begin + kTogether, channels);
    ForColumns<kNarrowestTile, kWidest>(count, [&](auto width, int64_t first) HWY_ATTR {
      for (int64_t slot = begin; slot < end; slot += kSize) {
        const int64_t channel = FirstChannel(slot / kSize, kSize, channels);
        const int64_t next = FirstChannel(slot / kSize + 1, kSize, channels);
        body(width, first, channel, slot + kSize < channels ? next - channel : 0);
      }
    });
  }
}

// Few sets of the first cache take the lines of pixels that share them one by one. The neighbour of
// each line lies in other sets, which take it meanwhile: pairs of vectors read both.
template <int64_t kStride, class T>
constexpr bool TakesPairs() {
  return kManyRegisters && kStride == 2 && sizeof(T) * kRowsGroup<T> == LinesAhead::kLineBytes;
}

template <int64_t kStride, class T>
void ForwardRowsByPairs(const DepthwiseRows<T>& rows) {
  ForTiles<T, 2>(rows.count, rows.channels,
                 [&](auto width, int64_t first, int64_t channel, int64_t) HWY_ATTR {
                   ForwardDownRows<width(), 2, kStride, false>(rows, first, channel, 0);
                 });
}

// Columns down the rows are nothing that a machine fetches by itself. Where two vectors share a
// line, the second one, whose own lines are there, fetches those of the next vector.
template <int64_t kStride, class T>
void ForwardRowsOfStride(const DepthwiseRows<T>& rows) {
  if constexpr (TakesPairs<kStride, T>()) {
    if (rows.by_pairs && rows.channels >= 2 * kRowsGroup<T>) {
      return ForwardRowsByPairs<kStride>(rows);
    }
  }
  constexpr int64_t kVectorBytes = kRowsGroup<T> * static_cast<int64_t>(sizeof(T));
  constexpr bool kSharesLines = 2 * kVectorBytes == LinesAhead::kLineBytes;
  ForTiles<T>(rows.count, rows.channels,
              [&](auto width, int64_t first, int64_t channel, int64_t ahead) HWY_ATTR {
                const bool second = channel / kRowsGroup<T> % 2 != 0;
                if (kSharesLines && second && ahead != 0) {
                  ForwardDownRows<width(), 1, kStride, kSharesLines>(rows, first, channel, ahead);
                } else {
                  ForwardDownRows<width(), 1, kStride, false>(rows, first, channel, 0);
                }
              });
}

template <class T>
void DepthwiseForwardRows(const DepthwiseRows<T>& rows) {
  if (rows.stride == 1) return ForwardRowsOfStride<1>(rows);
  ForwardRowsOfStride<2>(rows);
}

template <class T>
void DepthwiseSpreadRows(const DepthwiseRows<T>& rows) {
  const int64_t begin = rows.origin / 2, end = (rows.origin + rows.count + 1) / 2;
  ForTiles<T>(end - begin, rows.channels,
              [&](auto width, int64_t first, int64_t channel, int64_t)
                  HWY_ATTR { SpreadDownRows<width()>(rows, begin + first, channel); });
}

// Not of bfloat16 with few registers: groups of its own, whose numbers are no neighbours, are
// widened sooner.
template <class T>
void FillRowsOf(DepthwiseRowKernels<T>* kernels) {
  if constexpr (kSlide && (kManyRegisters || kGroupParts<T> == 1)) {
    kernels->forward_rows = DepthwiseForwardRows<T>;
    kernels->spread_rows = DepthwiseSpreadRows<T>;
  }
}

inline void FillDepthwiseRows(KernelTable& table) {
  FillRowsOf(&table.depthwise_rows_f16);
  FillRowsOf(&table.depthwise_rows_bf16);
  FillRowsOf(&table.depthwise_rows_f32);
  FillRowsOf(&table.depthwise_rows_f64);
}

}  // namespace HWY_NAMESPACE
}  // namespace convgrad
HWY_AFTER_NAMESPACE();

#endif  // toggle
