// Depthwise kernels; see depthwise.h. Included once per target.
//
// A tile is kTile consecutive outputs of a row; its loop over channels is inside it, so that every
// line of the tensors is read in memory order. Inside a tile each source vector is loaded once for
// all taps that read it (walking columns), and a column off the row is skipped by a uniform branch:
// padding never enters a sum. Registers for the largest segment: 7 outputs, 7 taps, 1 source: 15,
// what AVX2 has.
#if defined(CONVGRAD_KERNELS_DEPTHWISE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CONVGRAD_KERNELS_DEPTHWISE_INL_H_
#undef CONVGRAD_KERNELS_DEPTHWISE_INL_H_
#else
#define CONVGRAD_KERNELS_DEPTHWISE_INL_H_
#endif

#include <type_traits>

#include "kernels/convert-inl.h"
#include "kernels/kernel_table.h"
#include "kernels/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace convgrad {
namespace HWY_NAMESPACE {

inline constexpr int64_t kTile = 7;

// Loading a source once for all its taps takes code for every number of them. The scalar target,
// which calls a function for each multiply-add, has nothing to gain.
inline constexpr bool kSlide = HWY_TARGET != HWY_SCALAR;

// True where numbers are widened as they are loaded.
template <class T>
inline constexpr bool kInStorage = !std::is_same_v<T, ComputeType<T> >;

// Columns a tile reads with one segment.
constexpr int64_t TileSpan(int64_t num_taps, int64_t stride) {
  return (kTile - 1) * stride + num_taps;
}

// Where one segment of one tile reads, for one vector of channels.
template <class T>
struct TileSource {
  const T* first;     // column first_col; only columns on the row are read
  int64_t stride;     // between columns, in elements
  int64_t first_col;  // of the tile's first output and tap
  int64_t num_cols;

  template <bool kChecked>
  HWY_INLINE bool Has(int64_t col) const {
    return !kChecked || static_cast<uint64_t>(first_col + col) < static_cast<uint64_t>(num_cols);
  }
};

// Calls body(taps as a constant) for 1 to kMaxSegmentTaps taps.
template <class Body>
HWY_INLINE void WithTaps(int64_t num_taps, const Body& body) {
  switch (num_taps) {
    case 1: return body(std::integral_constant<int64_t, 1>());
    case 2: return body(std::integral_constant<int64_t, 2>());
    case 3: return body(std::integral_constant<int64_t, 3>());
    case 4: return body(std::integral_constant<int64_t, 4>());
    case 5: return body(std::integral_constant<int64_t, 5>());
    case 6: return body(std::integral_constant<int64_t, 6>());
    case 7: return body(std::integral_constant<int64_t, 7>());
    default: __builtin_unreachable();  // a segment has 1 to kMaxSegmentTaps taps
  }
}

// Fetches, for one vector of channels, `count` columns from first_col on of the rows to come.
template <class T>
HWY_INLINE void FetchNext(const DepthwiseNextRows<T>& next, int64_t first_col, int64_t count,
                          int64_t stride, int64_t channel) {
  for (int64_t i = 0; i < next.count; ++i) {
    const T* at = next.rows[i] + first_col * stride + channel;
    for (int64_t col = 0; col < count; ++col, at += stride) __builtin_prefetch(at, 0, 2);
  }
}

// Forward.

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
    const V x = LoadPart<kPart>(d, at);
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

template <int64_t kStride, class D, class T>
HWY_INLINE void ForwardOneBlock(D d, const DepthwiseForwardRow<T>& row, int64_t first_out,
                                int64_t channel) {
  using V = hn::Vec<D>;
  constexpr int64_t kParts = kGroupParts<T>;
  V sums[kParts][kTile];
  SumOneBlock<kStride, 0>(d, row, first_out, channel, sums[0]);
  if constexpr (kParts == 2) SumOneBlock<kStride, 1>(d, row, first_out, channel, sums[1]);
  T* out = row.out + first_out * row.out_stride + channel;
#pragma GCC unroll 8
  for (int64_t p = 0; p < kTile; ++p) {
    if (first_out + p >= row.count) continue;
    if constexpr (kInStorage<T>) {
      StoreParts(d, sums[0][p], sums[kParts - 1][p], out + p * row.out_stride);
    } else {
      StoreChannels(d, CanonicalNaN(d, sums[0][p]), out + p * row.out_stride, row.channels);
    }
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

// The first channel of vector v. The last vector ends with the last channel and may share some with
// the one before it.
constexpr int64_t FirstChannel(int64_t v, int64_t lanes, int64_t channels) {
  return HWY_MAX(int64_t{0}, HWY_MIN(v * lanes, channels - lanes));
}

template <int64_t kStride, class T>
void ForwardTiles(const DepthwiseForwardRow<T>& row) {
  const hn::ScalableTag<ComputeType<T> > d;
  constexpr int64_t kSize = kGroupSize<T>;
  for (int64_t out = 0; out < row.count; out += kTile) {
    // The last tile ends with the row; what it shares with the one before it is computed twice.
    const int64_t first_out = HWY_MAX(int64_t{0}, HWY_MIN(out, row.count - kTile));
    for (int64_t v = 0; v * kSize < row.channels; ++v) {
      const int64_t channel = FirstChannel(v, kSize, row.channels);
      FetchNext(row.next, first_out * row.stride, kTile * row.stride, row.source_stride, channel);
      if constexpr (kInStorage<T>) {
        ForwardOneBlock<kStride>(d, row, first_out, channel);
      } else if (row.num_blocks == 1) {
        ForwardOneBlock<kStride>(d, row, first_out, channel);
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

// Filter gradient.

template <int64_t kTaps, int64_t kStride, int64_t kPart, bool kChecked, class D, class T, class V>
HWY_INLINE void SlideGradient(D d, const TileSource<T>& source, const V (&g)[kTile],
                              ComputeType<T>* sums, int64_t sums_stride) {
  V acc[kTaps];
#pragma GCC unroll 8
  for (int64_t k = 0; k < kTaps; ++k) acc[k] = hn::LoadU(d, sums + k * sums_stride);
  const T* at = source.first;
  constexpr int64_t kSpan = TileSpan(kTaps, kStride);
#pragma GCC unroll 32
  for (int64_t col = 0; col < kSpan; ++col, at += source.stride) {
    if (!source.template Has<kChecked>(col)) continue;
    const V x = LoadPart<kPart>(d, at);
#pragma GCC unroll 8
    for (int64_t k = 0; k < kTaps; ++k) {
      const int64_t p = (col - k) / kStride;
      if (col - k == p * kStride && col >= k && p < kTile) acc[k] = Fma(x, g[p], acc[k]);
    }
  }
#pragma GCC unroll 8
  for (int64_t k = 0; k < kTaps; ++k) hn::StoreU(acc[k], d, sums + k * sums_stride);
}

// Any stride, dilation and number of outputs.
template <int64_t kTaps, int64_t kPart, bool kChecked, class D, class T>
HWY_INLINE void StepGradient(D d, const TileSource<T>& source, const T* out_backprop, int64_t count,
                             const DepthwiseGradientRow<T>& row, ComputeType<T>* sums) {
  using V = hn::Vec<D>;
  V acc[kTaps];
#pragma GCC unroll 8
  for (int64_t k = 0; k < kTaps; ++k) acc[k] = hn::LoadU(d, sums + k * row.sums_stride);
  for (int64_t p = 0; p < count; ++p) {
    const V g = LoadPart<kPart>(d, out_backprop + p * row.out_backprop_stride);
#pragma GCC unroll 8
    for (int64_t k = 0; k < kTaps; ++k) {
      const int64_t col = p * row.stride + k * row.dilation;
      if (source.template Has<kChecked>(col)) {
        acc[k] = Fma(LoadPart<kPart>(d, source.first + col * source.stride), g, acc[k]);
      }
    }
  }
#pragma GCC unroll 8
  for (int64_t k = 0; k < kTaps; ++k) hn::StoreU(acc[k], d, sums + k * row.sums_stride);
}

// `count` outputs from first_out on, one part of a group of channels, whose sums are at `slot`;
// kStride 1 and 2 take whole tiles only.
template <int64_t kStride, int64_t kPart, class D, class T>
HWY_INLINE void GradientOfOutputs(D d, const DepthwiseGradientRow<T>& row, int64_t first_out,
                                  int64_t count, int64_t channel, int64_t slot) {
  using V = hn::Vec<D>;
  const T* out_backprop = row.out_backprop + first_out * row.out_backprop_stride + channel;
  [[maybe_unused]] V g[kTile];
  if constexpr (kStride != 0) {
#pragma GCC unroll 8
    for (int64_t p = 0; p < kTile; ++p)
      g[p] = LoadPart<kPart>(d, out_backprop + p * row.out_backprop_stride);
  }
  for (int64_t i = 0; i < row.num_segments; ++i) {
    const DepthwiseSegment<T>& segment = row.segments[i];
    const int64_t first_col = segment.origin + first_out * row.stride;
    const int64_t end_col =
        first_col + (count - 1) * row.stride + (segment.num_taps - 1) * row.dilation + 1;
    if (end_col <= 0 || first_col >= row.num_cols) continue;
    const TileSource<T> source = {segment.source + first_col * row.source_stride + channel,
                                  row.source_stride, first_col, row.num_cols};
    ComputeType<T>* sums = segment.sums + slot;
    const bool checked = first_col < 0 || end_col > row.num_cols;
    WithTaps(segment.num_taps, [&](auto taps) HWY_ATTR {
      if constexpr (kStride == 0) {
        if (checked) {
          StepGradient<taps(), kPart, true>(d, source, out_backprop, count, row, sums);
        } else {
          StepGradient<taps(), kPart, false>(d, source, out_backprop, count, row, sums);
        }
      } else if (checked) {
        SlideGradient<taps(), kStride, kPart, true>(d, source, g, sums, row.sums_stride);
      } else {
        SlideGradient<taps(), kStride, kPart, false>(d, source, g, sums, row.sums_stride);
      }
    });
  }
}

template <int64_t kStride, class T>
HWY_NOINLINE void GradientTile(const DepthwiseGradientRow<T>& row, int64_t first_out,
                               int64_t count) {
  const hn::ScalableTag<ComputeType<T> > d;
  constexpr int64_t kSize = kGroupSize<T>;
  for (int64_t slot = 0; slot < row.channels; slot += kSize) {
    const int64_t channel = FirstChannel(slot / kSize, kSize, row.channels);
    FetchNext(row.next, first_out * row.stride, count * row.stride, row.source_stride, channel);
    FetchNext(row.next_out_backprop, first_out, count, row.out_backprop_stride, channel);
    GradientOfOutputs<kStride, 0>(d, row, first_out, count, channel, slot);
    if constexpr (kGroupParts<T> == 2) {
      GradientOfOutputs<kStride, 1>(d, row, first_out, count, channel, slot + kSize / 2);
    }
  }
}

template <class T>
void DepthwiseGradient(const DepthwiseGradientRow<T>& row) {
  for (int64_t out = 0; out < row.count; out += kTile) {
    const int64_t count = HWY_MIN(kTile, row.count - out);
    if constexpr (kSlide) {
      const bool whole = count == kTile && row.dilation == 1;
      if (whole && row.stride == 1) {
        GradientTile<1>(row, out, count);
        continue;
      }
      if (whole && row.stride == 2) {
        GradientTile<2>(row, out, count);
        continue;
      }
    }
    GradientTile<0>(row, out, count);
  }
}

// Multipliers.

#if HWY_TARGET == HWY_SCALAR
template <class T>
int64_t RepeatVectors(const T*, T*, int64_t, int64_t) {
  return 0;
}
template <class T>
int64_t PartPairs(const T*, T*, int64_t) {
  return 0;
}
#else
// DepthwiseRepeat of whole vectors of numbers; how many numbers they hold. A vector of numbers
// becomes `multiplier` vectors, lane l of the r-th of them number (r * lanes + l) / multiplier.
template <class T>
int64_t RepeatVectors(const T* from, T* to, int64_t count, int64_t multiplier) {
  const hn::ScalableTag<T> d;
  using Index = hn::TFromD<hn::RebindToSigned<decltype(d)> >;
  constexpr int64_t kLanes = hn::MaxLanes(d);
  const int64_t num_vectors = count / kLanes;
  for (int64_t r = 0; r < multiplier; ++r) {
    Index number[kLanes];
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      number[lane] = static_cast<Index>((r * kLanes + lane) / multiplier);
    }
    const auto table = hn::SetTableIndices(d, number);
    for (int64_t v = 0; v < num_vectors; ++v) {
      hn::StoreU(hn::TableLookupLanes(hn::LoadU(d, from + v * kLanes), table), d,
                 to + (v * multiplier + r) * kLanes);
    }
  }
  return num_vectors * kLanes;
}

// DepthwisePart of one pixel with multiplier 2, whole vectors; how many channels they hold.
template <class T>
int64_t PartPairs(const T* from, T* to, int64_t channels) {
  const hn::ScalableTag<T> d;
  constexpr int64_t kLanes = hn::MaxLanes(d);
  int64_t c = 0;
  for (; c + kLanes <= channels; c += kLanes) {
    const auto low = hn::LoadU(d, from + 2 * c), high = hn::LoadU(d, from + 2 * c + kLanes);
    hn::StoreU(hn::ConcatEven(d, high, low), d, to + c);
    hn::StoreU(hn::ConcatOdd(d, high, low), d, to + channels + c);
  }
  return c;
}
#endif

template <class T>
void DepthwiseRepeat(const T* from, T* to, int64_t count, int64_t multiplier) {
  for (int64_t i = RepeatVectors(from, to, count, multiplier); i < count; ++i) {
    for (int64_t m = 0; m < multiplier; ++m) to[i * multiplier + m] = from[i];
  }
}

template <class T>
void DepthwisePart(const T* from, T* to, int64_t pixels, int64_t channels, int64_t multiplier) {
  for (int64_t pixel = 0; pixel < pixels; ++pixel) {
    for (int64_t c = multiplier == 2 ? PartPairs(from, to, channels) : 0; c < channels; ++c) {
      for (int64_t m = 0; m < multiplier; ++m) to[m * channels + c] = from[c * multiplier + m];
    }
    from += channels * multiplier;
    to += channels * multiplier;
  }
}

// Folding.

template <class T>
void DepthwiseFoldBlock(T* sums, double* sum, double* error, int64_t count) {
  const hn::ScalableTag<T> d;
  for (int64_t i = 0; i < count; i += static_cast<int64_t>(hn::MaxLanes(d))) {
    FoldBlock(d, hn::LoadU(d, sums + i), sum + i, error + i);
    hn::StoreU(hn::Zero(d), d, sums + i);
  }
}

template <class T>
void DepthwiseFoldRun(const double* run_sum, const double* run_error, double* sum, double* error,
                      int64_t count) {
  const hn::ScalableTag<double> d;
  for (int64_t i = 0; i < count; i += static_cast<int64_t>(hn::MaxLanes(d))) {
    const auto term = hn::LoadU(d, run_sum + i);
    if constexpr (sizeof(T) == 8) {
      AddCompensated(d, term, sum + i, error + i);
      hn::StoreU(hn::Add(hn::LoadU(d, error + i), hn::LoadU(d, run_error + i)), d, error + i);
    } else {
      hn::StoreU(hn::Add(hn::LoadU(d, sum + i), term), d, sum + i);
    }
  }
}

template <class T>
void DepthwiseFinish(const double* sum, const double* error, T* to, int64_t count,
                     bool round_to_odd) {
  const hn::ScalableTag<T> d;
  for (int64_t i = 0; i < count; i += static_cast<int64_t>(hn::MaxLanes(d))) {
    const auto result = round_to_odd ? FoldResult<Finish::kOdd>(d, sum + i, error + i)
                                     : FoldResult<Finish::kNearest>(d, sum + i, error + i);
    hn::StoreU(result, d, to + i);
  }
}

template <class T>
DepthwiseRowKernels<T> MakeDepthwiseRowKernels() {
  return {kGroupSize<T>, kGroupParts<T>, DepthwiseForward<T>, DepthwiseGradient<T>};
}

template <class T>
DepthwiseKernels<T> MakeDepthwiseKernels() {
  return {static_cast<int64_t>(hn::MaxLanes(hn::ScalableTag<T>())),
          DepthwiseRepeat<T>,
          DepthwisePart<T>,
          DepthwiseFoldBlock<T>,
          DepthwiseFoldRun<T>,
          DepthwiseFinish<T>};
}

inline void FillDepthwise(KernelTable& table) {
  table.depthwise_rows_f16 = MakeDepthwiseRowKernels<Float16>();
  table.depthwise_rows_bf16 = MakeDepthwiseRowKernels<BFloat16>();
  table.depthwise_rows_f32 = MakeDepthwiseRowKernels<float>();
  table.depthwise_rows_f64 = MakeDepthwiseRowKernels<double>();
  table.depthwise_f32 = MakeDepthwiseKernels<float>();
  table.depthwise_f64 = MakeDepthwiseKernels<double>();
}

}  // namespace HWY_NAMESPACE
}  // namespace convgrad
HWY_AFTER_NAMESPACE();

#endif  // toggle
