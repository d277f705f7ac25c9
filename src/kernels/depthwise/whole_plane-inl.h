// Sums of taps over whole planes, straight from where they lie; see WholePlanes in plane.h.
// Included once per target.
//
// A row of a plane is one vector, or a few that are taken one after the other down all the planes.
// For every column of the filter a source row is loaded once for all rows of results that meet it,
// whose sums slide. Nothing is copied between zeros first: small planes are a few hundred
// instructions each, and copying them was half of that.
#if defined(CONVGRAD_KERNELS_WHOLE_PLANE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CONVGRAD_KERNELS_WHOLE_PLANE_INL_H_
#undef CONVGRAD_KERNELS_WHOLE_PLANE_INL_H_
#else
#define CONVGRAD_KERNELS_WHOLE_PLANE_INL_H_
#endif

#include <type_traits>

#include "kernels/depthwise/plane_walk-inl.h"
#include "kernels/depthwise/strided_plane-inl.h"
#include "kernels/kernel_table.h"

HWY_BEFORE_NAMESPACE();
namespace convgrad {
namespace HWY_NAMESPACE {

#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2

// Without a stride. kDilated: columns of the filter are apart; where they aren't, addresses are
// simpler.
template <int64_t kSize, bool kDilated>
struct SamePlanes {
  static constexpr int64_t kFilter = kSize, kResults = 1, kSources = 1;  // columns of a lane
  // Vectors of a row that are summed together: with few registers two of 3x3 filters share what is
  // read of the weights.
  static constexpr int64_t kTogether = kManyRegisters || kSize > 3 ? 1 : 2;
  static constexpr bool kKeeps = KeepsWeights(kSize, kSize + 1);
  static constexpr bool kLeaveOut = kManyRegisters && kKeeps;
  // Beside 25 weights, or with few registers, there is none for what is seen.
  static constexpr bool kLater = kManyRegisters && kSize != 5;

  // For each of some vectors, one for each row or column of the filter.
  template <int64_t kVectors, class V>
  using Vectors = V[kVectors][kSize];

  // One row of the source into the sums of all rows of results that meet it: sums[v][i] belongs to
  // the one that it meets with row i of the filter. Vectors begin `apart` columns from each other.
  template <int64_t kVectors, Way kWay, class D, class T>
  static HWY_INLINE void AddRow(D d, const T* source, int64_t apart, int64_t dilation,
                                const Vectors<kVectors, hn::Mask<D> >& on_row,
                                const PlaneWeights<kSize, kKeeps, D, T>& weights,
                                Vectors<kVectors, hn::Vec<D> >& sums) {
#pragma GCC unroll 8
    for (int64_t j = 0; j < kSize; ++j) {
      hn::Vec<D> x[kVectors];
#pragma GCC unroll 2
      for (int64_t v = 0; v < kVectors; ++v) {
        const T* const at = source + v * apart + j * dilation;
        x[v] = ZeroOffRow<kLeaveOut>(d, on_row[v][j], LoadColumns<kWay>(d, on_row[v][j], at));
      }
#pragma GCC unroll 8
      for (int64_t i = 0; i < kSize; ++i) {
        const auto weight = weights.At(d, i, j);
#pragma GCC unroll 2
        for (int64_t v = 0; v < kVectors; ++v) {
          sums[v][i] = AddOnRow<kLeaveOut>(d, on_row[v][j], x[v], weight, sums[v][i]);
        }
      }
    }
  }

  // kVectors vectors of columns of `count` planes, from column `col` on and `apart` from each
  // other.
  template <int64_t kVectors, Way kWay, class D, class T>
  static HWY_NOINLINE void SumColumns(D d, const WholePlanes<T>& planes, int64_t first_plane,
                                      int64_t count, int64_t col, int64_t apart) {
    constexpr int64_t kLanes = hn::MaxLanes(d);
    const int64_t step = planes.out_row, first_col = col - planes.pad_w;
    const int64_t dilation = kDilated ? planes.dilation : 1;
    Vectors<kVectors, hn::Mask<D> > on_row;
#pragma GCC unroll 2
    for (int64_t v = 0; v < kVectors; ++v) {
#pragma GCC unroll 8
      for (int64_t j = 0; j < kSize; ++j) {
        on_row[v][j] = ColumnsOnRow(d, first_col + v * apart + j * dilation, planes.source_w);
      }
    }
    PlaneWalk<T> walk(planes, first_plane, col, first_col);
    NextPlanes<kWay, T> next(planes, first_plane + count, count, col, first_col);
    for (int64_t plane = 0; plane < count; ++plane, walk.Next(planes)) {
      const PlaneWeights<kSize, kKeeps, D, T> weights(d, walk.weights);
      hn::Vec<D> seen = hn::Zero(d);
      Vectors<kVectors, hn::Vec<D> > sums;
#pragma GCC unroll 8
      for (int64_t i = 0; i < kSize; ++i) {
#pragma GCC unroll 2
        for (int64_t v = 0; v < kVectors; ++v) sums[v][i] = hn::Zero(d);
      }
      // The oldest sums are a row of results; the others become older.
      const auto end_row = [&](T* to) HWY_ATTR {
#pragma GCC unroll 2
        for (int64_t v = 0; v < kVectors; ++v) {
          const hn::Vec<D> oldest = sums[v][kSize - 1];
          if (to >= walk.out) {
            walk.Store(d, kLater ? ResultSeen(d, oldest, seen) : CanonicalSum(d, oldest),
                       to + v * apart);
          }
#pragma GCC unroll 8
          for (int64_t i = kSize - 1; i > 0; --i) sums[v][i] = sums[v][i - 1];
          sums[v][0] = hn::Zero(d);
        }
      };
      const T* source = walk.source;
      T* to = walk.out - (kSize - 1 - planes.pad_h) * step;
      T* const last = walk.out + (planes.out_h - 1) * step;
      for (int64_t row = 0; row < planes.source_h; ++row, to += step) {
        AddRow<kVectors, kWay>(d, source, apart, dilation, on_row, weights, sums);
        source += planes.source_row;
        next.template Fetch<kVectors * kLanes, kVectors * kLanes>();
        end_row(to);
      }
      for (; to <= last; to += step) end_row(to);
      if constexpr (kLater) walk.EndPlane(d, planes, seen);
    }
  }
};

// kVectors vectors of columns of the planes, as above. Loads are masked only in planes beside whose
// first or last rows nothing may be read.
template <class Walk, int64_t kVectors, class D, class T>
void SumColumnsOfPlanes(D d, const WholePlanes<T>& planes, int64_t first_plane, int64_t count,
                        int64_t col, int64_t apart) {
  constexpr int64_t kLanes = hn::MaxLanes(d);
  const int64_t span = Walk::kFilter * planes.dilation, reach = span + Walk::kSources * kLanes;
  const int64_t size = planes.source_plane, end_plane = first_plane + count;
  const auto sum = [&](auto way, int64_t begin, int64_t end) {
    if (begin >= end) return;
    Walk::template SumColumns<kVectors, way()>(d, planes, begin, end - begin, col, apart);
  };
  using Masked = std::integral_constant<Way, Way::kMasked>;
  // Ends of planes that are too near to what must not be read.
  const int64_t before = (HWY_MAX(0, span - planes.readable_before) + size - 1) / size;
  const int64_t behind = (HWY_MAX(0, reach - planes.readable_behind) + size - 1) / size;
  const int64_t begin = HWY_MIN(end_plane, HWY_MAX(first_plane, before));
  const int64_t end = HWY_MAX(begin, HWY_MIN(end_plane, planes.count - behind));
  sum(Masked(), first_plane, begin);
  if (planes.fetch_next) {
    sum(std::integral_constant<Way, Way::kFetching>(), begin, end);
  } else {
    sum(std::integral_constant<Way, Way::kPlain>(), begin, end);
  }
  sum(Masked(), end, end_plane);
}

// Planes at a time, which stay in the first cache while their columns are taken.
template <class Walk, class D, class T>
void SumPlaneVectors(D d, const WholePlanes<T>& planes) {
  constexpr int64_t kLanes = hn::MaxLanes(d), kNumbers = 2048, kTogether = Walk::kTogether;
  constexpr int64_t kCols = kLanes * Walk::kResults;
  const int64_t width = planes.out_w, last = width - kCols;
  if (last < 0) return SumColumnsOfPlanes<Walk, 1>(d, planes, 0, planes.count, 0, 0);
  const int64_t step = HWY_MAX(1, kNumbers / planes.source_plane);
  for (int64_t plane = 0; plane < planes.count; plane += step) {
    const int64_t count = HWY_MIN(step, planes.count - plane);
    // The last vector ends with the row.
    for (int64_t col = 0; col < width; col += kTogether * kCols) {
      if (kTogether == 1 || col >= last) {
        SumColumnsOfPlanes<Walk, 1>(d, planes, plane, count, HWY_MIN(col, last), 0);
      } else {
        SumColumnsOfPlanes<Walk, kTogether>(d, planes, plane, count, col,
                                            HWY_MIN(kCols, last - col));
      }
    }
  }
}

// The widest vectors that a row fills by more than half.
template <class Walk, class T>
void SumPlanesBy(const WholePlanes<T>& planes) {
  constexpr int64_t kLanes = hn::MaxLanes(hn::ScalableTag<T>());
  constexpr int64_t kLeast = kLeastPlaneWidth<T>, kHalf = HWY_MAX(kLeast, kLanes / 2);
  const int64_t lanes_of_row = (planes.out_w + Walk::kResults - 1) / Walk::kResults;
  if (lanes_of_row > kHalf) return SumPlaneVectors<Walk>(hn::CappedTag<T, kLanes>(), planes);
  if (lanes_of_row > kLeast) return SumPlaneVectors<Walk>(hn::CappedTag<T, kHalf>(), planes);
  SumPlaneVectors<Walk>(hn::CappedTag<T, kLeast>(), planes);
}

template <int64_t kSize, class T>
void SumPlanesOfSize(const WholePlanes<T>& planes) {
  if (planes.dilation > 1) return SumPlanesBy<SamePlanes<kSize, true> >(planes);
  if (planes.stride == 1) return SumPlanesBy<SamePlanes<kSize, false> >(planes);
  if (planes.spread) return SumPlanesBy<SpreadPlanes<kSize> >(planes);
  SumPlanesBy<SkippingPlanes<kSize> >(planes);
}

template <class T>
void SumWholePlanes(const WholePlanes<T>& planes) {
  if (planes.size == 3) return SumPlanesOfSize<3>(planes);
  if (planes.size == 5) return SumPlanesOfSize<5>(planes);
  SumPlanesOfSize<7>(planes);
}

inline void FillWholePlane(KernelTable& table) {
  table.plane_f32.sum_whole = SumWholePlanes<float>;
  table.plane_f64.sum_whole = SumWholePlanes<double>;
}

#else

inline void FillWholePlane(KernelTable& table) {
  table.plane_f32.sum_whole = nullptr;
  table.plane_f64.sum_whole = nullptr;
}

#endif  // HWY_TARGET

}  // namespace HWY_NAMESPACE
}  // namespace convgrad
HWY_AFTER_NAMESPACE();

#endif  // toggle
