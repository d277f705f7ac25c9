// The depthwise kernels of all directions share these: tiles of neighbouring outputs and the
// columns that they read. Included once per target.
#if defined(CONVGRAD_KERNELS_DEPTHWISE_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CONVGRAD_KERNELS_DEPTHWISE_TILE_INL_H_
#undef CONVGRAD_KERNELS_DEPTHWISE_TILE_INL_H_
#else
#define CONVGRAD_KERNELS_DEPTHWISE_TILE_INL_H_
#endif

#include <type_traits>

#include "kernels/depthwise/depthwise.h"
#include "kernels/simd/convert-inl.h"
#include "kernels/simd/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace convgrad {
namespace HWY_NAMESPACE {

inline constexpr int64_t kTile = 7, kHalfTile = 4;  // outputs

// Loading a source once for all its taps takes code for every number of them. The scalar target,
// which calls a function for each multiply-add, has nothing to gain.
inline constexpr bool kSlide = HWY_TARGET != HWY_SCALAR;

// True where numbers are widened as they are loaded.
template <class T>
inline constexpr bool kInStorage = !std::is_same_v<T, ComputeType<T> >;

// Columns a tile reads with one segment.
constexpr int64_t TileSpan(int64_t num_taps, int64_t stride, int64_t dilation = 1,
                           int64_t tile = kTile) {
  return (tile - 1) * stride + (num_taps - 1) * dilation + 1;
}

// Takes a source vector that kTaps taps read. (Long rows of taps lose a little by it.)
template <int64_t kTaps, class V>
HWY_INLINE V InRegister(V vector) {
  if constexpr (kTaps < kMaxSegmentTaps) return InRegister(vector);
  return vector;
}

// The columns that a tile reads, as far as is known: all are on the row; the middle one is, so that
// those before it can only be missing on the left and those behind it on the right; nothing.
enum class Coverage { kWhole, kEnds, kAny };

// The tile's first column is first_col, and it reads `span` of them.
HWY_INLINE Coverage CoverageOf(int64_t first_col, int64_t span, int64_t num_cols) {
  const int64_t middle = first_col + span / 2;
  if (first_col >= 0 && first_col + span <= num_cols) return Coverage::kWhole;
  return middle >= 0 && middle <= num_cols ? Coverage::kEnds : Coverage::kAny;
}

// Tiles of alike segments have code of their own for whole columns only where finding out for every
// column is much beside its few terms.
constexpr bool HasWholeTiles(int64_t num_taps, int64_t stride) {
  return num_taps <= 3 && stride <= 2;
}

// Calls body(width as a constant) for a width of kLeast to kMost.
template <int64_t kLeast, int64_t kMost, class Body>
HWY_INLINE void WithWidth(int64_t width, const Body& body) {
  if constexpr (kMost > kLeast) {
    if (width < kMost) return WithWidth<kLeast, kMost - 1>(width, body);
  }
  body(std::integral_constant<int64_t, kMost>());
}

// Calls body(width as a constant, first column) for `count` columns, no fewer than kLeast, in
// nearly equal tiles of at most kMost.
template <int64_t kLeast, int64_t kMost, class Body>
HWY_INLINE void ForColumns(int64_t count, const Body& body) {
  const int64_t num_tiles = (count + kMost - 1) / kMost;
  for (int64_t tile = 0; tile < num_tiles; ++tile) {
    const int64_t first = count * tile / num_tiles;
    WithWidth<kLeast, kMost>(count * (tile + 1) / num_tiles - first,
                             [&](auto width) HWY_ATTR { body(width, first); });
  }
}

// Where one segment of one tile reads, for one vector of channels.
template <class T>
struct TileSource {
  const T* first;      // the tile's first column; only columns on the row are read
  int64_t stride;      // between columns, in elements
  int64_t begin, end;  // the tile's columns that are on the row, or more on either side

  template <Coverage kCoverage, int64_t kSpan = 0>
  HWY_INLINE bool Has(int64_t col) const {
    if constexpr (kCoverage == Coverage::kWhole) return true;
    if constexpr (kCoverage == Coverage::kAny) {
      return static_cast<uint64_t>(col - begin) < static_cast<uint64_t>(end - begin);
    }
    return col < kSpan / 2 ? begin <= col : col < end;
  }
};

template <class T>
HWY_INLINE TileSource<T> SourceOf(const T* row, int64_t first_col, int64_t stride,
                                  int64_t num_cols) {
  return {row + first_col * stride, stride, -first_col, num_cols - first_col};
}

// How many of the first segments begin at the same column and have as many taps.
template <class T>
HWY_INLINE int64_t NumAlike(const DepthwiseSegment<T>* segments, int64_t count) {
  int64_t alike = 0;
  while (alike < count && segments[alike].origin == segments[0].origin &&
         segments[alike].num_taps == segments[0].num_taps) {
    ++alike;
  }
  return alike;
}

// The taps of each of the segments if all are alike; else 0.
template <class T>
HWY_INLINE int64_t TapsIfAlike(const DepthwiseSegment<T>* segments, int64_t count) {
  return count > 0 && NumAlike(segments, count) == count ? segments[0].num_taps : 0;
}

// Channels [begin, end); begin is a multiple of the group's size.
struct ChannelRange {
  int64_t begin, end;
};

// Channels of a row of outputs that are taken from its first tile to its last before the next ones:
// pairs of lines, so that 5x5 filters find weights or sums, and the sources that tiles share, in
// the first cache. 3x3 filters wait for memory, which is best read in order; 7x7 gain nothing.
template <class T>
HWY_INLINE int64_t ChannelsTogether(int64_t num_taps, int64_t channels) {
  constexpr int64_t kBytes = 2 * LinesAhead::kLineBytes;
  return num_taps > 3 && num_taps < kMaxSegmentTaps ? kBytes / static_cast<int64_t>(sizeof(T))
                                                    : channels;
}

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

// Fetches, for one vector of channels, `count` columns from first_col on of the rows to come. Of
// vectors narrower than a line the first one fetches it.
template <class T>
HWY_INLINE void FetchNext(const DepthwiseNextRows<T>& next, int64_t first_col, int64_t count,
                          int64_t stride, int64_t channel, int64_t behind = 0) {
  constexpr int64_t kLine = LinesAhead::kLineBytes / static_cast<int64_t>(sizeof(T));
  if (kGroupSize<T> < kLine && channel % kLine >= kGroupSize<T>) return;
  for (int64_t i = 0; i < next.count; ++i) {
    const T* at = next.rows[i] + behind + first_col * stride + channel;
    for (int64_t col = 0; col < count; ++col, at += stride) __builtin_prefetch(at, 0, 2);
  }
}

// Fetches lines ahead during one call. Keeps its place in registers: nothing in it may be a
// function call.
class LineFetcher {
 public:
  explicit HWY_INLINE LineFetcher(LinesAhead* ahead) : ahead_(ahead) {
    if (ahead == nullptr || ahead->part == ahead->num_parts) return;
    at_once_ = ahead->at_once;
    part_ = ahead->part;
    line_ = ahead->line;
    run_ = ahead->parts[part_];
  }
  HWY_INLINE ~LineFetcher() {
    if (at_once_ == 0) return;
    ahead_->part = part_;
    ahead_->line = line_;
    if (part_ < ahead_->num_parts) ahead_->parts[part_] = run_;
  }
  LineFetcher(const LineFetcher&) = delete;
  LineFetcher& operator=(const LineFetcher&) = delete;

  // Those that go with `num_vectors`.
  HWY_INLINE void Fetch(int64_t num_vectors) {
    for (int64_t left = num_vectors * at_once_; left > 0 && run_.num_runs > 0;) {
      const int64_t count = HWY_MIN(left, run_.run_lines - line_);
      uintptr_t at = run_.begin + static_cast<uintptr_t>(line_ * LinesAhead::kLineBytes);
      for (int64_t i = 0; i < count; ++i, at += LinesAhead::kLineBytes) {
        __builtin_prefetch(reinterpret_cast<const void*>(at), 0, 2);
      }
      left -= count;
      line_ += count;
      if (line_ < run_.run_lines) continue;
      line_ = 0;
      run_.begin += static_cast<uintptr_t>(run_.distance);
      if (--run_.num_runs == 0 && ++part_ < ahead_->num_parts) run_ = ahead_->parts[part_];
    }
  }

 private:
  LinesAhead* ahead_;
  LinesAhead::Part run_ = {};
  int64_t part_ = 0, line_ = 0, at_once_ = 0;
};

// The same between tiles, which have no registers to spare for it.
HWY_NOINLINE inline void FetchLines(LinesAhead* ahead, int64_t num_vectors) {
  LineFetcher(ahead).Fetch(num_vectors);
}

// True if lines are fetched with the rows.
template <class T>
bool Fetches(const DepthwiseGradientRows<T>& rows) {
  return rows.ahead != nullptr || rows.next.count + rows.next_out_backprop.count > 0;
}

// Fetches what goes with outputs from `begin` to `end` of a row, once for all parts of a group.
template <int64_t kPart, class T>
HWY_INLINE void FetchForColumns(const DepthwiseGradientRows<T>& rows, int64_t row, int64_t channel,
                                int64_t begin, int64_t end, LineFetcher& lines) {
  if constexpr (kPart > 0) return;
  lines.Fetch(end - begin);
  FetchNext(rows.next, begin * rows.stride, (end - begin) * rows.stride, rows.source_stride,
            channel, row * rows.source_row_step);
  FetchNext(rows.next_out_backprop, begin, end - begin, rows.out_backprop_stride, channel,
            row * rows.out_backprop_row_step);
}

// Channels that kernels for all rows take at a time, whatever a group is elsewhere: a source vector
// is loaded once for all taps, so that it pays to widen neighbours.
template <class T>
inline constexpr int64_t kRowsGroup =
    static_cast<int64_t>(hn::MaxLanes(hn::ScalableTag<ComputeType<T> >()));

// The first channel of vector v. The last vector ends with the last channel and may share some with
// the one before it.
constexpr int64_t FirstChannel(int64_t v, int64_t lanes, int64_t channels) {
  return HWY_MAX(int64_t{0}, HWY_MIN(v * lanes, channels - lanes));
}

}  // namespace HWY_NAMESPACE
}  // namespace convgrad
HWY_AFTER_NAMESPACE();

#endif  // toggle
