// Plane kernels; see plane.h. Included once per target.
//
// A tile is a few vectors of columns; the loop over rows is inside it. A row of the source meets
// the taps of up to kLive rows of results at once, whose sums slide: each vector is loaded once for
// all of them. Vectors are chosen narrow enough that a row has two or more, and the last one ends
// with the row, over columns that others compute as well: nothing is masked and nothing behind a
// row touched.
#if defined(CONVGRAD_KERNELS_PLANE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CONVGRAD_KERNELS_PLANE_INL_H_
#undef CONVGRAD_KERNELS_PLANE_INL_H_
#else
#define CONVGRAD_KERNELS_PLANE_INL_H_
#endif

#include <type_traits>

#include "kernels/depthwise/plane.h"
#include "kernels/depthwise/split-inl.h"
#include "kernels/kernel_table.h"
#include "kernels/simd/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace convgrad {
namespace HWY_NAMESPACE {

// The sums of a tile: acc[q][v] belongs to the row of results q before the newest.
template <int64_t kLive, int64_t kVectors, class D>
using LiveSums = hn::Vec<D>[kLive][kVectors];

// One row of the source into the kRows newest sums. Weights of a term lie `weight_step` apart.
template <int64_t kRows, int64_t kLive, int64_t kVectors, class D, class T>
HWY_INLINE void AddSourceRow(D d, const T* source, const int64_t* offsets, int64_t num_terms,
                             const T* weights, int64_t weight_step, const int64_t* cols,
                             LiveSums<kLive, kVectors, D>& acc) {
  using V = hn::Vec<D>;
  const T* first = source + cols[0];
  for (int64_t term = 0; term < num_terms; ++term, weights += weight_step) {
    const T* at = first + offsets[term];
    V x[kVectors];
#pragma GCC unroll 4
    for (int64_t v = 0; v < kVectors; ++v) x[v] = hn::LoadU(d, at + (cols[v] - cols[0]));
#pragma GCC unroll 16
    for (int64_t q = 0; q < kRows; ++q) {
      const V weight = hn::Set(d, weights[q]);
#pragma GCC unroll 4
      for (int64_t v = 0; v < kVectors; ++v) acc[q][v] = Fma(x[v], weight, acc[q][v]);
    }
  }
}

// The same with kTerms terms of kLive rows, whose weights are in registers.
template <int64_t kRows, int64_t kTerms, int64_t kLive, int64_t kVectors, class D, class T>
HWY_INLINE void AddSourceRowKept(D d, const T* source, const int64_t* offsets, const int64_t* cols,
                                 const hn::Vec<D> (&weights)[kTerms][kLive],
                                 LiveSums<kLive, kVectors, D>& acc) {
#pragma GCC unroll 4
  for (int64_t term = 0; term < kTerms; ++term) {
    const T* at = source + cols[0] + offsets[term];
#pragma GCC unroll 4
    for (int64_t v = 0; v < kVectors; ++v) {
      const auto x = hn::LoadU(d, at + (cols[v] - cols[0]));
#pragma GCC unroll 16
      for (int64_t q = 0; q < kRows; ++q) acc[q][v] = Fma(x, weights[term][q], acc[q][v]);
    }
  }
}

// Calls body(count as a constant) for 1 <= count <= kMost.
template <int64_t kMost, class Body>
HWY_INLINE void WithCount(int64_t count, const Body& body) {
  if (count == kMost) return body(std::integral_constant<int64_t, kMost>());
  if constexpr (kMost > 1) WithCount<kMost - 1>(count, body);
}

// Writes the oldest row of sums (-0 becomes +0, as in every fold).
template <int64_t kLive, int64_t kVectors, class D, class T>
HWY_INLINE void StoreOldest(D d, T* out, const int64_t* cols,
                            const LiveSums<kLive, kVectors, D>& acc) {
#pragma GCC unroll 4
  for (int64_t v = 0; v < kVectors; ++v) {
    hn::StoreU(CanonicalSum(d, acc[kLive - 1][v]), d, out + cols[v]);
  }
}

// Every row of sums becomes a step older; a new one starts.
template <int64_t kLive, int64_t kVectors, class D>
HWY_INLINE void SlideSums(D d, LiveSums<kLive, kVectors, D>& acc) {
#pragma GCC unroll 4
  for (int64_t v = 0; v < kVectors; ++v) {
#pragma GCC unroll 16
    for (int64_t q = kLive - 1; q > 0; --q) acc[q][v] = acc[q - 1][v];
    acc[0][v] = hn::Zero(d);
  }
}

// Weights of so many terms stay in registers, where there are 32: 3 x 3 of them, 12 sums, 4
// vectors.
inline constexpr int64_t kKeptTerms = 3;

// All rows of kVectors vectors of columns. kKept: of kKeptTerms terms, whose weights are the same
// at every visit.
template <int64_t kLive, int64_t kVectors, bool kKept, class D, class T>
HWY_NOINLINE void SumColumns(D d, const PlaneRows<T>& rows, const int64_t* cols) {
  constexpr uintptr_t kLine = 64;
  const int64_t num_lines = cols[0] == 0 ? rows.lines_a_visit : 0;
  uintptr_t next = rows.next;
  LiveSums<kLive, kVectors, D> acc;
#pragma GCC unroll 16
  for (int64_t q = 0; q < kLive; ++q) {
#pragma GCC unroll 4
    for (int64_t v = 0; v < kVectors; ++v) acc[q][v] = hn::Zero(d);
  }
  [[maybe_unused]] hn::Vec<D> weights[kKeptTerms][kLive];
  if constexpr (kKept) {
#pragma GCC unroll 4
    for (int64_t term = 0; term < kKeptTerms; ++term) {
#pragma GCC unroll 16
      for (int64_t q = 0; q < kLive; ++q)
        weights[term][q] = hn::Set(d, rows.weights[term * kLive + q]);
    }
  }
  const PlaneVisit* const end = rows.visits + rows.num_visits;
  T* out = rows.out - (kLive - 1) * rows.out_stride;
  for (const PlaneVisit* visit = rows.visits; visit != end; ++visit) {
    WithCount<kLive>(visit->live, [&](auto live) HWY_ATTR {
      const T* const source = rows.source + visit->row * rows.source_stride;
      if constexpr (kKept) {
        AddSourceRowKept<live()>(d, source, rows.offsets, cols, weights, acc);
      } else {
        AddSourceRow<live(), kLive, kVectors>(d, source, rows.offsets, rows.num_terms,
                                              rows.weights + visit->weights * rows.num_terms,
                                              visit->num_rows, cols, acc);
      }
    });
    for (int64_t line = 0; line < num_lines; ++line, next += kLine) {
      __builtin_prefetch(reinterpret_cast<const void*>(next), 0, 2);
    }
    if (!visit->ends_step) continue;
    if (out >= rows.out) StoreOldest<kLive, kVectors>(d, out, cols, acc);
    SlideSums<kLive, kVectors>(d, acc);
    out += rows.out_stride;
  }
  for (; out != rows.out + rows.count * rows.out_stride; out += rows.out_stride) {
    if (out >= rows.out) StoreOldest<kLive, kVectors>(d, out, cols, acc);
    SlideSums<kLive, kVectors>(d, acc);
  }
}

// Vectors of a tile: sums, source and a weight must fit the registers.
template <int64_t kLive>
constexpr int64_t MostVectors() {
  if (kManyRegisters) return kLive == 3 ? 4 : kLive <= 7 ? 3 : 2;
  return kLive == 3 ? 3 : kLive == 5 ? 2 : 1;
}

template <int64_t kLive, bool kKept, class D, class T>
HWY_INLINE void SumVectors(D d, const PlaneRows<T>& rows, int64_t count, const int64_t* cols) {
  constexpr int64_t kMost = MostVectors<kLive>();
  switch (count) {
    case 4: return SumColumns<kLive, kMost, kKept>(d, rows, cols);
    case 3: return SumColumns<kLive, HWY_MIN(kMost, 3), kKept>(d, rows, cols);
    default: return SumColumns<kLive, HWY_MIN(kMost, 2), kKept>(d, rows, cols);
  }
}

template <class T>
bool KeepsWeights(const PlaneRows<T>& rows) {
  return kManyRegisters && rows.same_weights && rows.most_live == 3 && rows.num_terms == kKeptTerms;
}

template <int64_t kLive, class D, class T>
void SumWidth(D d, const PlaneRows<T>& rows) {
  constexpr int64_t kLanes = hn::MaxLanes(d), kMost = MostVectors<kLive>();
  const int64_t last = rows.width - kLanes;
  int64_t left = (rows.width + kLanes - 1) / kLanes;
  for (int64_t col = 0; left > 0;) {
    const int64_t cols[4] = {HWY_MIN(col, last), HWY_MIN(col + kLanes, last),
                             HWY_MIN(col + 2 * kLanes, last), HWY_MIN(col + 3 * kLanes, last)};
    // Four are left for two of two, if tiles are of three.
    const int64_t taken = left <= kMost ? left : left == kMost + 1 ? (left + 1) / 2 : kMost;
    const int64_t count = HWY_MIN(HWY_MAX(taken, 2), kMost);
    if (kLive == 3 && KeepsWeights(rows)) {
      SumVectors<kLive, kLive == 3>(d, rows, count, cols);
    } else {
      SumVectors<kLive, false>(d, rows, count, cols);
    }
    col += taken * kLanes;
    left -= taken;
  }
}

// The widest vectors that give a row of results two or more.
template <int64_t kLive, class T>
void SumRows(const PlaneRows<T>& rows) {
  constexpr int64_t kLanes = hn::MaxLanes(hn::ScalableTag<T>());
  constexpr int64_t kLeast = HWY_MIN(kLanes, kLeastPlaneWidth<T>);
  if (rows.width > kLanes || kLanes == kLeast) {
    return SumWidth<kLive>(hn::CappedTag<T, kLanes>(), rows);
  }
  constexpr int64_t kHalf = HWY_MAX(kLeast, kLanes / 2);
  if (rows.width > kHalf || kHalf == kLeast) {
    return SumWidth<kLive>(hn::CappedTag<T, kHalf>(), rows);
  }
  SumWidth<kLive>(hn::CappedTag<T, kLeast>(), rows);
}

template <class T>
void PlaneSumTaps(const PlaneRows<T>& rows) {
  if (rows.most_live <= 3) return SumRows<3>(rows);
  if (rows.most_live <= 5) return SumRows<5>(rows);
  if (rows.most_live <= 7) return SumRows<7>(rows);
  if (rows.most_live <= 9) return SumRows<9>(rows);
  SumRows<kMostLiveRows>(rows);
}

// Numbers that were merged from two or three parts, as whole vectors.
#if HWY_TARGET == HWY_SCALAR
template <class T>
int64_t MergeVectors(const T*, int64_t, T*, int64_t, int64_t) {
  return 0;
}
#else
template <class T>
int64_t MergeVectors(const T* from, int64_t from_stride, T* to, int64_t parts, int64_t count) {
  const hn::ScalableTag<T> d;
  constexpr int64_t kLanes = hn::MaxLanes(d);
  if (parts != 2 && parts != 3) return 0;
  int64_t i = 0;
  for (; (i + kLanes) * parts <= count; i += kLanes) {
    const auto a = hn::LoadU(d, from + i), b = hn::LoadU(d, from + from_stride + i);
    if (parts == 2) {
      hn::StoreInterleaved2(a, b, d, to + i * 2);
    } else {
      hn::StoreInterleaved3(a, b, hn::LoadU(d, from + 2 * from_stride + i), d, to + i * 3);
    }
  }
  return i * parts;
}
#endif

template <class T>
void PlaneMerge(const T* from, int64_t from_stride, T* to, int64_t parts, int64_t count) {
  const int64_t done = MergeVectors(from, from_stride, to, parts, count);
  for (int64_t part = 0; part < parts; ++part) {
    const T* column = from + part * from_stride + done / parts;
    for (int64_t i = done + part; i < count; i += parts) to[i] = *column++;
  }
}

template <class T>
void SetPlaneKernels(PlaneKernels<T>* kernels) {
  kernels->sum_taps = PlaneSumTaps<T>;
  kernels->split = SplitRow<T>;
  kernels->merge = PlaneMerge<T>;
}

inline void FillPlane(KernelTable& table) {
  SetPlaneKernels(&table.plane_f32);
  SetPlaneKernels(&table.plane_f64);
}

}  // namespace HWY_NAMESPACE
}  // namespace convgrad
HWY_AFTER_NAMESPACE();

#endif  // toggle
