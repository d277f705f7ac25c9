// Filter gradients of rows of three taps, all vectors of channels of some neighbouring outputs; see
// depthwise.h. Included once per target.
//
// The vectors of a line follow each other, so that they find it in the first cache: tiles are as
// long as it keeps what they meet. The sums of two or three rows of taps are in registers for a
// tile's outputs, and in memory meanwhile.
#if defined(CONVGRAD_KERNELS_DEPTHWISE_SHORT_TILES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CONVGRAD_KERNELS_DEPTHWISE_SHORT_TILES_INL_H_
#undef CONVGRAD_KERNELS_DEPTHWISE_SHORT_TILES_INL_H_
#else
#define CONVGRAD_KERNELS_DEPTHWISE_SHORT_TILES_INL_H_
#endif

#include "kernels/depthwise/depthwise_short_sums-inl.h"
#include "kernels/depthwise/depthwise_tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace convgrad {
namespace HWY_NAMESPACE {

// Outputs from `begin` to `end` of a row, all channels: sums of kRows rows of taps are in registers
// for one vector of channels at a time, and pass through memory from there on.
template <int64_t kRows, class T>
HWY_NOINLINE void GradientOfShortTile(const DepthwiseGradientRows<T>& rows, int64_t row,
                                      int64_t begin, int64_t end) {
  using Compute = ComputeType<T>;
  const hn::ScalableTag<Compute> d;
  constexpr int64_t kSize = kGroupSize<T>;
  const int64_t first = HWY_MIN(end, HWY_MAX(begin, FirstOnRow(rows)));
  const int64_t last = HWY_MAX(first, HWY_MIN(end, LastOnRow(rows)));
  const int64_t source_at = rows.source_at + row * rows.source_row_step +
                            (rows.segments[0].origin + begin * rows.stride) * rows.source_stride;
  const T* const out_backprop =
      rows.out_backprop + row * rows.out_backprop_row_step + begin * rows.out_backprop_stride;
  LineFetcher lines(rows.ahead);
  for (int64_t slot = 0; slot < rows.channels; slot += kSize) {
    const int64_t channel = FirstChannel(slot / kSize, kSize, rows.channels);
    FetchForColumns<0>(rows, row, channel, begin, end, lines);
    ShortSums<hn::Vec<decltype(d)>, 1> acc;
    ShortRowsPlace<T, kRows> at;
    at.out_backprop = out_backprop + channel;
#pragma GCC unroll 4
    for (int64_t i = 0; i < kRows; ++i) {
      const Compute* const sums = rows.segments[i].sums + slot;
      at.source[i] = rows.segments[i].source + source_at + channel;
#pragma GCC unroll 4
      for (int64_t k = 0; k < kShortTaps; ++k) {
        acc.of[i][k][0] = hn::LoadU(d, sums + k * rows.sums_stride);
      }
    }
    AddOutputs<0, true, 0>(d, rows, begin, first, at, acc);
    AddOutputs<0, false, 0>(d, rows, first, last, at, acc);
    AddOutputs<0, true, 0>(d, rows, last, end, at, acc);
#pragma GCC unroll 4
    for (int64_t i = 0; i < kRows; ++i) {
      Compute* const sums = rows.segments[i].sums + slot;
#pragma GCC unroll 4
      for (int64_t k = 0; k < kShortTaps; ++k) {
        hn::StoreU(acc.of[i][k][0], d, sums + k * rows.sums_stride);
      }
    }
  }
}

// So many outputs of `count` make a tile: of which the first cache keeps all that one vector of
// channels meets, or a whole tile of other kernels' if it keeps nothing. Those are also enough to
// fetch for at once.
template <class T>
int64_t MostOutputs(const DepthwiseGradientRows<T>& rows, int64_t count) {
  const int64_t first = LinesMet(rows, 1), each = LinesMet(rows, 2) - first;
  const int64_t kept = LinesKept(rows);
  const int64_t most = kept < first ? kTile : 1 + (kept - first) / each;
  return HWY_MIN(count, Fetches(rows) ? HWY_MIN(most, kTile) : most);
}

// Takes outputs from `begin` to `end` of a row whose segments are alike and have three taps, two or
// more of them.
template <class T>
void GradientOfShortTiles(const DepthwiseGradientRows<T>& rows, int64_t row, int64_t begin,
                          int64_t end) {
  DepthwiseGradientRows<T> part = rows;
  const int64_t count = end - begin, most = MostOutputs(rows, count);
  const int64_t num_tiles = (count + most - 1) / most;
  for (int64_t left = rows.num_segments; left > 0; left -= part.num_segments) {
    part.segments = rows.segments + rows.num_segments - left;
    part.num_segments = left == kShortRows + 1 ? kShortRows - 1 : HWY_MIN(left, kShortRows);
    for (int64_t tile = 0; tile < num_tiles; ++tile) {
      const int64_t first = begin + count * tile / num_tiles;
      const int64_t next = begin + count * (tile + 1) / num_tiles;
      part.num_segments == kShortRows ? GradientOfShortTile<kShortRows>(part, row, first, next)
                                      : GradientOfShortTile<kShortRows - 1>(part, row, first, next);
    }
    part.next.count = part.next_out_backprop.count = 0;
    part.ahead = nullptr;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace convgrad
HWY_AFTER_NAMESPACE();

#endif  // toggle
