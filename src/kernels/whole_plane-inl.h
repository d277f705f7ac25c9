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

#include "kernels/plane.h"
#include "kernels/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace convgrad {
namespace HWY_NAMESPACE {

// With 16 registers the weights are loaded again for every term, and masked loads need registers of
// their own: slower than copying or transposing (AVX2: 1.1 to 2 times).
#if HWY_TARGET == HWY_AVX3

// The lanes from column `first` on that are columns of a row of `width`.
template <class D>
HWY_INLINE hn::Mask<D> ColumnsOnRow(D d, int64_t first, int64_t width) {
  constexpr int64_t kLanes = hn::MaxLanes(d);
  const auto lanes = [&](int64_t count) {
    return hn::FirstN(d, static_cast<size_t>(HWY_MIN(HWY_MAX(count, 0), kLanes)));
  };
  return hn::AndNot(lanes(-first), lanes(width - first));
}

// The weights of filters up to this size stay in registers, beside a column of sums and a source.
inline constexpr int64_t kMostKeptSize = 5;

// The weights of one filter, [row][column], as vectors.
template <int64_t kSize, class D>
using FilterVectors = hn::Vec<D>[kSize][kSize];

// One row of the source into the sums of all rows of results that meet it: sums[i] belongs to the
// one that it meets with row i of the filter.
template <int64_t kSize, class D, class T>
HWY_INLINE void AddPlaneRow(D d, const T* source, const hn::Mask<D> (&on_row)[kSize],
                            const T* weights, const FilterVectors<kSize, D>& kept,
                            hn::Vec<D> (&sums)[kSize]) {
#pragma GCC unroll 8
  for (int64_t j = 0; j < kSize; ++j) {
    const auto x = hn::MaskedLoad(on_row[j], d, source + j);
#pragma GCC unroll 8
    for (int64_t i = 0; i < kSize; ++i) {
      const auto weight = kSize <= kMostKeptSize ? kept[i][j] : hn::Set(d, weights[i * kSize + j]);
      sums[i] = Fma(x, weight, sums[i]);
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

// One vector of columns of `count` planes. kWhole: it has no lane beyond the row.
template <int64_t kSize, bool kWhole, class D, class T>
HWY_NOINLINE void SumPlaneColumns(D d, const WholePlanes<T>& planes, int64_t first_plane,
                                  int64_t count, int64_t col) {
  const int64_t width = planes.out_w, first_col = col - planes.pad_w;
  hn::Mask<D> on_row[kSize];
#pragma GCC unroll 8
  for (int64_t j = 0; j < kSize; ++j) on_row[j] = ColumnsOnRow(d, first_col + j, planes.source_w);
  [[maybe_unused]] const auto on_out = hn::FirstN(d, static_cast<size_t>(width - col));
  const T* source = planes.source + first_plane * planes.source_h * planes.source_w + first_col;
  const T* weights = planes.weights + first_plane * kSize * kSize;
  const int64_t out_size = planes.out_h * width;
  T* out = planes.out + first_plane * out_size + col;
  for (int64_t plane = 0; plane < count; ++plane, weights += kSize * kSize, out += out_size) {
    FilterVectors<kSize, D> kept;
    hn::Vec<D> sums[kSize];
#pragma GCC unroll 8
    for (int64_t i = 0; i < kSize; ++i) {
      sums[i] = hn::Zero(d);
      if constexpr (kSize > kMostKeptSize) continue;
#pragma GCC unroll 8
      for (int64_t j = 0; j < kSize; ++j) kept[i][j] = hn::Set(d, weights[i * kSize + j]);
    }
    T* const last = out + out_size - width;
    const auto end_row = [&](T* to) HWY_ATTR {
      const auto result = EndPlaneRow<kSize>(d, sums);
      if (to < out) return;
      // Lanes beyond the row fall on the next one, which is written later.
      if (kWhole || to != last) {
        hn::StoreU(result, d, to);
      } else {
        hn::BlendedStore(result, on_out, d, to);
      }
    };
    T* to = out - (kSize - 1 - planes.pad_h) * width;
    for (int64_t row = 0; row < planes.source_h; ++row, to += width) {
      AddPlaneRow<kSize>(d, source, on_row, weights, kept, sums);
      source += planes.source_w;
      end_row(to);
    }
    for (; to <= last; to += width) end_row(to);
  }
}

// Planes at a time, which stay in the first cache while their columns are taken.
template <int64_t kSize, class D, class T>
void SumPlaneVectors(D d, const WholePlanes<T>& planes) {
  constexpr int64_t kLanes = hn::MaxLanes(d), kNumbers = 2048;
  const int64_t width = planes.out_w;
  if (width < kLanes) return SumPlaneColumns<kSize, false>(d, planes, 0, planes.count, 0);
  const int64_t step = HWY_MAX(1, kNumbers / (planes.source_h * planes.source_w));
  for (int64_t plane = 0; plane < planes.count; plane += step) {
    const int64_t count = HWY_MIN(step, planes.count - plane);
    for (int64_t col = 0; col < width; col += kLanes) {
      SumPlaneColumns<kSize, true>(d, planes, plane, count, HWY_MIN(col, width - kLanes));
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
