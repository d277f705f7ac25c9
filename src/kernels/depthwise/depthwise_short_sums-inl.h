// Sums of up to three rows of three taps of a filter gradient in registers, which the kernels of
// such filters share. Included once per target.
#if defined(CONVGRAD_KERNELS_DEPTHWISE_SHORT_SUMS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CONVGRAD_KERNELS_DEPTHWISE_SHORT_SUMS_INL_H_
#undef CONVGRAD_KERNELS_DEPTHWISE_SHORT_SUMS_INL_H_
#else
#define CONVGRAD_KERNELS_DEPTHWISE_SHORT_SUMS_INL_H_
#endif

#include "kernels/depthwise/depthwise.h"
#include "kernels/simd/convert-inl.h"
#include "kernels/simd/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace convgrad {
namespace HWY_NAMESPACE {

// Rows of taps, and taps of each.
inline constexpr int64_t kShortRows = 3, kShortTaps = 3;

// Loads neighbouring vectors of channels, the last one `last_vector` channels behind the first, or
// both parts of a group; if one, part kPart.
template <int64_t kPart, class D, class T, class V, int64_t kVectors>
HWY_INLINE void LoadVectors(D d, const T* at, int64_t last_vector, V (&to)[kVectors]) {
  if constexpr (kVectors == 2 && kGroupParts<T> == 2) {
    to[0] = LoadPart<0>(d, at);
    to[1] = LoadPart<1>(d, at);
  } else {
    to[0] = LoadPart<kPart>(d, at);
#pragma GCC unroll 4
    for (int64_t v = 1; v < kVectors; ++v) {
      to[v] = LoadPart<kPart>(d, at + (v + 1 == kVectors ? last_vector : v * kGroupSize<T>));
    }
  }
}

// An output of one row and what its first taps meet. It moves along the row: addresses must not
// need more registers than there are.
template <class T, int64_t kRows>
struct ShortRowsPlace {
  const T* out_backprop;
  const T* source[kRows];
  int64_t last_vector = 0;  // see LoadVectors

  HWY_INLINE void Move(int64_t out_backprop_by, int64_t source_by) {
    out_backprop += out_backprop_by;
#pragma GCC unroll 4
    for (int64_t i = 0; i < kRows; ++i) source[i] += source_by;
  }
};

// The sums of all taps.
template <class V, int64_t kVectors>
struct ShortSums {
  V of[kShortRows][kShortTaps][kVectors];

  HWY_INLINE ShortSums() {}  // one that the compiler adds is not for this target
};

// The outputs from `begin` to `end` of a row into the sums of kRows rows of taps, from the kTop-th
// on. kChecked: some taps may be off the row.
template <int64_t kPart, bool kChecked, int64_t kTop, class D, class T, class V, int64_t kVectors,
          int64_t kRows>
HWY_INLINE void AddOutputs(D d, const DepthwiseGradientRows<T>& rows, int64_t begin, int64_t end,
                           ShortRowsPlace<T, kRows>& at, ShortSums<V, kVectors>& acc) {
  const int64_t tap_step = rows.dilation * rows.source_stride;
  int64_t col = rows.segments[0].origin + begin * rows.stride;
  for (int64_t t = begin; t < end; ++t, col += rows.stride) {
    V g[kVectors], x[kVectors];
    LoadVectors<kPart>(d, at.out_backprop, at.last_vector, g);
#pragma GCC unroll 4
    for (int64_t k = 0; k < kShortTaps; ++k) {
      const auto tap_col = static_cast<uint64_t>(col + k * rows.dilation);
      if (kChecked && tap_col >= static_cast<uint64_t>(rows.num_cols)) continue;
#pragma GCC unroll 4
      for (int64_t i = 0; i < kRows; ++i) {
        LoadVectors<kPart>(d, at.source[i] + k * tap_step, at.last_vector, x);
        V(&sums)[kVectors] = acc.of[kTop + i][k];
#pragma GCC unroll 4
        for (int64_t v = 0; v < kVectors; ++v) sums[v] = Fma(x[v], g[v], sums[v]);
      }
    }
    at.Move(rows.out_backprop_stride, rows.stride * rows.source_stride);
  }
}

// The outputs of a row all of whose taps are on the row: from FirstOnRow to LastOnRow.
template <class T>
HWY_INLINE int64_t FirstOnRow(const DepthwiseGradientRows<T>& rows) {
  const int64_t before = rows.stride - 1 - rows.segments[0].origin;
  return HWY_MIN(rows.count, HWY_MAX(0, before / rows.stride));
}
template <class T>
HWY_INLINE int64_t LastOnRow(const DepthwiseGradientRows<T>& rows) {
  const int64_t room = rows.num_cols - rows.segments[0].origin - (kShortTaps - 1) * rows.dilation;
  return HWY_MIN(rows.count, HWY_MAX(0, (room + rows.stride - 1) / rows.stride));
}

// Sets of the first cache that pixels at such a distance lie in.
template <class T>
int64_t SetsOfPixels(const DepthwiseGradientRows<T>& rows) {
  constexpr int64_t kSets = 64;
  const int64_t apart = rows.source_stride * static_cast<int64_t>(sizeof(T));
  const int64_t lines = apart / LinesAhead::kLineBytes;
  return apart % LinesAhead::kLineBytes != 0 ? kSets : kSets / HWY_MIN(kSets, lines & -lines);
}

// Columns that `count` outputs of a row meet.
template <class T>
int64_t ColumnsMet(const DepthwiseGradientRows<T>& rows, int64_t count) {
  return (count - 1) * HWY_MIN(rows.stride, kShortTaps) + (kShortTaps - 1) * rows.dilation + 1;
}

// Lines that `count` outputs of a row meet of one vector of channels, with all rows of taps.
template <class T>
int64_t LinesMet(const DepthwiseGradientRows<T>& rows, int64_t count) {
  return kShortRows * ColumnsMet(rows, count) + count;
}

// So many lines of pixels the first cache keeps.
template <class T>
int64_t LinesKept(const DepthwiseGradientRows<T>& rows) {
  constexpr int64_t kWays = 8;
  return kWays * SetsOfPixels(rows);
}

}  // namespace HWY_NAMESPACE
}  // namespace convgrad
HWY_AFTER_NAMESPACE();

#endif  // toggle
