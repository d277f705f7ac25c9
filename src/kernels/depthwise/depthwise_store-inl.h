// How finished results of a tile get to where they belong, through the caches or around them.
// Included once per target.
#if defined(CONVGRAD_KERNELS_DEPTHWISE_STORE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CONVGRAD_KERNELS_DEPTHWISE_STORE_INL_H_
#undef CONVGRAD_KERNELS_DEPTHWISE_STORE_INL_H_
#else
#define CONVGRAD_KERNELS_DEPTHWISE_STORE_INL_H_
#endif

#include "kernels/depthwise/depthwise_tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace convgrad {
namespace HWY_NAMESPACE {

// The scalar target, whose vectors are too small for it, is never asked to.
inline constexpr bool kStreams = HWY_TARGET != HWY_SCALAR;

inline constexpr size_t kResultLine = 64;

// Lines of a tile's results that are put together from several groups of channels.
template <class T>
using TileLines = T[kTile][kResultLine / sizeof(T)];

// Writes a group of finished results around the caches.
template <class T>
HWY_INLINE void StreamGroup(const T* group, T* to) {
  const hn::CappedTag<uint8_t, kGroupSize<T> * sizeof(T)> d;
  hn::Stream(hn::Load(d, reinterpret_cast<const uint8_t*>(group)), d,
             reinterpret_cast<uint8_t*>(to));
}

// One instruction ends a sum.
inline constexpr bool kEndsAtOnce = HWY_TARGET == HWY_AVX3;

// A chain's sum as it is stored; where that takes several instructions, or the type is stored
// narrower, a NaN is left for later.
template <class T, class D, class V>
HWY_INLINE V EndedSum(D d, V sum) {
  if constexpr (kEndsAtOnce && !kInStorage<T>) return CanonicalSum(d, sum);
  return hn::Add(sum, hn::Zero(d));
}

// False if none of some ended sums is a NaN that is not canonical: their sum then is none. Finding
// that takes no time from the multiply-adds, as looking at each would; infinities may look like
// one.
template <class D, class V, size_t kCount>
HWY_INLINE bool MayHaveNaN(D d, const V (&results)[kCount]) {
  if constexpr (kEndsAtOnce) return false;
  V all = results[0];
#pragma GCC unroll 16
  for (size_t p = 1; p < kCount; ++p) all = hn::Add(all, results[p]);
  return !hn::AllFalse(d, hn::IsNaN(all));
}

template <class D, class T>
HWY_INLINE void StoreSums(D d, hn::Vec<D> first, hn::Vec<D> last, T* to, int64_t channels) {
  if constexpr (kInStorage<T>) {
    StoreParts(d, first, last, to);
  } else {
    StoreUpTo(d, CanonicalNaN(d, first), to, channels);
  }
}

template <class D, class T>
HWY_INLINE void StreamSums(D d, hn::Vec<D> first, [[maybe_unused]] hn::Vec<D> last, T* to) {
  if constexpr (std::is_same_v<T, Float16>) {
    const hn::Rebind<hwy::float16_t, D> dh;
    const hn::RebindToUnsigned<decltype(dh)> du;
    const auto narrow = hn::BitCast(du, hn::DemoteTo(dh, CanonicalNaN(d, first)));
    hn::Stream(narrow, du, reinterpret_cast<uint16_t*>(to));
  } else {
    StreamParts(d, first, last, to);
  }
}

// A tile's results for one group of channels around the caches. Groups narrower than a line wait in
// `lines` for the last one of it.
template <class D, class T, class V, size_t kOutputs>
HWY_INLINE void StreamTile(D d, const DepthwiseForwardRow<T>& row, int64_t count, int64_t channel,
                           const V (&sums)[kGroupParts<T>][kOutputs], T* out, TileLines<T>& lines) {
  constexpr int64_t kNumbers = kResultLine / sizeof(T), kSize = kGroupSize<T>;
  constexpr int64_t kLast = kNumbers - kSize, kTileSize = kOutputs;
  [[maybe_unused]] const int64_t at = channel % kNumbers;
  const int64_t stride = row.out_stride;
  if constexpr (kLast > 0) {
    if (at != kLast) {
#pragma GCC unroll 8
      for (int64_t p = 0; p < kTileSize; ++p) {
        StoreSums(d, sums[0][p], sums[kGroupParts<T> - 1][p], lines[p] + at, row.channels);
      }
      return;
    }
  }
#pragma GCC unroll 8
  for (int64_t p = 0; p < kTileSize; ++p) {
    if (p >= count) continue;
    T* const to = out + p * stride;
#pragma GCC unroll 4
    for (int64_t i = 0; i < kLast; i += kSize) StreamGroup(lines[p] + i, to - kLast + i);
    StreamSums(d, sums[0][p], sums[kGroupParts<T> - 1][p], to);
  }
}

template <class D, class T, class V, size_t kOutputs>
HWY_INLINE void StoreTile(D d, const DepthwiseForwardRow<T>& row, int64_t first_out,
                          int64_t channel, const V (&sums)[kGroupParts<T>][kOutputs],
                          [[maybe_unused]] TileLines<T>& lines) {
  const int64_t stride = row.out_stride, channels = row.channels;
  T* const out = row.out + first_out * stride + channel;
  constexpr int64_t kTileSize = kOutputs;
  const int64_t count = HWY_MIN(kTileSize, row.count - first_out);
  if constexpr (kStreams) {
    if (row.stream) return StreamTile(d, row, count, channel, sums, out, lines);
  }
  if constexpr (!kInStorage<T>) {
    if (HWY_LIKELY(!MayHaveNaN(d, sums[0]))) {
#pragma GCC unroll 8
      for (int64_t p = 0; p < kTileSize; ++p) {
        if (p < count) StoreUpTo(d, sums[0][p], out + p * stride, channels);
      }
      return;
    }
  }
#pragma GCC unroll 8
  for (int64_t p = 0; p < kTileSize; ++p) {
    if (p >= count) continue;
    StoreSums(d, sums[0][p], sums[kGroupParts<T> - 1][p], out + p * stride, channels);
  }
}

// Ends the sums of some results.
template <class T, class D, class V, size_t kCount>
HWY_INLINE void EndSums(D d, V (&sums)[kCount]) {
#pragma GCC unroll 16
  for (size_t p = 0; p < kCount; ++p) sums[p] = EndedSum<T>(d, sums[p]);
  if constexpr (!kInStorage<T>) {
    if (HWY_LIKELY(!MayHaveNaN(d, sums))) return;
#pragma GCC unroll 16
    for (size_t p = 0; p < kCount; ++p) sums[p] = CanonicalNaN(d, sums[p]);
  }
}

// Stores what has been ended, of up to so many channels.
template <class D, class T, class V>
HWY_INLINE void StoreEnded(D d, V sum, T* to, int64_t channels = hn::MaxLanes(D())) {
  if constexpr (kInStorage<T>) {
    StoreNarrowed(d, sum, to);
  } else {
    StoreUpTo(d, sum, to, channels);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace convgrad
HWY_AFTER_NAMESPACE();

#endif  // toggle
