// What the depthwise kernels of all directions share: tiles of neighbouring outputs and the columns
// that they read. Included once per target.
#if defined(CONVGRAD_KERNELS_DEPTHWISE_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CONVGRAD_KERNELS_DEPTHWISE_TILE_INL_H_
#undef CONVGRAD_KERNELS_DEPTHWISE_TILE_INL_H_
#else
#define CONVGRAD_KERNELS_DEPTHWISE_TILE_INL_H_
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

// Of a source vector that kTaps taps read. (Long rows of taps lose a little by it.)
template <int64_t kTaps, class V>
HWY_INLINE V InRegister(V vector) {
  if constexpr (kTaps < kMaxSegmentTaps) return InRegister(vector);
  return vector;
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

// The first channel of vector v. The last vector ends with the last channel and may share some with
// the one before it.
constexpr int64_t FirstChannel(int64_t v, int64_t lanes, int64_t channels) {
  return HWY_MAX(int64_t{0}, HWY_MIN(v * lanes, channels - lanes));
}

}  // namespace HWY_NAMESPACE
}  // namespace convgrad
HWY_AFTER_NAMESPACE();

#endif  // toggle
