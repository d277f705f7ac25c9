// Filter gradients of 3x3 filters, some vectors of channels at a time; see depthwise.h. Included
// once per target.
//
// The sums of all taps stay in registers for all rows and images of a call: nine chains of each
// vector, which hide each other's latency. Vectors that are neighbours are lines of a pixel side by
// side, which come from the second cache faster than one line of more pixels. Rows at the edge of
// an image meet two rows of taps.
#if defined(CONVGRAD_KERNELS_DEPTHWISE_SHORT_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CONVGRAD_KERNELS_DEPTHWISE_SHORT_ROWS_INL_H_
#undef CONVGRAD_KERNELS_DEPTHWISE_SHORT_ROWS_INL_H_
#else
#define CONVGRAD_KERNELS_DEPTHWISE_SHORT_ROWS_INL_H_
#endif

#include "kernels/depthwise/depthwise_short_sums-inl.h"
#include "kernels/depthwise/depthwise_tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace convgrad {
namespace HWY_NAMESPACE {

// True where numbers are best loaded anew for each tap: they need not be widened, or both parts of
// a group are from one load.
template <class T>
inline constexpr bool kLoadsForEachTap = !kInStorage<T> || (kGroupParts<T> == 2 && kManyRegisters);

// `count` columns of the source of a row whose outputs and taps are neighbours, into the sums of
// taps [kFirst, kLast). g[k - 1] is the output that the place's column meets with tap k; the place
// moves on. A source vector is loaded once for all taps.
template <int64_t kPart, int64_t kFirst, int64_t kLast, int64_t kTop, int64_t kRows, class D,
          class T, class V, int64_t kVectors>
HWY_INLINE void AddColumns(D d, const DepthwiseGradientRows<T>& rows, int64_t count,
                           ShortRowsPlace<T, kRows>& at, V (&g)[kShortTaps][kVectors],
                           ShortSums<V, kVectors>& acc) {
  for (int64_t col = 0; col < count; ++col) {
#pragma GCC unroll 4
    for (int64_t k = kShortTaps - 1; k > 0; --k) {
#pragma GCC unroll 4
      for (int64_t v = 0; v < kVectors; ++v) g[k][v] = g[k - 1][v];
    }
    if constexpr (kFirst == 0) LoadVectors<kPart>(d, at.out_backprop, at.last_vector, g[0]);
#pragma GCC unroll 4
    for (int64_t i = 0; i < kRows; ++i) {
      V x[kVectors];
      LoadVectors<kPart>(d, at.source[i], at.last_vector, x);
#pragma GCC unroll 4
      for (int64_t v = 0; v < kVectors; ++v) {
        x[v] = InRegister(x[v]);
#pragma GCC unroll 4
        for (int64_t k = kFirst; k < kLast; ++k) {
          V& sum = acc.of[kTop + i][k][v];
          sum = Fma(x[v], g[k][v], sum);
        }
      }
    }
    at.Move(kFirst == 0 ? rows.out_backprop_stride : 0, rows.source_stride);
  }
}

// The first of the vectors of channels, where its sums are, and how many channels the last one lies
// behind it; and the outputs of each row all of whose taps are on the row.
struct ShortRowsPart {
  int64_t channel, slot, last_vector;
  int64_t first, last;
};

// A row whose outputs and taps are neighbours, of which at most the first and the last column are
// off the row.
template <int64_t kPart, int64_t kTop, int64_t kRows, class D, class T, class V, int64_t kVectors>
HWY_INLINE void AddNeighbours(D d, const DepthwiseGradientRows<T>& rows, int64_t row,
                              int64_t channel, LineFetcher& lines, ShortRowsPlace<T, kRows>& at,
                              ShortSums<V, kVectors>& acc) {
  const int64_t origin = rows.segments[0].origin, count = rows.count;
  V g[kShortTaps][kVectors];
  LoadVectors<kPart>(d, at.out_backprop, at.last_vector, g[0]);
#pragma GCC unroll 4
  for (int64_t v = 0; v < kVectors; ++v) g[1][v] = g[2][v] = hn::Zero(d);
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
template <int64_t kPart, int64_t kTop, int64_t kRows, class D, class T, class V, int64_t kVectors>
HWY_INLINE void AddAnyOutputs(D d, const DepthwiseGradientRows<T>& rows, int64_t row,
                              const ShortRowsPart& part, LineFetcher& lines,
                              ShortRowsPlace<T, kRows>& at, ShortSums<V, kVectors>& acc) {
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
template <int64_t kPart, bool kNeighbours, int64_t kTop, int64_t kRows, class D, class T, class V,
          int64_t kVectors>
HWY_INLINE void AddRows(D d, const DepthwiseGradientRows<T>& rows, int64_t source_at,
                        int64_t out_backprop_at, const ShortRowsPart& part, LineFetcher& lines,
                        ShortSums<V, kVectors>& acc) {
  source_at += rows.source_at + rows.segments[0].origin * rows.source_stride + part.channel;
  ShortRowsPlace<T, kRows> at;
  at.out_backprop = rows.out_backprop + out_backprop_at + part.channel;
  at.last_vector = part.last_vector;
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
template <int64_t kPart, int64_t kVectors, bool kNeighbours, class T>
HWY_NOINLINE void GradientOfVectors(const DepthwiseGradientImages<T>& images,
                                    const ShortRowsPart& part, ComputeType<T>* sums) {
  const hn::ScalableTag<ComputeType<T> > d;
  const int64_t tap_sums = images.groups[0].sums_stride;
  constexpr int64_t kLanes = kGroupSize<T> / kGroupParts<T>;
  ComputeType<T>* const first = sums + part.slot + kPart * kLanes;
  ShortSums<hn::Vec<decltype(d)>, kVectors> acc;
#pragma GCC unroll 16
  for (int64_t i = 0; i < kShortRows * kShortTaps; ++i) {
#pragma GCC unroll 4
    for (int64_t v = 0; v < kVectors; ++v) {
      acc.of[i / kShortTaps][i % kShortTaps][v] = hn::LoadU(d, first + i * tap_sums + v * kLanes);
    }
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
#pragma GCC unroll 4
    for (int64_t v = 0; v < kVectors; ++v) {
      hn::StoreU(acc.of[i / kShortTaps][i % kShortTaps][v], d, first + i * tap_sums + v * kLanes);
    }
  }
}

// True if the first cache keeps what a row of outputs meets of one vector of channels until the
// next row comes for it.
template <class T>
bool StaysInFirstCache(const DepthwiseGradientRows<T>& rows) {
  return LinesMet(rows, rows.count) <= LinesKept(rows);
}

// True if some vectors of channels are taken at a time: of rows that are fetched, only one.
template <class T>
bool TakesVectorsTogether(const DepthwiseGradientRows<T>& rows) {
  return kManyRegisters && rows.next.count + rows.next_out_backprop.count == 0;
}

// Returns how many of `left` groups of channels are taken next: three, or two where registers hold
// what neighbours meet; rather two and two than one alone. The last group may share some channels
// with the one before it.
inline int64_t GroupsTogether(int64_t left, bool neighbours) {
  const int64_t most = neighbours ? 2 : 3;
  return left == 4 ? 2 : HWY_MAX(1, HWY_MIN(left, most));
}

// True if AddNeighbours takes the rows.
template <class T>
bool AreNeighbours(const DepthwiseGradientRows<T>& rows) {
  const int64_t origin = rows.segments[0].origin;
  return rows.stride == 1 && rows.dilation == 1 && rows.count >= 2 && origin >= -1 &&
         origin + rows.count + 1 <= rows.num_cols;
}

// Short tiles are for 16 registers, and numbers that are loaded anew for each tap.
template <class T>
inline constexpr bool kHasShortTiles = kSlide && !kManyRegisters && !kInStorage<T>;

// True if short tiles take rows with a stride, of several vectors of channels: one vector of row
// after row would read parts of lines far from each other, most of them twice.
template <class T>
bool TakesShortTiles(const DepthwiseGradientRows<T>& rows) {
  return kHasShortTiles<T> && rows.stride > 1 && rows.num_segments > 1 &&
         rows.segments[0].num_taps == kShortTaps && rows.channels > kGroupSize<T>;
}

// True if the first cache keeps all that the rows meet, of all channels.
template <class T>
bool AllStayInFirstCache(const DepthwiseGradientImages<T>& images) {
  constexpr int64_t kBytes = 24 << 10;
  const DepthwiseGradientRows<T>& any = images.groups[0];
  int64_t num_rows = 0;
  for (int64_t i = 0; i < images.num_groups; ++i) num_rows += images.groups[i].num_rows;
  const int64_t source = HWY_MIN(any.stride, kShortRows) * ColumnsMet(any, any.count);
  const int64_t pixels = images.num_images * num_rows * (source + any.count);
  return pixels * any.source_stride * static_cast<int64_t>(sizeof(T)) <= kBytes;
}

// True if the vectors of many channels are taken some or one at a time sooner than all of a tile
// together: always if some. Single ones that are less than a line are not where a row is a tile, or
// where short tiles take it and not all of it stays in the first cache.
template <class T>
bool PaysByVectors(const DepthwiseGradientImages<T>& images) {
  const DepthwiseGradientRows<T>& rows = images.groups[0];
  constexpr int64_t kLine = LinesAhead::kLineBytes / sizeof(T);
  const bool fetches = rows.next.count + rows.next_out_backprop.count > 0;
  if (TakesVectorsTogether(rows)) return true;
  if (TakesShortTiles(rows)) return AllStayInFirstCache(images);
  if (kGroupSize<T> < kLine && (fetches || rows.count == kTile)) return false;
  if (fetches && rows.source_stride % kLine != 0) return false;
  return StaysInFirstCache(rows);
}

// The sums of the first tap if the rows of all groups meet some of three short rows of taps, and
// are best taken so; else null.
template <class T>
ComputeType<T>* SumsOfShortRows(const DepthwiseGradientImages<T>& images) {
  const DepthwiseGradientRows<T>& any = images.groups[0];
  if (!kLoadsForEachTap<T> && !AreNeighbours(any)) return nullptr;
  if (any.channels > kGroupSize<T> && !PaysByVectors(images)) return nullptr;
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
  ShortRowsPart part = {};
  part.first = FirstOnRow(rows);
  part.last = HWY_MAX(part.first, LastOnRow(rows));
  constexpr int64_t kSize = kGroupSize<T>, kParts = kGroupParts<T>;
  const bool neighbours = AreNeighbours(rows), together = TakesVectorsTogether(rows);
  const auto take = [&](auto index, auto vectors) {
    constexpr int64_t kVectors = vectors();
    if constexpr (kVectors <= 2) {
      if (neighbours) return GradientOfVectors<index(), kVectors, true>(images, part, sums);
    }
    if constexpr (kLoadsForEachTap<T>) {
      GradientOfVectors<index(), kVectors, false>(images, part, sums);
    }
  };
  constexpr std::integral_constant<int64_t, 0> kFirst;
  constexpr std::integral_constant<int64_t, 1> kOne;
  constexpr std::integral_constant<int64_t, 2> kTwo;
  constexpr std::integral_constant<int64_t, 3> kThree;
  int64_t count = 1;  // groups that are taken together
  for (part.slot = 0; part.slot < rows.channels; part.slot += count * kSize) {
    part.channel = FirstChannel(part.slot / kSize, kSize, rows.channels);
    if constexpr (!kManyRegisters) {
      take(kFirst, kOne);
      if constexpr (kParts == 2) take(kOne, kOne);
    } else if constexpr (kParts == 2) {
      take(kFirst, kTwo);
    } else {
      const int64_t left = (rows.channels - part.slot + kSize - 1) / kSize;
      count = together ? GroupsTogether(left, neighbours) : 1;
      part.last_vector =
          FirstChannel(part.slot / kSize + count - 1, kSize, rows.channels) - part.channel;
      if (count == 1) take(kFirst, kOne);
      if (count == 2) take(kFirst, kTwo);
      if (count == 3) take(kFirst, kThree);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace convgrad
HWY_AFTER_NAMESPACE();

#endif  // toggle
