// Sums of taps over whole planes with a stride of two; see WholePlanes in plane.h. Included once
// per target.
//
// Forward, even and odd columns of a source row are put apart in registers. In an input gradient,
// even and odd columns of results are sums of their own, and are put between each other when a row
// is done. So nothing is multiplied by what a stride skips.
#if defined(CONVGRAD_KERNELS_STRIDED_PLANE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CONVGRAD_KERNELS_STRIDED_PLANE_INL_H_
#undef CONVGRAD_KERNELS_STRIDED_PLANE_INL_H_
#else
#define CONVGRAD_KERNELS_STRIDED_PLANE_INL_H_
#endif

#include "kernels/depthwise/plane_walk-inl.h"

HWY_BEFORE_NAMESPACE();
namespace convgrad {
namespace HWY_NAMESPACE {

#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2

// Results at every second position of the source.
template <int64_t kSize>
struct SkippingPlanes {
  static constexpr int64_t kFilter = kSize, kResults = 1, kSources = 2;  // columns of a lane
  static constexpr int64_t kTogether = 1;
  // Pairs of columns of the filter, and rows of results that meet a row of the source.
  static constexpr int64_t kPairs = (kSize + 1) / 2, kLive = (kSize + 1) / 2;
  static constexpr bool kKeeps = KeepsWeights(kSize, kLive + 3);
  static constexpr bool kLeaveOut = kManyRegisters && kKeeps;

  template <class D>
  struct Masks {
    hn::Mask<D> of_tap[kSize];
    hn::Mask<D> low[kPairs], high[kPairs];  // of what is loaded for a pair
  };

  // A row of the source into the sums of the rows of results that meet it with rows kFirst, kFirst
  // + 2, ... of the filter.
  template <int64_t kFirst, Way kWay, class D, class T>
  static HWY_INLINE void AddRow(D d, const T* source, const Masks<D>& on_row,
                                const PlaneWeights<kSize, kKeeps, D, T>& weights,
                                hn::Vec<D> (&sums)[kLive]) {
    constexpr int64_t kLanes = hn::MaxLanes(d);
#pragma GCC unroll 4
    for (int64_t pair = 0; pair < kPairs; ++pair) {
      const T* const at = source + 2 * pair;
      const auto low = LoadColumns<kWay>(d, on_row.low[pair], at);
      const auto high = LoadColumns<kWay>(d, on_row.high[pair], at + kLanes);
#pragma GCC unroll 2
      for (int64_t j = 2 * pair; j < HWY_MIN(2 * pair + 2, kSize); ++j) {
        const hn::Mask<D> mask = on_row.of_tap[j];
        const auto apart = j % 2 == 0 ? hn::ConcatEven(d, high, low) : hn::ConcatOdd(d, high, low);
        const auto x = ZeroOffRow<kLeaveOut>(d, mask, apart);
#pragma GCC unroll 4
        for (int64_t i = kFirst; i < kSize; i += 2) {
          sums[i / 2] = AddOnRow<kLeaveOut>(d, mask, x, weights.At(d, i, j), sums[i / 2]);
        }
      }
    }
  }

  // Steps are counted from where the first row of the filter lies on the first of the source: an
  // even one ends a row of results, an odd one makes all rows older.
  template <int64_t kVectors, Way kWay, class D, class T>
  static HWY_NOINLINE void SumColumns(D d, const WholePlanes<T>& planes, int64_t first_plane,
                                      int64_t count, int64_t col, int64_t) {
    constexpr int64_t kLanes = hn::MaxLanes(d);
    const int64_t first_col = 2 * col - planes.pad_w;
    Masks<D> on_row;
#pragma GCC unroll 8
    for (int64_t j = 0; j < kSize; ++j) {
      on_row.of_tap[j] = ColumnsOnRow<2>(d, first_col + j, planes.source_w);
    }
#pragma GCC unroll 4
    for (int64_t pair = 0; pair < kPairs; ++pair) {
      on_row.low[pair] = ColumnsOnRow(d, first_col + 2 * pair, planes.source_w);
      on_row.high[pair] = ColumnsOnRow(d, first_col + 2 * pair + kLanes, planes.source_w);
    }
    const int64_t num_steps = 2 * planes.out_h + kSize - 2;
    const int64_t end_of_source = planes.pad_h + planes.source_h;
    PlaneWalk<T> walk(planes, first_plane, col, first_col);
    NextPlanes<kWay, T> next(planes, first_plane + count, count, col, first_col);
    for (int64_t plane = 0; plane < count; ++plane, walk.Next(planes)) {
      const PlaneWeights<kSize, kKeeps, D, T> weights(d, walk.weights);
      hn::Vec<D> sums[kLive];
#pragma GCC unroll 4
      for (int64_t i = 0; i < kLive; ++i) sums[i] = hn::Zero(d);
      const T* source = walk.source;
      T* to = walk.out - (kSize - 1 - planes.pad_h) / 2 * planes.out_row;
      for (int64_t step = planes.pad_h; step < num_steps; ++step, source += planes.source_row) {
        if (step % 2 == 0) {
          if (step < end_of_source) AddRow<0, kWay>(d, source, on_row, weights, sums);
          if (to >= walk.out) walk.Store(d, CanonicalSum(d, sums[kLive - 1]), to);
          to += planes.out_row;
          next.template Fetch<4 * kLanes, kLanes>();
        } else {
          if (step < end_of_source) AddRow<1, kWay>(d, source, on_row, weights, sums);
#pragma GCC unroll 4
          for (int64_t i = kLive - 1; i > 0; --i) sums[i] = sums[i - 1];
          sums[0] = hn::Zero(d);
        }
      }
    }
  }
};

// A source that lies at every second position of the results.
template <int64_t kSize>
struct SpreadPlanes {
  static constexpr int64_t kFilter = kSize, kResults = 2, kSources = 1;  // columns of a lane
  static constexpr int64_t kTogether = 1;
  static constexpr bool kKeeps = KeepsWeights(kSize, 2 * kSize + 1);
  static constexpr bool kLeaveOut = kManyRegisters && kKeeps;

  // The sums of results that meet even, or odd, columns of the filter; [i] of the row that meets
  // row i of it.
  template <class D>
  using Sums = hn::Vec<D>[2][kSize];

  // Where the columns of results from some on find the source.
  struct Place {
    explicit Place(int64_t first) : odd((first % 2 + 2) % 2), source((first - odd) / 2) {}
    // The column that the first lane reads with column j of the filter, from `source` on.
    int64_t Offset(int64_t j) const { return j % 2 == 0 ? j / 2 + odd : (j + 1) / 2; }

    int64_t odd;  // the parity of the filter's columns that the first result meets
    int64_t source;
  };

  template <Way kWay, class D, class T>
  static HWY_INLINE void AddRow(D d, const T* source, const Place& place,
                                const hn::Mask<D> (&on_row)[kSize],
                                const PlaneWeights<kSize, kKeeps, D, T>& weights, Sums<D>& sums) {
    const T* const of_parity[2] = {source + place.Offset(0), source + place.Offset(1)};
#pragma GCC unroll 8
    for (int64_t j = 0; j < kSize; ++j) {
      const auto loaded = LoadColumns<kWay>(d, on_row[j], of_parity[j % 2] + j / 2);
      const auto x = ZeroOffRow<kLeaveOut>(d, on_row[j], loaded);
#pragma GCC unroll 8
      for (int64_t i = 0; i < kSize; ++i) {
        auto& sum = sums[j % 2][i];
        sum = AddOnRow<kLeaveOut>(d, on_row[j], x, weights.At(d, i, j), sum);
      }
    }
  }

  // Puts lanes of two vectors between each other, in one vector where there is a wider one.
  template <class D>
  struct Merger {
    static constexpr int64_t kLanes = hn::MaxLanes(D());
    using T = hn::TFromD<D>;
    static constexpr bool kOne =
        2 * kLanes <= static_cast<int64_t>(hn::MaxLanes(hn::ScalableTag<T>()));
    using Both = hn::CappedTag<T, kOne ? 2 * kLanes : kLanes>;
    using Index = hn::TFromD<hn::RebindToSigned<D> >;

    HWY_INLINE Merger() {
      if constexpr (!kOne) return;
      const hn::RebindToSigned<Both> di;
      const auto lane = hn::Iota(di, 0);
      const auto odd = hn::And(lane, hn::Set(di, Index{1}));
      in_turn = hn::IndicesFromVec(
          Both(), hn::Add(hn::ShiftRight<1>(lane), hn::Mul(odd, hn::Set(di, Index{kLanes}))));
    }
    HWY_INLINE void Store(const PlaneWalk<T>& walk, hn::Vec<D> first, hn::Vec<D> second,
                          hn::Vec<Both>& seen, T* to) const {
      const D d;
      const Both both;
      if constexpr (kOne) {
        const auto apart = hn::Combine(both, second, first);
        walk.Store(both, ResultSeen(both, hn::TableLookupLanes(apart, in_turn), seen), to);
      } else if (HWY_LIKELY(walk.end - to >= 2 * kLanes)) {
        hn::StoreInterleaved2(ResultSeen(d, first, seen), ResultSeen(d, second, seen), d, to);
      } else {
        T results[2 * kLanes];
        hn::StoreInterleaved2(ResultSeen(d, first, seen), ResultSeen(d, second, seen), d, results);
        for (int64_t c = 0; c < HWY_MIN(walk.num_cols, 2 * kLanes); ++c) to[c] = results[c];
      }
    }

    decltype(hn::IndicesFromVec(Both(), hn::Zero(hn::RebindToSigned<Both>()))) in_turn;
  };

  // The sums of row i of the filter as a row of results. (Choosing between them where they are
  // would keep all sums in memory.)
  template <class D, class T>
  static HWY_INLINE void EndRow(const PlaneWalk<T>& walk, const Merger<D>& merger, int64_t i,
                                bool odd, const Sums<D>& sums,
                                hn::Vec<typename Merger<D>::Both>& seen, T* to) {
    const hn::Vec<D> of_even = sums[0][i], of_odd = sums[1][i];
    if (odd) {
      merger.Store(walk, of_odd, of_even, seen, to);
    } else {
      merger.Store(walk, of_even, of_odd, seen, to);
    }
  }

  // A row of the source is the last that two rows of results meet.
  template <int64_t kVectors, Way kWay, class D, class T>
  static HWY_NOINLINE void SumColumns(D d, const WholePlanes<T>& planes, int64_t first_plane,
                                      int64_t count, int64_t col, int64_t) {
    const Place place(col - planes.pad_w);
    hn::Mask<D> on_row[kSize];
#pragma GCC unroll 8
    for (int64_t j = 0; j < kSize; ++j) {
      on_row[j] = ColumnsOnRow(d, place.source + place.Offset(j), planes.source_w);
    }
    const Merger<D> merger;
    const typename Merger<D>::Both both;
    PlaneWalk<T> walk(planes, first_plane, col, place.source);
    NextPlanes<kWay, T> next(planes, first_plane + count, count, col, place.source);
    for (int64_t plane = 0; plane < count; ++plane, walk.Next(planes)) {
      const PlaneWeights<kSize, kKeeps, D, T> weights(d, walk.weights);
      auto seen = hn::Zero(both);
      Sums<D> sums;
#pragma GCC unroll 8
      for (int64_t i = 0; i < kSize; ++i) sums[0][i] = sums[1][i] = hn::Zero(d);
      const T* source = walk.source;
      int64_t result = planes.pad_h - (kSize - 1);
      for (int64_t row = 0; result < planes.out_h; ++row, result += 2) {
        if (row < planes.source_h) AddRow<kWay>(d, source, place, on_row, weights, sums);
        source += planes.source_row;
        next.template Fetch<hn::MaxLanes(d), 4 * hn::MaxLanes(d)>();
        T* const to = walk.out + result * planes.out_row;
        if (result >= 0) EndRow(walk, merger, kSize - 1, place.odd, sums, seen, to);
        if (result + 1 >= 0 && result + 1 < planes.out_h) {
          EndRow(walk, merger, kSize - 2, place.odd, sums, seen, to + planes.out_row);
        }
#pragma GCC unroll 2
        for (int64_t e = 0; e < 2; ++e) {
#pragma GCC unroll 8
          for (int64_t i = kSize - 1; i > 1; --i) sums[e][i] = sums[e][i - 2];
          sums[e][0] = sums[e][1] = hn::Zero(d);
        }
      }
      walk.EndPlane(both, planes, seen);
    }
  }
};

#endif  // HWY_TARGET

}  // namespace HWY_NAMESPACE
}  // namespace convgrad
HWY_AFTER_NAMESPACE();

#endif  // toggle
