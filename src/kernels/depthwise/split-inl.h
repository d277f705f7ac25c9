// Splitting of numbers that lie in turns into parts that lie behind each other; see plane.h.
// Included once per target.
#if defined(CONVGRAD_KERNELS_SPLIT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CONVGRAD_KERNELS_SPLIT_INL_H_
#undef CONVGRAD_KERNELS_SPLIT_INL_H_
#else
#define CONVGRAD_KERNELS_SPLIT_INL_H_
#endif

#include <cstddef>
#include <cstdint>

#include "kernels/simd/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace convgrad {
namespace HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR
template <int64_t kParts, class T>
int64_t SplitByVectors(const T*, T*, int64_t, int64_t) {
  return 0;
}
#else
// `count` numbers of each of two or three parts by vectors of kLanes, the last of which ends with
// the last number; false if there are fewer.
template <int64_t kParts, size_t kLanes, class T>
HWY_INLINE bool SplitVectors(const T* from, T* to, int64_t to_stride, int64_t count) {
  const hn::CappedTag<T, kLanes> d;
  constexpr int64_t kStep = kLanes;
  if (count < kStep) return false;
  for (int64_t i = 0; i < count; i += kStep) {
    const int64_t first = HWY_MIN(i, count - kStep);
    const T* at = from + kParts * first;
    hn::Vec<decltype(d)> v[3];
    if constexpr (kParts == 2) {
      const auto low = hn::LoadU(d, at), high = hn::LoadU(d, at + kStep);
      v[0] = hn::ConcatEven(d, high, low);
      v[1] = hn::ConcatOdd(d, high, low);
    } else {
      hn::LoadInterleaved3(d, at, v[0], v[1], v[2]);
    }
    for (int64_t part = 0; part < kParts; ++part) {
      hn::StoreU(v[part], d, to + part * to_stride + first);
    }
  }
  return true;
}
// How many of `count` numbers of each part were split: all, or none where the narrowest vector is
// too wide.
template <int64_t kParts, class T>
HWY_INLINE int64_t SplitByVectors(const T* from, T* to, int64_t to_stride, int64_t count) {
  constexpr size_t kLanes = hn::MaxLanes(hn::ScalableTag<T>()), kLeast = 16 / sizeof(T);
  constexpr size_t kHalf = HWY_MAX(kLeast, kLanes / 2);
  const bool done = SplitVectors<kParts, kLanes>(from, to, to_stride, count) ||
                    SplitVectors<kParts, kHalf>(from, to, to_stride, count) ||
                    SplitVectors<kParts, kLeast>(from, to, to_stride, count);
  return done ? count : 0;
}
#endif

template <class T>
HWY_INLINE void SplitRow(const T* from, T* to, int64_t to_stride, int64_t parts, int64_t count) {
  const int64_t done = parts == 2   ? SplitByVectors<2>(from, to, to_stride, count / 2)
                       : parts == 3 ? SplitByVectors<3>(from, to, to_stride, count / 3)
                                    : 0;
  // Some numbers of every part at a time, which are read from the first cache.
  constexpr int64_t kTogether = 64;
  for (int64_t first = done; first * parts < count; first += kTogether) {
    const int64_t end = HWY_MIN(count, (first + kTogether) * parts);
    for (int64_t part = 0; part < parts; ++part) {
      T* column = to + part * to_stride + first;
      for (int64_t i = first * parts + part; i < end; i += parts) *column++ = from[i];
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace convgrad
HWY_AFTER_NAMESPACE();

#endif  // toggle
