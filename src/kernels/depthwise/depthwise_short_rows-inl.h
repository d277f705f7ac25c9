// Filter gradients of 3x3 filters, one vector of channels at a time; see depthwise.h. Included once
// per target.
//
// The sums of all taps stay in registers for all rows and images of a call: nine chains, which hide
// each other's latency. Rows at the edge of an image meet two rows of taps.
#if defined(CONVGRAD_KERNELS_DEPTHWISE_SHORT_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CONVGRAD_KERNELS_DEPTHWISE_SHORT_ROWS_INL_H_
#undef CONVGRAD_KERNELS_DEPTHWISE_SHORT_ROWS_INL_H_
#else
#define CONVGRAD_KERNELS_DEPTHWISE_SHORT_ROWS_INL_H_
#endif

#include "kernels/depthwise/depthwise_tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace convgrad {
namespace HWY_NAMESPACE {

// Rows of taps, and taps of each.
inline constexpr int64_t kShortRows = 3, kShortTaps = 3;

// An output of one row and of one vector of channels, and what its first taps meet. It moves along
// the row: addresses must not need more registers than there are.
template <class T, int64_t kRows>
struct ShortRowsPlace {
  const T* out_backprop;
  const T* source[kRows];

  HWY_INLINE void Move(int64_t out_backprop_by, int64_t source_by) {
    out_backprop += out_backprop_by;
#pragma GCC unroll 4
    for (int64_t i = 0; i < kRows; ++i) source[i] += source_by;
  }
};

// The sums of all taps.
template <class V>
struct ShortSums {
  V of[kShortRows][kShortTaps];

  HWY_INLINE ShortSums() {}  // one that the compiler adds is not for this target
};

// The outputs from `begin` to `end` of a row into the sums of kRows rows of taps, from the kTop-th
// on. kChecked: some taps may be off the row.
template <int64_t kPart, bool kChecked, int64_t kTop, class D, class T, class V, int64_t kRows>
HWY_INLINE void AddOutputs(D d, const DepthwiseGradientRows<T>& rows, int64_t begin, int64_t end,
                           ShortRowsPlace<T, kRows>& at, ShortSums<V>& acc) {
  const int64_t tap_step = rows.dilation * rows.source_stride;
  int64_t col = rows.segments[0].origin + begin * rows.stride;
  for (int64_t t = begin; t < end; ++t, col += rows.stride) {
    const V g = LoadPart<kPart>(d, at.out_backprop);
#pragma GCC unroll 4
    for (int64_t k = 0; k < kShortTaps; ++k) {
      const auto tap_col = static_cast<uint64_t>(col + k * rows.dilation);
      if (kChecked && tap_col >= static_cast<uint64_t>(rows.num_cols)) continue;
#pragma GCC unroll 4
      for (int64_t i = 0; i < kRows; ++i) {
        V& sum = acc.of[kTop + i][k];
        sum = Fma(LoadPart<kPart>(d, at.source[i] + k * tap_step), g, sum);
      }
    }
    at.Move(rows.out_backprop_stride, rows.stride * rows.source_stride);
  }
}

// `count` columns of the source of a row whose outputs and taps are neighbours, into the sums of
// taps [kFirst, kLast). g[k - 1] is the output that the place's column meets with tap k; the place
// moves on. A source vector is loaded once for all taps.
template <int64_t kPart, int64_t kFirst, int64_t kLast, int64_t kTop, int64_t kRows, class D,
          class T, class V>
HWY_INLINE void AddColumns(D d, const DepthwiseGradientRows<T>& rows, int64_t count,
                           ShortRowsPlace<T, kRows>& at, V (&g)[kShortTaps], ShortSums<V>& acc) {
  for (int64_t col = 0; col < count; ++col) {
#pragma GCC unroll 4
    for (int64_t k = kShortTaps - 1; k > 0; --k) g[k] = g[k - 1];
    if constexpr (kFirst == 0) g[0] = LoadPart<kPart>(d, at.out_backprop);
#pragma GCC unroll 4
    for (int64_t i = 0; i < kRows; ++i) {
      const V x = InRegister(LoadPart<kPart>(d, at.source[i]));
#pragma GCC unroll 4
      for (int64_t k = kFirst; k < kLast; ++k) {
        acc.of[kTop + i][k] = Fma(x, g[k], acc.of[kTop + i][k]);
      }
    }
    at.Move(kFirst == 0 ? rows.out_backprop_stride : 0, rows.source_stride);
  }
}

// One vector of channels and where its sums are; and the outputs of each row all of whose taps are
// on the row.
struct ShortRowsPart {
  int64_t channel, slot;
  int64_t first, last;
};

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

// A row whose outputs and taps are neighbours, of which at most the first and the last column are
// off the row.
template <int64_t kPart, int64_t kTop, int64_t kRows, class D, class T, class V>
HWY_INLINE void AddNeighbours(D d, const DepthwiseGradientRows<T>& rows, int64_t row,
                              int64_t channel, LineFetcher& lines, ShortRowsPlace<T, kRows>& at,
                              ShortSums<V>& acc) {
  const int64_t origin = rows.segments[0].origin, count = rows.count;
  V g[kShortTaps] = {LoadPart<kPart>(d, at.out_backprop), hn::Zero(d), hn::Zero(d)};
  if (origin >= 0) {
    AddColumns<kPart, 0, 1, kTop>(d, rows, 1, at, g, acc);
  } else {
    at.Move(rows.out_backprop_stride, rows.source_stride);
  }
  AddColumns<kPart, 0, 2, kTop>(d, rows, 1, at, g, acc);
  for (int64_t col = 2, fetched = 0; fetched < count; col = fetched) {
    const int64_t end = Fetches(rows) ? HWY_MIN(col + kTile, count) : count;
    FetchForColumns<kPart>(rows, row, channel, fetched, end, lines);
    AddColumns<kPart, 0, 3, kTop>(d, rows, end - col, at, g, acc);
    fetched = end;
  }
  AddColumns<kPart, 1, 3, kTop>(d, rows, 1, at, g, acc);
  if (origin + count + 2 <= rows.num_cols) {
    AddColumns<kPart, 2, 3, kTop>(d, rows, 1, at, g, acc);
  } else {
    at.Move(0, rows.source_stride);
  }
  at.Move(0, -2 * rows.source_stride);
}

// All outputs of a row, by what their taps may be off the row.
template <int64_t kPart, int64_t kTop, int64_t kRows, class D, class T, class V>
HWY_INLINE void AddAnyOutputs(D d, const DepthwiseGradientRows<T>& rows, int64_t row,
                              const ShortRowsPart& part, LineFetcher& lines,
                              ShortRowsPlace<T, kRows>& at, ShortSums<V>& acc) {
  AddOutputs<kPart, true, kTop>(d, rows, 0, part.first, at, acc);
  for (int64_t t = part.first, fetched = 0, end = t; fetched < rows.count; t = end) {
    end = Fetches(rows) ? HWY_MIN(t + kTile, part.last) : part.last;
    const int64_t fetch_end = end == part.last ? rows.count : end;
    FetchForColumns<kPart>(rows, row, part.channel, fetched, fetch_end, lines);
    AddOutputs<kPart, false, kTop>(d, rows, t, end, at, acc);
    fetched = fetch_end;
  }
  AddOutputs<kPart, true, kTop>(d, rows, part.last, rows.count, at, acc);
}

// Rows that meet kRows rows of taps, from the kTop-th on, of an image that lies behind the first
// one.
template <int64_t kPart, bool kNeighbours, int64_t kTop, int64_t kRows, class D, class T, class V>
HWY_INLINE void AddRows(D d, const DepthwiseGradientRows<T>& rows, int64_t source_at,
                        int64_t out_backprop_at, const ShortRowsPart& part, LineFetcher& lines,
                        ShortSums<V>& acc) {
  source_at += rows.source_at + rows.segments[0].origin * rows.source_stride + part.channel;
  ShortRowsPlace<T, kRows> at;
  at.out_backprop = rows.out_backprop + out_backprop_at + part.channel;
#pragma GCC unroll 4
  for (int64_t i = 0; i < kRows; ++i) at.source[i] = rows.segments[i].source + source_at;
  for (int64_t row = 0; row < rows.num_rows; ++row) {
    if constexpr (kNeighbours) {
      AddNeighbours<kPart, kTop>(d, rows, row, part.channel, lines, at, acc);
    } else {
      AddAnyOutputs<kPart, kTop>(d, rows, row, part, lines, at, acc);
    }
    at.Move(rows.out_backprop_row_step - rows.count * rows.out_backprop_stride,
            rows.source_row_step - rows.count * rows.stride * rows.source_stride);
  }
}

// With kNeighbours the rows are such as AddNeighbours takes. `sums` are those of the first tap.
template <int64_t kPart, bool kNeighbours, class T>
HWY_NOINLINE void GradientOfVector(const DepthwiseGradientImages<T>& images,
                                   const ShortRowsPart& part, ComputeType<T>* sums) {
  const hn::ScalableTag<ComputeType<T> > d;
  const int64_t tap_sums = images.groups[0].sums_stride;
  ComputeType<T>* const first = sums + part.slot + kPart * (kGroupSize<T> / kGroupParts<T>);
  ShortSums<hn::Vec<decltype(d)> > acc;
#pragma GCC unroll 16
  for (int64_t i = 0; i < kShortRows * kShortTaps; ++i) {
    acc.of[i / kShortTaps][i % kShortTaps] = hn::LoadU(d, first + i * tap_sums);
  }
  LineFetcher lines(images.groups[0].ahead);
  const DepthwiseGradientRows<T>* const end = images.groups + images.num_groups;
  int64_t source_at = images.source_at, out_backprop_at = images.out_backprop_at;
  for (int64_t image = 0; image < images.num_images; ++image) {
    for (const auto* rows = images.groups; rows != end; ++rows) {
      const auto add = [&](auto top, auto num_rows) HWY_ATTR {
        AddRows<kPart, kNeighbours, top(), num_rows()>(d, *rows, source_at, out_backprop_at, part,
                                                       lines, acc);
      };
      constexpr std::integral_constant<int64_t, 0> kFirst;
      constexpr std::integral_constant<int64_t, 1> kSecond;
      constexpr std::integral_constant<int64_t, kShortRows> kAll;
      constexpr std::integral_constant<int64_t, kShortRows - 1> kButOne;
      if (rows->num_segments == kShortRows) {
        add(kFirst, kAll);
      } else if (rows->segments[0].sums == sums) {
        add(kFirst, kButOne);
      } else {
        add(kSecond, kButOne);
      }
    }
    source_at += images.source_step;
    out_backprop_at += images.out_backprop_step;
  }
#pragma GCC unroll 16
  for (int64_t i = 0; i < kShortRows * kShortTaps; ++i) {
    hn::StoreU(acc.of[i / kShortTaps][i % kShortTaps], d, first + i * tap_sums);
  }
}

// Sets of the first cache that pixels at such a distance lie in.
template <class T>
int64_t SetsOfPixels(const DepthwiseGradientRows<T>& rows) {
  constexpr int64_t kSets = 64;
  const int64_t apart = rows.source_stride * static_cast<int64_t>(sizeof(T));
  const int64_t lines = apart / LinesAhead::kLineBytes;
  return apart % LinesAhead::kLineBytes != 0 ? kSets : kSets / HWY_MIN(kSets, lines & -lines);
}

// True if the first cache keeps what a row of outputs meets of one vector of channels until the
// next row comes for it.
template <class T>
bool StaysInFirstCache(const DepthwiseGradientRows<T>& rows) {
  constexpr int64_t kWays = 8;
  const int64_t columns = (rows.count - 1) * rows.stride + kShortTaps;
  return kShortRows * columns + rows.count <= kWays * SetsOfPixels(rows);
}

// True if several vectors of channels are taken one by one sooner than all of a tile together. A
// row that is a tile is not, unless lines are vectors: then the second cache, if it has them, also
// gives most of them in time.
template <class T>
bool PaysByVectors(const DepthwiseGradientRows<T>& rows) {
  constexpr int64_t kLines = LinesAhead::kLineBytes / sizeof(T), kUncrowded = 16;
  const bool fetches = rows.next.count + rows.next_out_backprop.count > 0;
  if (rows.count == kTile && kGroupSize<T> < kLines) return false;
  if (fetches && (kGroupSize<T> < kLines || rows.source_stride % kLines != 0)) return false;
  if (!fetches && kGroupSize<T> == kLines && SetsOfPixels(rows) >= kUncrowded) return true;
  return StaysInFirstCache(rows);
}

// True if AddNeighbours takes the rows.
template <class T>
bool AreNeighbours(const DepthwiseGradientRows<T>& rows) {
  const int64_t origin = rows.segments[0].origin;
  return rows.stride == 1 && rows.dilation == 1 && rows.count >= 2 && origin >= -1 &&
         origin + rows.count + 1 <= rows.num_cols;
}

// The sums of the first tap if the rows of all groups meet some of three short rows of taps, and
// are best taken so; else null.
template <class T>
ComputeType<T>* SumsOfShortRows(const DepthwiseGradientImages<T>& images) {
  const DepthwiseGradientRows<T>& any = images.groups[0];
  // Numbers of 16 bits are widened anew for each tap, unless taps are neighbours.
  if (kInStorage<T> && !AreNeighbours(any)) return nullptr;
  if (any.channels > kGroupSize<T> && !PaysByVectors(any)) return nullptr;
  const DepthwiseGradientRows<T>* const end = images.groups + images.num_groups;
  ComputeType<T>* first = any.segments[0].sums;
  for (const auto* rows = images.groups; rows != end; ++rows) {
    first = HWY_MIN(first, rows->segments[0].sums);
  }
  const int64_t row_sums = kShortTaps * any.sums_stride;
  bool meets_last = false;
  for (const auto* rows = images.groups; rows != end; ++rows) {
    for (int64_t i = 0; i < rows->num_segments; ++i) {
      const DepthwiseSegment<T>& segment = rows->segments[i];
      const int64_t at = segment.sums - first;
      if (segment.num_taps != kShortTaps || segment.origin != any.segments[0].origin ||
          at % row_sums != 0 || at / row_sums >= kShortRows) {
        return nullptr;
      }
      meets_last |= at / row_sums == kShortRows - 1;
    }
  }
  return meets_last ? first : nullptr;
}

// True if a kernel of their own takes such rows. Those that meet one row of taps are rare: small
// images with a dilation have some.
template <class T>
bool AreShortRows(const DepthwiseGradientRows<T>& rows) {
  return rows.num_segments >= kShortRows - 1;
}

// Images of such rows.
template <class T>
void GradientOfShortRows(const DepthwiseGradientImages<T>& images, ComputeType<T>* sums) {
  const DepthwiseGradientRows<T>& rows = images.groups[0];
  const int64_t origin = rows.segments[0].origin, stride = rows.stride;
  const int64_t room = rows.num_cols - origin - (kShortTaps - 1) * rows.dilation;
  ShortRowsPart part = {};
  part.first = HWY_MIN(rows.count, HWY_MAX(0, (stride - 1 - origin) / stride));
  part.last = HWY_MAX(part.first, HWY_MIN(rows.count, (room + stride - 1) / stride));
  constexpr int64_t kSize = kGroupSize<T>;
  const bool neighbours = AreNeighbours(rows);
  for (part.slot = 0; part.slot < rows.channels; part.slot += kSize) {
    part.channel = FirstChannel(part.slot / kSize, kSize, rows.channels);
    const auto take = [&](auto index) {
      if (neighbours) return GradientOfVector<index(), true>(images, part, sums);
      if constexpr (!kInStorage<T>) GradientOfVector<index(), false>(images, part, sums);
    };
    take(std::integral_constant<int64_t, 0>());
    if constexpr (kGroupParts<T> == 2) take(std::integral_constant<int64_t, 1>());
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace convgrad
HWY_AFTER_NAMESPACE();

#endif  // toggle
