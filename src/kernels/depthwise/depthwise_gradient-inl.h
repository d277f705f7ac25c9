// The depthwise kernel of filter gradients; see depthwise.h. Included once per target.
//
// Tiles are those of the forward kernel: `out_backprop` of a tile is in registers, the sums of a
// row of taps pass through them. One vector of channels and a 3x3 filter have a kernel of their
// own.
#if defined(CONVGRAD_KERNELS_DEPTHWISE_GRADIENT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CONVGRAD_KERNELS_DEPTHWISE_GRADIENT_INL_H_
#undef CONVGRAD_KERNELS_DEPTHWISE_GRADIENT_INL_H_
#else
#define CONVGRAD_KERNELS_DEPTHWISE_GRADIENT_INL_H_
#endif

#include <algorithm>

#include "kernels/depthwise/depthwise_short_rows-inl.h"
#include "kernels/depthwise/depthwise_short_tiles-inl.h"
#include "kernels/depthwise/depthwise_tile-inl.h"
#include "kernels/kernel_table.h"

HWY_BEFORE_NAMESPACE();
namespace convgrad {
namespace HWY_NAMESPACE {

template <int64_t kTaps, int64_t kStride, int64_t kDilation, int64_t kPart, Coverage kCoverage,
          class D, class T, class V>
HWY_INLINE void SlideGradient(D d, const TileSource<T>& source, const V (&g)[kTile],
                              ComputeType<T>* sums, int64_t sums_stride) {
  V acc[kTaps];
#pragma GCC unroll 8
  for (int64_t k = 0; k < kTaps; ++k) acc[k] = hn::LoadU(d, sums + k * sums_stride);
  const T* at = source.first;
  constexpr int64_t kSpan = TileSpan(kTaps, kStride, kDilation);
#pragma GCC unroll 32
  for (int64_t col = 0; col < kSpan; ++col, at += source.stride) {
    if (!source.template Has<kCoverage, kSpan>(col)) continue;
    const V x = InRegister<kTaps>(LoadPart<kPart>(d, at));
#pragma GCC unroll 8
    for (int64_t k = 0; k < kTaps; ++k) {
      const int64_t p = (col - k * kDilation) / kStride;
      const bool meets = col == p * kStride + k * kDilation && col >= k * kDilation && p < kTile;
      if (meets) acc[k] = Fma(x, g[p], acc[k]);
    }
  }
#pragma GCC unroll 8
  for (int64_t k = 0; k < kTaps; ++k) hn::StoreU(acc[k], d, sums + k * sums_stride);
}

// One output into the sums of kTaps taps, which read every tap_step-th number from `at` on. The
// first one reads the tile's column `col`; kChecked: some may be off the row.
template <int64_t kTaps, int64_t kPart, bool kChecked, class D, class T, class V>
HWY_INLINE void AddOutput(D d, const TileSource<T>& source, const T* at, int64_t tap_step, V g,
                          int64_t col, int64_t dilation, V (&acc)[kTaps]) {
#pragma GCC unroll 8
  for (int64_t k = 0; k < kTaps; ++k) {
    if (kChecked && !source.template Has<Coverage::kAny>(col + k * dilation)) continue;
    acc[k] = Fma(LoadPart<kPart>(d, at + k * tap_step), g, acc[k]);
  }
}

// Any stride, dilation and number of outputs. Pointers step along the outputs, and the distances of
// taps from each other stay in registers.
template <int64_t kTaps, int64_t kPart, class D, class T>
HWY_INLINE void StepGradient(D d, const TileSource<T>& source, const T* out_backprop, int64_t count,
                             const DepthwiseGradientRows<T>& rows, ComputeType<T>* sums) {
  using V = hn::Vec<D>;
  V acc[kTaps];
#pragma GCC unroll 8
  for (int64_t k = 0; k < kTaps; ++k) acc[k] = hn::LoadU(d, sums + k * rows.sums_stride);
  const int64_t tap_step = rows.dilation * source.stride, out_step = rows.stride * source.stride;
  const int64_t last_begin = source.end - (kTaps - 1) * rows.dilation;
  const T* at = source.first;
  for (int64_t p = 0, col = 0; p < count; ++p, col += rows.stride) {
    const V g = LoadPart<kPart>(d, out_backprop);
    if (source.begin <= col && col < last_begin) {
      AddOutput<kTaps, kPart, false>(d, source, at, tap_step, g, col, rows.dilation, acc);
    } else {
      AddOutput<kTaps, kPart, true>(d, source, at, tap_step, g, col, rows.dilation, acc);
    }
    at += out_step;
    out_backprop += rows.out_backprop_stride;
  }
#pragma GCC unroll 8
  for (int64_t k = 0; k < kTaps; ++k) hn::StoreU(acc[k], d, sums + k * rows.sums_stride);
}

// `count` outputs from first_out on, one part of a group of channels, whose sums are at `slot`.
template <int64_t kPart, class D, class T>
HWY_INLINE void GradientOfOutputs(D d, const DepthwiseGradientRows<T>& rows, int64_t row,
                                  int64_t first_out, int64_t count, int64_t channel, int64_t slot) {
  const T* out_backprop = rows.out_backprop + row * rows.out_backprop_row_step +
                          first_out * rows.out_backprop_stride + channel;
  for (int64_t i = 0; i < rows.num_segments; ++i) {
    const DepthwiseSegment<T>& segment = rows.segments[i];
    const int64_t first_col = segment.origin + first_out * rows.stride;
    const int64_t end_col =
        first_col + (count - 1) * rows.stride + (segment.num_taps - 1) * rows.dilation + 1;
    if (end_col <= 0 || first_col >= rows.num_cols) continue;
    const TileSource<T> source =
        SourceOf(segment.source + rows.source_at + row * rows.source_row_step + channel, first_col,
                 rows.source_stride, rows.num_cols);
    WithTaps(segment.num_taps, [&](auto taps) HWY_ATTR {
      StepGradient<taps(), kPart>(d, source, out_backprop, count, rows, segment.sums + slot);
    });
  }
}

// Fetches what goes with `count` outputs from first_out on of one group of channels.
template <class T>
HWY_INLINE void FetchForOutputs(const DepthwiseGradientRows<T>& rows, int64_t row,
                                int64_t first_out, int64_t count, int64_t channel) {
  FetchNext(rows.next, first_out * rows.stride, count * rows.stride, rows.source_stride, channel,
            row * rows.source_row_step);
  FetchNext(rows.next_out_backprop, first_out, count, rows.out_backprop_stride, channel,
            row * rows.out_backprop_row_step);
  if (rows.ahead != nullptr) FetchLines(rows.ahead, count);
}

// Takes outputs whatever their number and their taps.
template <class T>
HWY_NOINLINE void GradientOfAnyOutputs(const DepthwiseGradientRows<T>& rows, int64_t row,
                                       int64_t first_out, int64_t count, ChannelRange channels) {
  const hn::ScalableTag<ComputeType<T> > d;
  constexpr int64_t kSize = kGroupSize<T>;
  for (int64_t slot = channels.begin; slot < channels.end; slot += kSize) {
    const int64_t channel = FirstChannel(slot / kSize, kSize, rows.channels);
    FetchForOutputs(rows, row, first_out, count, channel);
    GradientOfOutputs<0>(d, rows, row, first_out, count, channel, slot);
    if constexpr (kGroupParts<T> == 2) {
      GradientOfOutputs<1>(d, rows, row, first_out, count, channel, slot + kSize / 2);
    }
  }
}

// A whole tile whose segments are alike: nothing of them but addresses is left to be found for
// every group of channels.
template <int64_t kTaps, int64_t kStride, int64_t kDilation, Coverage kCoverage, class T>
HWY_NOINLINE void GradientAlikeTile(const DepthwiseGradientRows<T>& rows, int64_t row,
                                    int64_t first_out, ChannelRange channels) {
  const hn::ScalableTag<ComputeType<T> > d;
  constexpr int64_t kSize = kGroupSize<T>, kParts = kGroupParts<T>;
  const int64_t first_col = rows.segments[0].origin + first_out * kStride;
  const TileSource<T> tile = {nullptr, rows.source_stride, -first_col, rows.num_cols - first_col};
  const int64_t in_row =
      rows.source_at + row * rows.source_row_step + first_col * rows.source_stride;
  const T* const out_backprop =
      rows.out_backprop + row * rows.out_backprop_row_step + first_out * rows.out_backprop_stride;
  const DepthwiseSegment<T>* const end = rows.segments + rows.num_segments;
  for (int64_t slot = channels.begin; slot < channels.end; slot += kSize) {
    const int64_t channel = FirstChannel(slot / kSize, kSize, rows.channels);
    FetchForOutputs(rows, row, first_out, kTile, channel);
    const auto add = [&](auto part) HWY_ATTR {
      hn::Vec<decltype(d)> g[kTile];
#pragma GCC unroll 8
      for (int64_t p = 0; p < kTile; ++p) {
        g[p] = LoadPart<part()>(d, out_backprop + p * rows.out_backprop_stride + channel);
      }
      for (const DepthwiseSegment<T>* segment = rows.segments; segment != end; ++segment) {
        TileSource<T> source = tile;
        source.first = segment->source + in_row + channel;
        SlideGradient<kTaps, kStride, kDilation, part(), kCoverage>(
            d, source, g, segment->sums + slot + part() * (kSize / kParts), rows.sums_stride);
      }
    };
    add(std::integral_constant<int64_t, 0>());
    if constexpr (kParts == 2) add(std::integral_constant<int64_t, 1>());
  }
}

// Rows of an even number of dilated taps are rare, and columns of those 4 apart hardly shared.
constexpr bool HasAlikeTiles(int64_t num_taps, int64_t dilation) {
  return dilation == 1 || (num_taps > 1 && (dilation == 2 || num_taps % 2 == 1));
}

// Tiles most of whose columns are off the row, which filters as wide as the image have, have code
// of their own for the segments of such filters alone.
constexpr bool HasAnyTiles(int64_t num_taps) {
  return num_taps >= 5;
}

// The tile if it is such a one of kStride and kDilation; else false.
template <int64_t kStride, int64_t kDilation, class T>
bool TakeAlikeTile(const DepthwiseGradientRows<T>& rows, int64_t num_taps, int64_t row,
                   int64_t first_out, ChannelRange channels) {
  const int64_t first_col = rows.segments[0].origin + first_out * kStride;
  const Coverage coverage =
      CoverageOf(first_col, TileSpan(num_taps, kStride, kDilation), rows.num_cols);
  constexpr bool kOfAny = !kInStorage<T> && kStride == 1 && kDilation == 1;
  if (!HasAlikeTiles(num_taps, kDilation)) return false;
  if (coverage == Coverage::kAny && !(kOfAny && HasAnyTiles(num_taps))) return false;
  WithTaps(num_taps, [&](auto taps) HWY_ATTR {
    if constexpr (HasAlikeTiles(taps(), kDilation)) {
      if constexpr (HasWholeTiles(taps(), kStride) && kDilation == 1) {
        if (coverage == Coverage::kWhole) {
          return GradientAlikeTile<taps(), kStride, kDilation, Coverage::kWhole>(
              rows, row, first_out, channels);
        }
      }
      if constexpr (kOfAny && HasAnyTiles(taps())) {
        if (coverage == Coverage::kAny) {
          return GradientAlikeTile<taps(), kStride, kDilation, Coverage::kAny>(rows, row, first_out,
                                                                               channels);
        }
      }
      GradientAlikeTile<taps(), kStride, kDilation, Coverage::kEnds>(rows, row, first_out,
                                                                     channels);
    }
  });
  return true;
}

// True if neighbouring outputs share columns that tiles have code of their own for.
template <class T>
bool SharesColumns(const DepthwiseGradientRows<T>& rows) {
  const int64_t dilation = rows.dilation;
  if (rows.stride == 2) return dilation == 1;
  return rows.stride == 1 && (dilation == 1 || dilation == 2 || dilation == 4);
}

// A whole tile if its outputs share columns; else false.
template <class T>
bool TakeWholeTile(const DepthwiseGradientRows<T>& rows, int64_t num_taps, int64_t row,
                   int64_t first_out, ChannelRange channels) {
  const auto alike = [&](auto stride, auto dilation) {
    return TakeAlikeTile<stride(), dilation()>(rows, num_taps, row, first_out, channels);
  };
  constexpr std::integral_constant<int64_t, 1> kOne;
  constexpr std::integral_constant<int64_t, 2> kTwo;
  constexpr std::integral_constant<int64_t, 4> kFour;
  if (!SharesColumns(rows)) return false;
  if (rows.stride == 2) return alike(kTwo, kOne);
  return rows.dilation == 1   ? alike(kOne, kOne)
         : rows.dilation == 2 ? alike(kOne, kTwo)
                              : alike(kOne, kFour);
}

// A row by short tiles: one, if it can be; else as many outputs as can be by tiles that share
// columns.
template <class T>
void GradientOfShortRow(const DepthwiseGradientRows<T>& rows, int64_t row) {
  int64_t out = 0;
  if (SharesColumns(rows) && MostOutputs(rows, rows.count) < rows.count) {
    for (; out + kTile <= rows.count; out += kTile) {
      if (TakeWholeTile(rows, kShortTaps, row, out, {0, rows.channels})) continue;
      GradientOfShortTiles(rows, row, out, out + kTile);
    }
  }
  if (out < rows.count) GradientOfShortTiles(rows, row, out, rows.count);
}

// Takes a row of outputs whose segments are alike.
template <class T>
void GradientOfRow(const DepthwiseGradientRows<T>& rows, int64_t row) {
  if constexpr (kHasShortTiles<T>) {
    if (TakesShortTiles(rows)) return GradientOfShortRow(rows, row);
  }
  const int64_t num_taps = rows.segments[0].num_taps;
  const int64_t step = ChannelsTogether<T>(num_taps, rows.channels);
  for (int64_t begin = 0; begin < rows.channels; begin += step) {
    const ChannelRange channels = {begin, HWY_MIN(begin + step, rows.channels)};
    for (int64_t out = 0; out < rows.count; out += kTile) {
      const int64_t count = HWY_MIN(kTile, rows.count - out);
      if constexpr (kSlide) {
        if (count == kTile && TakeWholeTile(rows, num_taps, row, out, channels)) continue;
      }
      GradientOfAnyOutputs(rows, row, out, count, channels);
    }
  }
}

// Takes alike segments together, one kind after the other.
template <class T>
void GradientOfRows(const DepthwiseGradientRows<T>& rows) {
  DepthwiseGradientRows<T> alike = rows;
  for (int64_t first = 0; first < rows.num_segments; first += alike.num_segments) {
    alike.segments = rows.segments + first;
    alike.num_segments = NumAlike(alike.segments, rows.num_segments - first);
    for (int64_t row = 0; row < rows.num_rows; ++row) GradientOfRow(alike, row);
    alike.next.count = alike.next_out_backprop.count = 0;
    alike.ahead = nullptr;
  }
}

template <class T>
void DepthwiseGradient(const DepthwiseGradientImages<T>& images) {
  const DepthwiseGradientRows<T>* const end = images.groups + images.num_groups;
  ComputeType<T>* sums = nullptr;  // those of three short rows
  if constexpr (kSlide) {
    sums = SumsOfShortRows(images);
    if (sums != nullptr && std::all_of(images.groups, end, AreShortRows<T>)) {
      return GradientOfShortRows(images, sums);
    }
  }
  DepthwiseGradientImages<T> alone = images;  // a group in an image
  alone.num_groups = alone.num_images = 1;
  for (int64_t image = 0; image < images.num_images; ++image) {
    for (const auto* group = images.groups; group != end; ++group) {
      alone.groups = group;
      if (sums != nullptr && AreShortRows(*group)) {
        if constexpr (kSlide) GradientOfShortRows(alone, sums);
        continue;
      }
      DepthwiseGradientRows<T> rows = *group;
      rows.source_at += alone.source_at;
      rows.out_backprop += alone.out_backprop_at;
      GradientOfRows(rows);
    }
    alone.source_at += images.source_step;
    alone.out_backprop_at += images.out_backprop_step;
  }
}

inline void FillDepthwiseGradient(KernelTable& table) {
  table.depthwise_rows_f16.gradient = DepthwiseGradient<Float16>;
  table.depthwise_rows_bf16.gradient = DepthwiseGradient<BFloat16>;
  table.depthwise_rows_f32.gradient = DepthwiseGradient<float>;
  table.depthwise_rows_f64.gradient = DepthwiseGradient<double>;
}

}  // namespace HWY_NAMESPACE
}  // namespace convgrad
HWY_AFTER_NAMESPACE();

#endif  // toggle
