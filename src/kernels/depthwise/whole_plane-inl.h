// Sums of taps over whole planes, straight from where they lie; see WholePlanes in plane.h.
// Included once per target.
//
// A row of a plane is one vector, or a few that are taken one after the other down all the planes.
// For every column of the filter a source row is loaded once, with zeros for what is off the plane,
// for all rows of results that meet it, whose sums slide. Nothing is copied between zeros first:
// small planes are a few hundred instructions each, and copying them was half of that.
#if defined(CONVGRAD_KERNELS_WHOLE_PLANE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CONVGRAD_KERNELS_WHOLE_PLANE_INL_H_
#undef CONVGRAD_KERNELS_WHOLE_PLANE_INL_H_
#else
#define CONVGRAD_KERNELS_WHOLE_PLANE_INL_H_
#endif

#include "kernels/depthwise/plane.h"
#include "kernels/simd/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace convgrad {
namespace HWY_NAMESPACE {

#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2

// The lanes from column `first` on that are columns of a row of `width`.
template <class D>
HWY_INLINE hn::Mask<D> ColumnsOnRow(D d, int64_t first, int64_t width) {
  constexpr int64_t kLanes = hn::MaxLanes(d);
  const auto lanes = [&](int64_t count) {
    return hn::FirstN(d, static_cast<size_t>(HWY_MIN(HWY_MAX(count, 0), kLanes)));
  };
  return hn::AndNot(lanes(-first), lanes(width - first));
}

// The weights of filters up to this size are made vectors once a plane: with 32 registers they stay
// there, beside a column of sums and a source; else multiply-adds read them from the stack.
inline constexpr int64_t kMostKeptSize = kManyRegisters ? 5 : 7;

// Vectors of a row that are summed together: with few registers two of 3x3 filters share what is
// read of the weights.
template <int64_t kSize>
inline constexpr int64_t kVectorsTogether = kManyRegisters || kSize > 3 ? 1 : 2;

// The weights of one filter, [row][column], as vectors.
template <int64_t kSize, class D>
using FilterVectors = hn::Vec<D>[kSize][kSize];

// For each of some vectors, one for each row or column of the filter.
template <int64_t kVectors, int64_t kSize, class V>
using PlaneVectors = V[kVectors][kSize];

// A vector of a row of the source. Of kMasked nothing off the row is read; else it becomes zero,
// which is two to three times as fast in all where Zen 4 has AVX2's masked loads only.
template <bool kMasked, class D, class T>
HWY_INLINE hn::Vec<D> LoadColumns(D d, hn::Mask<D> on_row, const T* from) {
  if constexpr (kMasked) return hn::MaskedLoad(on_row, d, from);
  return hn::IfThenElseZero(on_row, hn::LoadU(d, from));
}

// One row of the source into the sums of all rows of results that meet it: sums[v][i] belongs to
// the one that it meets with row i of the filter. Vectors begin `apart` columns from each other.
template <int64_t kSize, int64_t kVectors, bool kMasked, class D, class T>
HWY_INLINE void AddPlaneRow(D d, const T* source, int64_t apart,
                            const PlaneVectors<kVectors, kSize, hn::Mask<D> >& on_row,
                            const T* weights, const FilterVectors<kSize, D>& kept,
                            PlaneVectors<kVectors, kSize, hn::Vec<D> >& sums) {
#pragma GCC unroll 8
  for (int64_t j = 0; j < kSize; ++j) {
    hn::Vec<D> x[kVectors];
#pragma GCC unroll 2
    for (int64_t v = 0; v < kVectors; ++v) {
      x[v] = LoadColumns<kMasked>(d, on_row[v][j], source + v * apart + j);
    }
#pragma GCC unroll 8
    for (int64_t i = 0; i < kSize; ++i) {
      const auto weight = kSize <= kMostKeptSize ? kept[i][j] : hn::Set(d, weights[i * kSize + j]);
#pragma GCC unroll 2
      for (int64_t v = 0; v < kVectors; ++v) sums[v][i] = Fma(x[v], weight, sums[v][i]);
    }
  }
}

// The oldest sums are a row of results (-0 becomes +0, as in every fold); the others become older.
template <int64_t kSize, class D>
HWY_INLINE hn::Vec<D> EndPlaneRow(D d, hn::Vec<D> (&sums)[kSize]) {
  const auto result = CanonicalNaN(d, hn::Add(sums[kSize - 1], hn::Zero(d)));
#pragma GCC unroll 8
  for (int64_t i = kSize - 1; i > 0; --i) sums[i] = sums[i - 1];
  sums[0] = hn::Zero(d);
  return result;
}

// kVectors vectors of columns of `count` planes, from column `col` on and `apart` from each other.
// kWhole: they have no lane beyond the row.
template <int64_t kSize, int64_t kVectors, bool kWhole, bool kMasked, class D, class T>
HWY_NOINLINE void SumPlaneColumns(D d, const WholePlanes<T>& planes, int64_t first_plane,
                                  int64_t count, int64_t col, int64_t apart) {
  const int64_t width = planes.out_w, first_col = col - planes.pad_w;
  PlaneVectors<kVectors, kSize, hn::Mask<D> > on_row;
#pragma GCC unroll 2
  for (int64_t v = 0; v < kVectors; ++v) {
#pragma GCC unroll 8
    for (int64_t j = 0; j < kSize; ++j) {
      on_row[v][j] = ColumnsOnRow(d, first_col + v * apart + j, planes.source_w);
    }
  }
  const T* source = planes.source + first_plane * planes.source_h * planes.source_w + first_col;
  const T* weights = planes.weights + first_plane * kSize * kSize;
  const int64_t out_size = planes.out_h * width;
  T* out = planes.out + first_plane * out_size + col;
  T* const very_last = planes.out + planes.count * out_size + col - width;
  for (int64_t plane = 0; plane < count; ++plane, weights += kSize * kSize, out += out_size) {
    FilterVectors<kSize, D> kept;
    PlaneVectors<kVectors, kSize, hn::Vec<D> > sums;
#pragma GCC unroll 8
    for (int64_t i = 0; i < kSize; ++i) {
#pragma GCC unroll 2
      for (int64_t v = 0; v < kVectors; ++v) sums[v][i] = hn::Zero(d);
      if constexpr (kSize > kMostKeptSize) continue;
#pragma GCC unroll 8
      for (int64_t j = 0; j < kSize; ++j) kept[i][j] = hn::Set(d, weights[i * kSize + j]);
    }
    T* const last = out + out_size - width;
    const auto end_row = [&](T* to) HWY_ATTR {
#pragma GCC unroll 2
      for (int64_t v = 0; v < kVectors; ++v) {
        const auto result = EndPlaneRow<kSize>(d, sums[v]);
        if (to < out) continue;
        // Lanes beyond the row fall on the next one, or the next plane's, which is written later.
        if (kWhole || to != very_last) {
          hn::StoreU(result, d, to + v * apart);
        } else {
          hn::BlendedStore(result, hn::FirstN(d, static_cast<size_t>(width - col)), d, to);
        }
      }
    };
    T* to = out - (kSize - 1 - planes.pad_h) * width;
    for (int64_t row = 0; row < planes.source_h; ++row, to += width) {
      AddPlaneRow<kSize, kVectors, kMasked>(d, source, apart, on_row, weights, kept, sums);
      source += planes.source_w;
      end_row(to);
    }
    for (; to <= last; to += width) end_row(to);
  }
}

// kVectors vectors of columns of the planes, as above. Where loads are not masked, planes whose
// first and last rows have numbers beside them that may be read.
template <int64_t kSize, int64_t kVectors, bool kWhole, class D, class T>
void SumColumnsOfPlanes(D d, const WholePlanes<T>& planes, int64_t first_plane, int64_t count,
                        int64_t col, int64_t apart) {
  constexpr int64_t kBefore = kSize, kBehind = kSize + hn::MaxLanes(d);
  const int64_t size = planes.source_h * planes.source_w, end_plane = first_plane + count;
  const auto sum = [&](auto masked, int64_t begin, int64_t end) {
    if (begin >= end) return;
    SumPlaneColumns<kSize, kVectors, kWhole, masked()>(d, planes, begin, end - begin, col, apart);
  };
  if constexpr (kManyRegisters) {
    sum(std::true_type(), first_plane, end_plane);
  } else {
    // Ends of planes that are too near to what must not be read.
    const int64_t before = (HWY_MAX(0, kBefore - planes.readable_before) + size - 1) / size;
    const int64_t behind = (HWY_MAX(0, kBehind - planes.readable_behind) + size - 1) / size;
    const int64_t begin = HWY_MIN(end_plane, HWY_MAX(first_plane, before));
    const int64_t end = HWY_MAX(begin, HWY_MIN(end_plane, planes.count - behind));
    sum(std::true_type(), first_plane, begin);
    sum(std::false_type(), begin, end);
    sum(std::true_type(), end, end_plane);
  }
}

// Planes at a time, which stay in the first cache while their columns are taken.
template <int64_t kSize, class D, class T>
void SumPlaneVectors(D d, const WholePlanes<T>& planes) {
  constexpr int64_t kLanes = hn::MaxLanes(d), kNumbers = 2048, kTogether = kVectorsTogether<kSize>;
  const int64_t width = planes.out_w, last = width - kLanes;
  if (last < 0) return SumColumnsOfPlanes<kSize, 1, false>(d, planes, 0, planes.count, 0, 0);
  const int64_t step = HWY_MAX(1, kNumbers / (planes.source_h * planes.source_w));
  for (int64_t plane = 0; plane < planes.count; plane += step) {
    const int64_t count = HWY_MIN(step, planes.count - plane);
    // The last vector ends with the row.
    for (int64_t col = 0; col < width; col += kTogether * kLanes) {
      if (kTogether == 1 || col >= last) {
        SumColumnsOfPlanes<kSize, 1, true>(d, planes, plane, count, HWY_MIN(col, last), 0);
      } else {
        SumColumnsOfPlanes<kSize, kTogether, true>(d, planes, plane, count, col,
                                                   HWY_MIN(kLanes, last - col));
      }
    }
  }
}

// The widest vectors that a row fills by more than half.
template <int64_t kSize, class T>
void SumPlanesOfSize(const WholePlanes<T>& planes) {
  constexpr int64_t kLanes = hn::MaxLanes(hn::ScalableTag<T>());
  constexpr int64_t kLeast = kLeastPlaneWidth<T>, kHalf = HWY_MAX(kLeast, kLanes / 2);
  if (planes.out_w > kHalf) return SumPlaneVectors<kSize>(hn::CappedTag<T, kLanes>(), planes);
  if (planes.out_w > kLeast) return SumPlaneVectors<kSize>(hn::CappedTag<T, kHalf>(), planes);
  SumPlaneVectors<kSize>(hn::CappedTag<T, kLeast>(), planes);
}

template <class T>
void SumWholePlanes(const WholePlanes<T>& planes) {
  if (planes.size == 3) return SumPlanesOfSize<3>(planes);
  if (planes.size == 5) return SumPlanesOfSize<5>(planes);
  SumPlanesOfSize<7>(planes);
}

template <class T>
constexpr auto WholePlaneKernel() {
  return &SumWholePlanes<T>;
}

#else

template <class T>
constexpr void (*WholePlaneKernel())(const WholePlanes<T>&) {
  return nullptr;
}

#endif  // HWY_TARGET

}  // namespace HWY_NAMESPACE
}  // namespace convgrad
HWY_AFTER_NAMESPACE();

#endif  // toggle
