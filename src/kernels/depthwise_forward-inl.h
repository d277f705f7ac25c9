// The depthwise forward kernel; see depthwise.h. Included once per target.
//
// A tile is kTile consecutive outputs of a row; its loop over channels is inside it, so that every
// line of the tensors is read in memory order. Inside a tile each source vector is loaded once for
// all taps that read it (walking columns), and a column off the row is skipped by a uniform branch:
// padding never enters a sum. Registers for the largest segment: 7 outputs, 7 taps, 1 source: 15,
// what AVX2 has.
#if defined(CONVGRAD_KERNELS_DEPTHWISE_FORWARD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CONVGRAD_KERNELS_DEPTHWISE_FORWARD_INL_H_
#undef CONVGRAD_KERNELS_DEPTHWISE_FORWARD_INL_H_
#else
#define CONVGRAD_KERNELS_DEPTHWISE_FORWARD_INL_H_
#endif

#include <algorithm>

#include "kernels/depthwise_tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace convgrad {
namespace HWY_NAMESPACE {

template <int64_t kTaps, int64_t kStride, int64_t kPart, bool kChecked, class D, class T, class V>
HWY_INLINE void SlideForward(D d, const TileSource<T>& source, const T* filter,
                             int64_t filter_stride, V (&acc)[kTile]) {
  V weights[kTaps];
#pragma GCC unroll 8
  for (int64_t k = 0; k < kTaps; ++k) weights[k] = LoadPart<kPart>(d, filter + k * filter_stride);
  const T* at = source.first;
  constexpr int64_t kSpan = TileSpan(kTaps, kStride);
#pragma GCC unroll 32
  for (int64_t col = 0; col < kSpan; ++col, at += source.stride) {
    if (!source.template Has<kChecked>(col)) continue;
    const V x = InRegister<kTaps>(LoadPart<kPart>(d, at));
#pragma GCC unroll 8
    for (int64_t p = 0; p < kTile; ++p) {
      const int64_t k = col - p * kStride;
      if (k >= 0 && k < kTaps) acc[p] = Fma(x, weights[k], acc[p]);
    }
  }
}

// Any stride and number of taps: no source vector is shared.
template <int64_t kPart, bool kChecked, class D, class T, class V>
HWY_INLINE void StepForward(D d, const TileSource<T>& source, int64_t stride, int64_t num_taps,
                            const T* filter, int64_t filter_stride, V (&acc)[kTile]) {
  for (int64_t k = 0; k < num_taps; ++k) {
    const V weight = LoadPart<kPart>(d, filter + k * filter_stride);
#pragma GCC unroll 8
    for (int64_t p = 0; p < kTile; ++p) {
      const int64_t col = p * stride + k;
      if (source.template Has<kChecked>(col)) {
        acc[p] = Fma(LoadPart<kPart>(d, source.first + col * source.stride), weight, acc[p]);
      }
    }
  }
}

// One segment into the accumulators of one part. kStride 0: row.stride, whatever it is.
template <int64_t kStride, int64_t kPart, class D, class T, class V>
HWY_INLINE void AddSegment(D d, const DepthwiseForwardRow<T>& row,
                           const DepthwiseSegment<T>& segment, int64_t first_out, int64_t channel,
                           V (&acc)[kTile]) {
  const int64_t stride = kStride == 0 ? row.stride : kStride;
  const int64_t first_col = segment.origin + first_out * stride;
  const int64_t end_col = first_col + TileSpan(segment.num_taps, stride);
  if (end_col <= 0 || first_col >= row.num_cols) return;
  const TileSource<T> source = {segment.source + first_col * row.source_stride + channel,
                                row.source_stride, first_col, row.num_cols};
  const T* filter = segment.filter + channel;
  const bool checked = first_col < 0 || end_col > row.num_cols;
  if constexpr (kStride == 0) {
    if (checked) {
      StepForward<kPart, true>(d, source, stride, segment.num_taps, filter, row.filter_stride, acc);
    } else {
      StepForward<kPart, false>(d, source, stride, segment.num_taps, filter, row.filter_stride,
                                acc);
    }
  } else if (checked) {
    WithTaps(segment.num_taps, [&](auto taps) HWY_ATTR {
      SlideForward<taps(), kStride, kPart, true>(d, source, filter, row.filter_stride, acc);
    });
  } else {
    WithTaps(segment.num_taps, [&](auto taps) HWY_ATTR {
      SlideForward<taps(), kStride, kPart, false>(d, source, filter, row.filter_stride, acc);
    });
  }
}

template <class D, class T>
HWY_INLINE void StoreChannels(D d, hn::Vec<D> value, T* to, int64_t channels) {
  if (channels >= static_cast<int64_t>(hn::MaxLanes(d))) {
    hn::StoreU(value, d, to);
  } else {
    hn::BlendedStore(value, hn::FirstN(d, static_cast<size_t>(channels)), d, to);
  }
}

// One tile, one part of a group of channels, one block: no folding, but -0 becomes +0 as it would.
template <int64_t kStride, int64_t kPart, class D, class T, class V>
HWY_INLINE void SumOneBlock(D d, const DepthwiseForwardRow<T>& row, int64_t first_out,
                            int64_t channel, V (&sums)[kTile]) {
  V acc[kTile];
#pragma GCC unroll 8
  for (int64_t p = 0; p < kTile; ++p) acc[p] = hn::Zero(d);
  const DepthwiseSegment<T>* const end = row.segments + row.block_ends[0];
  for (const DepthwiseSegment<T>* segment = row.segments; segment != end; ++segment) {
    AddSegment<kStride, kPart>(d, row, *segment, first_out, channel, acc);
  }
#pragma GCC unroll 8
  for (int64_t p = 0; p < kTile; ++p) sums[p] = hn::Add(acc[p], hn::Zero(d));
}

inline constexpr size_t kResultLine = 64;

// Lines of a tile's results that are put together from several groups of channels.
template <class T>
using TileLines = T[kTile][kResultLine / sizeof(T)];

template <class T>
HWY_INLINE void StreamLine(const T* line, T* to) {
#if HWY_TARGET == HWY_SCALAR
  std::copy_n(line, kResultLine / sizeof(T), to);
#else
  const hn::ScalableTag<uint8_t> d;
  const auto* from = reinterpret_cast<const uint8_t*>(line);
#pragma GCC unroll 4
  for (size_t i = 0; i < kResultLine; i += hn::MaxLanes(d)) {
    hn::Stream(hn::Load(d, from + i), d, reinterpret_cast<uint8_t*>(to) + i);
  }
#endif
}

template <class D, class T>
HWY_INLINE void StoreSums(D d, hn::Vec<D> first, hn::Vec<D> last, T* to, int64_t channels) {
  if constexpr (kInStorage<T>) {
    StoreParts(d, first, last, to);
  } else {
    StoreChannels(d, CanonicalNaN(d, first), to, channels);
  }
}

template <int64_t kStride, class D, class T>
HWY_INLINE void ForwardOneBlock(D d, const DepthwiseForwardRow<T>& row, int64_t first_out,
                                int64_t channel, TileLines<T>& lines) {
  using V = hn::Vec<D>;
  constexpr int64_t kParts = kGroupParts<T>;
  V sums[kParts][kTile];
  SumOneBlock<kStride, 0>(d, row, first_out, channel, sums[0]);
  if constexpr (kParts == 2) SumOneBlock<kStride, 1>(d, row, first_out, channel, sums[1]);
  T* out = row.out + first_out * row.out_stride + channel;
  if (row.stream) {
    constexpr int64_t kNumbers = kResultLine / sizeof(T);
    const int64_t count = HWY_MIN(kTile, row.count - first_out), at = channel % kNumbers;
    if constexpr (kGroupSize<T> == kNumbers) {
#pragma GCC unroll 8
      for (int64_t p = 0; p < kTile; ++p) {
        if (p >= count) continue;
        StreamParts(d, sums[0][p], sums[kParts - 1][p], out + p * row.out_stride);
      }
      return;
    }
#pragma GCC unroll 8
    for (int64_t p = 0; p < kTile; ++p) {
      StoreSums(d, sums[0][p], sums[kParts - 1][p], lines[p] + at, row.channels);
    }
    if (at + kGroupSize<T> < kNumbers) return;
    for (int64_t p = 0; p < count; ++p) StreamLine(lines[p], out + p * row.out_stride - at);
    return;
  }
#pragma GCC unroll 8
  for (int64_t p = 0; p < kTile; ++p) {
    if (first_out + p >= row.count) continue;
    StoreSums(d, sums[0][p], sums[kParts - 1][p], out + p * row.out_stride, row.channels);
  }
}

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
      AddSegment<kStride, 0>(d, row, row.segments[at], first_out, channel, acc);
    }
#pragma GCC unroll 8
    for (int64_t p = 0; p < kTile; ++p) FoldBlock(d, acc[p], sum + p * kLanes, error + p * kLanes);
  }
  T* out = row.out + first_out * row.out_stride + channel;
  for (int64_t p = 0; p < HWY_MIN(kTile, row.count - first_out); ++p) {
    const double* s = sum + p * kLanes;
    const double* e = error + p * kLanes;
    const V result = row.round_to_odd ? FoldResult<Finish::kOdd>(d, s, e)
                                      : FoldResult<Finish::kNearest>(d, s, e);
    StoreChannels(d, result, out + p * row.out_stride, row.channels);
  }
}

template <int64_t kStride, class T>
void ForwardTiles(const DepthwiseForwardRow<T>& row) {
  const hn::ScalableTag<ComputeType<T> > d;
  constexpr int64_t kSize = kGroupSize<T>;
  alignas(kResultLine) TileLines<T> lines;
  for (int64_t out = 0; out < row.count; out += kTile) {
    // The last tile ends with the row; what it shares with the one before it is computed twice.
    const int64_t first_out = HWY_MAX(int64_t{0}, HWY_MIN(out, row.count - kTile));
    for (int64_t v = 0; v * kSize < row.channels; ++v) {
      const int64_t channel = FirstChannel(v, kSize, row.channels);
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
}

template <class T>
void DepthwiseForward(const DepthwiseForwardRow<T>& row) {
  if constexpr (kSlide) {
    if (row.stride == 1) return ForwardTiles<1>(row);
    if (row.stride == 2) return ForwardTiles<2>(row);
  }
  ForwardTiles<0>(row);
}

}  // namespace HWY_NAMESPACE
}  // namespace convgrad
HWY_AFTER_NAMESPACE();

#endif  // toggle
