// The depthwise forward kernel; see depthwise.h. Included once per target.
//
// A tile is kTile consecutive outputs of a row, or kHalfTile where no more are left; its loop over
// channels is inside it, so that every line of the tensors is read in memory order. Inside a tile
// each source vector is loaded once for all taps that read it (walking columns), and a column off
// the row is skipped by a uniform branch: padding never enters a sum. Registers for the largest
// segment: 7 outputs, 7 taps, 1 source: 15, what AVX2 has.
#if defined(CONVGRAD_KERNELS_DEPTHWISE_FORWARD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CONVGRAD_KERNELS_DEPTHWISE_FORWARD_INL_H_
#undef CONVGRAD_KERNELS_DEPTHWISE_FORWARD_INL_H_
#else
#define CONVGRAD_KERNELS_DEPTHWISE_FORWARD_INL_H_
#endif

#include "kernels/depthwise/depthwise_store-inl.h"
#include "kernels/depthwise/depthwise_tile-inl.h"
#include "kernels/kernel_table.h"

HWY_BEFORE_NAMESPACE();
namespace convgrad {
namespace HWY_NAMESPACE {

template <int64_t kTaps, int64_t kStride, int64_t kPart, Coverage kCoverage, class D, class T,
          class V, size_t kOutputs>
HWY_INLINE void SlideForward(D d, const TileSource<T>& source, const T* filter,
                             int64_t filter_stride, V (&acc)[kOutputs]) {
  V weights[kTaps];
#pragma GCC unroll 8
  for (int64_t k = 0; k < kTaps; ++k) weights[k] = LoadPart<kPart>(d, filter + k * filter_stride);
  const T* at = source.first;
  constexpr int64_t kTileSize = kOutputs, kSpan = TileSpan(kTaps, kStride, 1, kTileSize);
#pragma GCC unroll 32
  for (int64_t col = 0; col < kSpan; ++col, at += source.stride) {
    if (!source.template Has<kCoverage, kSpan>(col)) continue;
    const V x = InRegister<kTaps>(LoadPart<kPart>(d, at));
#pragma GCC unroll 8
    for (int64_t p = 0; p < kTileSize; ++p) {
      const int64_t k = col - p * kStride;
      if (k >= 0 && k < kTaps) acc[p] = Fma(x, weights[k], acc[p]);
    }
  }
}

// Any stride and number of taps: no source vector is shared. Pointers step along the taps, and the
// distances of outputs from each other stay in registers.
template <int64_t kPart, Coverage kCoverage, class D, class T, class V>
HWY_INLINE void StepForward(D d, const TileSource<T>& source, int64_t stride, int64_t num_taps,
                            const T* filter, int64_t filter_stride, V (&acc)[kTile]) {
  const int64_t step = stride * source.stride;
  const T* at = source.first;
  for (int64_t k = 0; k < num_taps; ++k, at += source.stride, filter += filter_stride) {
    const V weight = LoadPart<kPart>(d, filter);
#pragma GCC unroll 8
    for (int64_t p = 0; p < kTile; ++p) {
      if (!source.template Has<kCoverage>(p * stride + k)) continue;
      acc[p] = Fma(LoadPart<kPart>(d, at + p * step), weight, acc[p]);
    }
  }
}

// One segment into the accumulators of one part. kStride 0: row.stride, whatever it is. kApart:
// tiles of whole columns have code of their own.
template <int64_t kStride, int64_t kPart, bool kApart, class D, class T, class V>
HWY_INLINE void AddSegment(D d, const DepthwiseForwardRow<T>& row,
                           const DepthwiseSegment<T>& segment, int64_t first_out, int64_t channel,
                           V (&acc)[kTile]) {
  const int64_t stride = kStride == 0 ? row.stride : kStride;
  const int64_t first_col = segment.origin + first_out * stride;
  const int64_t end_col = first_col + TileSpan(segment.num_taps, stride);
  if (end_col <= 0 || first_col >= row.num_cols) return;
  const TileSource<T> source =
      SourceOf(segment.source + channel, first_col, row.source_stride, row.num_cols);
  const T* filter = segment.filter + channel;
  const bool checked = !kApart || first_col < 0 || end_col > row.num_cols;
  if constexpr (kStride == 0) {
    if (checked) {
      StepForward<kPart, Coverage::kAny>(d, source, stride, segment.num_taps, filter,
                                         row.filter_stride, acc);
    } else {
      StepForward<kPart, Coverage::kWhole>(d, source, stride, segment.num_taps, filter,
                                           row.filter_stride, acc);
    }
  } else if (checked) {
    WithTaps(segment.num_taps, [&](auto taps) HWY_ATTR {
      SlideForward<taps(), kStride, kPart, Coverage::kAny>(d, source, filter, row.filter_stride,
                                                           acc);
    });
  } else {
    WithTaps(segment.num_taps, [&](auto taps) HWY_ATTR {
      SlideForward<taps(), kStride, kPart, Coverage::kWhole>(d, source, filter, row.filter_stride,
                                                             acc);
    });
  }
}

// The sums of one tile, one part of a group of channels, one block; add(d, segment, acc) adds one
// segment. No folding, but -0 becomes +0 as it would.
template <class D, class T, class V, class Add, size_t kOutputs>
HWY_INLINE void SumOneBlock(D d, const DepthwiseForwardRow<T>& row, const Add& add,
                            V (&sums)[kOutputs]) {
  V acc[kOutputs];
#pragma GCC unroll 8
  for (size_t p = 0; p < kOutputs; ++p) acc[p] = hn::Zero(d);
  const DepthwiseSegment<T>* const end = row.segments + row.block_ends[0];
  for (const DepthwiseSegment<T>* segment = row.segments; segment != end; ++segment) {
    add(d, *segment, acc);
  }
#pragma GCC unroll 8
  for (size_t p = 0; p < kOutputs; ++p) sums[p] = EndedSum<T>(d, acc[p]);
}

// Adds segments of any kind. (A closure would not always be inlined, and keep sums in memory.)
template <int64_t kStride, int64_t kPart, class T>
struct AddAnySegment {
  const DepthwiseForwardRow<T>& row;
  int64_t first_out, channel;

  template <class D, class V>
  HWY_INLINE void operator()(D d, const DepthwiseSegment<T>& segment, V (&acc)[kTile]) const {
    AddSegment<kStride, kPart, true>(d, row, segment, first_out, channel, acc);
  }
};

// Adds segments of kTaps taps whose first column is first_col; `tile` says which of the tile's
// columns are there.
template <int64_t kTaps, int64_t kStride, int64_t kPart, Coverage kCoverage, class T>
struct AddAlikeSegment {
  const DepthwiseForwardRow<T>& row;
  const TileSource<T>& tile;
  int64_t first_col, channel;

  template <class D, class V, size_t kOutputs>
  HWY_INLINE void operator()(D d, const DepthwiseSegment<T>& segment, V (&acc)[kOutputs]) const {
    TileSource<T> source = tile;
    source.first = segment.source + first_col * row.source_stride + channel;
    SlideForward<kTaps, kStride, kPart, kCoverage>(d, source, segment.filter + channel,
                                                   row.filter_stride, acc);
  }
};

// Whole tiles of more taps are not taken so: with 512 bits their arithmetic takes longer than
// finding segments, and 5x5 and 7x7 filters get up to a tenth slower.
template <int64_t kTileSize>
inline constexpr int64_t kMostAlikeTaps =
    HWY_TARGET == HWY_AVX3&& kTileSize == kTile ? 3 : kMaxSegmentTaps;

// One group of channels of a tile.
template <int64_t kStride, class D, class T>
HWY_INLINE void ForwardOneBlock(D d, const DepthwiseForwardRow<T>& row, int64_t first_out,
                                int64_t channel, TileLines<T>& lines) {
  hn::Vec<D> sums[kGroupParts<T>][kTile];
  SumOneBlock(d, row, AddAnySegment<kStride, 0, T>{row, first_out, channel}, sums[0]);
  if constexpr (kGroupParts<T> == 2) {
    SumOneBlock(d, row, AddAnySegment<kStride, 1, T>{row, first_out, channel}, sums[1]);
  }
  StoreTile(d, row, first_out, channel, sums, lines);
}

// A tile of one block whose segments are alike: nothing of them but addresses is left to be
// found for every group of channels, which else is as much as the arithmetic of short chains.
template <int64_t kTileSize, int64_t kTaps, int64_t kStride, Coverage kCoverage, class T>
HWY_NOINLINE void ForwardAlikeTile(const DepthwiseForwardRow<T>& row, int64_t first_out,
                                   ChannelRange channels) {
  const hn::ScalableTag<ComputeType<T> > d;
  constexpr int64_t kSize = kGroupSize<T>;
  alignas(kResultLine) TileLines<T> lines;
  const int64_t first_col = row.segments[0].origin + first_out * kStride;
  const TileSource<T> tile = {nullptr, row.source_stride, -first_col, row.num_cols - first_col};
  for (int64_t slot = channels.begin; slot < channels.end; slot += kSize) {
    const int64_t channel = FirstChannel(slot / kSize, kSize, row.channels);
    FetchNext(row.next, first_out * kStride, kTileSize * kStride, row.source_stride, channel);
    hn::Vec<decltype(d)> sums[kGroupParts<T>][kTileSize];
    SumOneBlock(d, row,
                AddAlikeSegment<kTaps, kStride, 0, kCoverage, T>{row, tile, first_col, channel},
                sums[0]);
    if constexpr (kGroupParts<T> == 2) {
      SumOneBlock(d, row,
                  AddAlikeSegment<kTaps, kStride, 1, kCoverage, T>{row, tile, first_col, channel},
                  sums[1]);
    }
    StoreTile(d, row, first_out, channel, sums, lines);
  }
}

// The first of a tile's outputs, which are from `out` on; the last tile ends with the row, and what
// it shares with the one before it is computed twice.
constexpr int64_t FirstOfTile(int64_t tile, int64_t out, int64_t count) {
  return HWY_MAX(int64_t{0}, HWY_MIN(out, count - tile));
}

// The tile from `out` on if it is such a one; else false.
template <int64_t kTileSize, int64_t kStride, class T>
bool TakeAlikeTile(const DepthwiseForwardRow<T>& row, int64_t num_taps, int64_t out,
                   ChannelRange channels) {
  const int64_t first_out = FirstOfTile(kTileSize, out, row.count);
  const int64_t first_col = row.segments[0].origin + first_out * kStride;
  const int64_t span = TileSpan(num_taps, kStride, 1, kTileSize);
  const Coverage coverage = CoverageOf(first_col, span, row.num_cols);
  constexpr int64_t kMost = kMostAlikeTaps<kTileSize>;
  if (coverage == Coverage::kAny || num_taps > kMost) return false;
  WithTaps(num_taps, [&](auto taps) HWY_ATTR {
    if constexpr (taps() <= kMost) {
      if constexpr (HasWholeTiles(taps(), kStride)) {
        if (coverage == Coverage::kWhole) {
          return ForwardAlikeTile<kTileSize, taps(), kStride, Coverage::kWhole>(row, first_out,
                                                                                channels);
        }
      }
      ForwardAlikeTile<kTileSize, taps(), kStride, Coverage::kEnds>(row, first_out, channels);
    }
  });
  return true;
}

// Any number of blocks, one group of channels. All tiles find out for every column whether it is on
// the row.
template <int64_t kStride, class D, class T>
HWY_NOINLINE void ForwardManyBlocks(D d, const DepthwiseForwardRow<T>& row, int64_t first_out,
                                    int64_t channel) {
  using V = hn::Vec<D>;
  constexpr int64_t kLanes = hn::MaxLanes(d);
  alignas(64) double sum[kTile * kLanes] = {};
  alignas(64) double error[kTile * kLanes] = {};
  int64_t at = 0;
  for (int64_t block = 0; block < row.num_blocks; ++block) {
    V acc[kTile];
#pragma GCC unroll 8
    for (int64_t p = 0; p < kTile; ++p) acc[p] = hn::Zero(d);
    for (; at < row.block_ends[block]; ++at) {
      AddSegment<kStride, 0, false>(d, row, row.segments[at], first_out, channel, acc);
    }
#pragma GCC unroll 8
    for (int64_t p = 0; p < kTile; ++p) FoldBlock(d, acc[p], sum + p * kLanes, error + p * kLanes);
  }
  T* out = row.out + first_out * row.out_stride + channel;
  for (int64_t p = 0; p < HWY_MIN(kTile, row.count - first_out); ++p) {
    const V result = FoldResult(d, sum + p * kLanes, error + p * kLanes, row.round_to_odd);
    StoreUpTo(d, result, out + p * row.out_stride, row.channels);
  }
}

template <int64_t kStride, class T>
HWY_NOINLINE void ForwardTile(const DepthwiseForwardRow<T>& row, int64_t first_out,
                              ChannelRange channels) {
  const hn::ScalableTag<ComputeType<T> > d;
  constexpr int64_t kSize = kGroupSize<T>;
  alignas(kResultLine) TileLines<T> lines;
  for (int64_t slot = channels.begin; slot < channels.end; slot += kSize) {
    const int64_t channel = FirstChannel(slot / kSize, kSize, row.channels);
    FetchNext(row.next, first_out * row.stride, kTile * row.stride, row.source_stride, channel);
    if constexpr (kInStorage<T>) {
      ForwardOneBlock<kStride>(d, row, first_out, channel, lines);
    } else if (row.num_blocks == 1) {
      ForwardOneBlock<kStride>(d, row, first_out, channel, lines);
    } else {
      ForwardManyBlocks<kStride>(d, row, first_out, channel);
    }
  }
}

// Channels of a row of results that are taken from its first tile to its last before the next ones:
// of 3x3 filters all, in the order in which they lie, unless one tile's fill the first cache, so
// that nothing that tiles share stays there. Of pixels that share its sets nothing would anyway,
// and arithmetic with vectors narrower than a line takes longer than the second cache does.
template <class T>
int64_t ChannelsOfTiles(const DepthwiseForwardRow<T>& row, int64_t taps) {
  constexpr int64_t kBytes = sizeof(T), kLine = LinesAhead::kLineBytes;
  constexpr int64_t kPart = 4 * kLine, kFirstCache = 32 << 10, kSetsApart = 4096;
  if (taps != 3) return ChannelsTogether<T>(taps, row.channels);
  const int64_t numbers = row.block_ends[0] * (TileSpan(taps, row.stride) + taps) + kTile;
  const bool parts = numbers * row.channels * kBytes > kFirstCache &&
                     row.source_stride * kBytes % kSetsApart != 0 &&
                     kGroupSize<T> * kBytes >= kLine;
  return parts ? kPart / kBytes : row.channels;
}

template <int64_t kStride, class T>
void ForwardTiles(const DepthwiseForwardRow<T>& row) {
  const int64_t taps = row.num_blocks == 1 ? TapsIfAlike(row.segments, row.block_ends[0]) : 0;
  const int64_t step = ChannelsOfTiles(row, taps);
  for (int64_t begin = 0; begin < row.channels; begin += step) {
    const ChannelRange channels = {begin, HWY_MIN(begin + step, row.channels)};
    for (int64_t out = 0; out < row.count; out += kTile) {
      if constexpr (kStride > 0) {
        const bool few = row.count - out <= kHalfTile;
        if (taps > 0 && (few ? TakeAlikeTile<kHalfTile, kStride>(row, taps, out, channels)
                             : TakeAlikeTile<kTile, kStride>(row, taps, out, channels))) {
          continue;
        }
      }
      ForwardTile<kStride>(row, FirstOfTile(kTile, out, row.count), channels);
    }
  }
}

template <class T>
void DepthwiseForward(const DepthwiseForwardRow<T>& row) {
  if constexpr (kSlide) {
    if (row.stride == 1) return ForwardTiles<1>(row);
    if (row.stride == 2) return ForwardTiles<2>(row);
    if (row.stride == 3) return ForwardTiles<3>(row);
  }
  ForwardTiles<0>(row);
}

inline void FillDepthwiseForward(KernelTable& table) {
  table.depthwise_rows_f16.forward = DepthwiseForward<Float16>;
  table.depthwise_rows_bf16.forward = DepthwiseForward<BFloat16>;
  table.depthwise_rows_f32.forward = DepthwiseForward<float>;
  table.depthwise_rows_f64.forward = DepthwiseForward<double>;
}

}  // namespace HWY_NAMESPACE
}  // namespace convgrad
HWY_AFTER_NAMESPACE();

#endif  // toggle
