// What sums of taps over whole planes share: weights and columns as vectors, lanes off a row, and
// the way down the planes. Included once per target.
#if defined(CONVGRAD_KERNELS_PLANE_WALK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CONVGRAD_KERNELS_PLANE_WALK_INL_H_
#undef CONVGRAD_KERNELS_PLANE_WALK_INL_H_
#else
#define CONVGRAD_KERNELS_PLANE_WALK_INL_H_
#endif

#include "kernels/depthwise/plane.h"
#include "kernels/simd/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace convgrad {
namespace HWY_NAMESPACE {

#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2

// The lanes that are columns of a row of `width`: lane l is column first + l * kStep.
template <int64_t kStep = 1, class D>
HWY_INLINE hn::Mask<D> ColumnsOnRow(D d, int64_t first, int64_t width) {
  constexpr int64_t kLanes = hn::MaxLanes(d);
  const auto lanes = [&](int64_t columns) {
    const int64_t count = (columns + kStep - 1) / kStep;
    return hn::FirstN(d, static_cast<size_t>(HWY_MIN(HWY_MAX(count, 0), kLanes)));
  };
  return hn::AndNot(lanes(-first), lanes(width - first));
}

// Whether the weights of a filter are made vectors once a plane. With 32 registers so many stay
// there, beside sums and sources; with 16, multiply-adds read them from the stack.
constexpr bool KeepsWeights(int64_t size, int64_t others) {
  return !kManyRegisters || size * size + others <= 32;
}

// The weights of one filter, [row][column], as vectors.
template <int64_t kSize, class D>
using FilterVectors = hn::Vec<D>[kSize][kSize];

// kKeeps: vectors that were made of the weights; else they are made for every multiply-add, for
// which the machine has instructions.
template <int64_t kSize, bool kKeeps, class D, class T>
struct PlaneWeights {
  HWY_INLINE PlaneWeights(D d, const T* from) : weights(from) {
    if constexpr (!kKeeps) return;
#pragma GCC unroll 8
    for (int64_t i = 0; i < kSize; ++i) {
#pragma GCC unroll 8
      for (int64_t j = 0; j < kSize; ++j) kept[i][j] = hn::Set(d, from[i * kSize + j]);
    }
  }
  HWY_INLINE hn::Vec<D> At(D d, int64_t i, int64_t j) const {
    return kKeeps ? kept[i][j] : hn::Set(d, weights[i * kSize + j]);
  }

  const T* weights;
  FilterVectors<kSize, D> kept;
};

// How columns go down some planes. kMasked: nothing off the row is read, which is dear: AVX2 on Zen
// 4 takes two to three times as long in all, AVX-512 on Zen 5 some nine cycles a load. kFetching:
// the next planes are fetched meanwhile.
enum class Way { kMasked, kPlain, kFetching };

// A vector of a row of the source.
template <Way kWay, class D, class T>
HWY_INLINE hn::Vec<D> LoadColumns(D d, hn::Mask<D> on_row, const T* from) {
  if constexpr (kWay == Way::kMasked) return hn::MaskedLoad(on_row, d, from);
  return hn::LoadU(d, from);
}

// Lanes that a column of the filter finds off the row add nothing. kLeaveOut: the multiply-adds
// leave them out, which costs nothing where instructions take masks and weights are in registers;
// else their sources become zeros first.
template <bool kLeaveOut, class D>
HWY_INLINE hn::Vec<D> ZeroOffRow(D, hn::Mask<D> on_row, hn::Vec<D> x) {
  return kLeaveOut ? x : hn::IfThenElseZero(on_row, x);
}
template <bool kLeaveOut, class D>
HWY_INLINE hn::Vec<D> AddOnRow(D, hn::Mask<D> on_row, hn::Vec<D> x, hn::Vec<D> weight,
                               hn::Vec<D> sum) {
  const hn::Vec<D> more = Fma(x, weight, sum);
  return kLeaveOut ? hn::IfThenElse(on_row, more, sum) : more;
}

// CanonicalSum, but NaNs become the canonical one at the end of a plane, if `seen` has become NaN,
// as it does with a result that is, and where there are infinities of both signs. Looking at every
// result takes a tenth as long as a 3x3 filter does.
template <class D>
HWY_INLINE hn::Vec<D> ResultSeen(D d, hn::Vec<D> sums, hn::Vec<D>& seen) {
  const auto result = hn::Add(sums, hn::Zero(d));
  seen = hn::Add(seen, result);
  return result;
}

// Some columns on their way down the planes. Lanes beyond a row of results fall on the next one, or
// the next plane's, which is written later; nothing is written behind the last plane.
template <class T>
struct PlaneWalk {
  PlaneWalk(const WholePlanes<T>& planes, int64_t plane, int64_t col, int64_t first_source)
      : source(planes.source + plane * planes.source_plane + first_source),
        weights(planes.weights + plane * planes.size * planes.size),
        out(planes.out + plane * planes.out_plane + col),
        end(planes.out + planes.count * planes.out_plane),
        num_cols(planes.out_w - col) {}

  void Next(const WholePlanes<T>& planes) {
    source += planes.source_plane;
    weights += planes.size * planes.size;
    out += planes.out_plane;
  }

  template <class D>
  HWY_INLINE void Store(D d, hn::Vec<D> result, T* to) const {
    if (HWY_LIKELY(end - to >= static_cast<int64_t>(hn::MaxLanes(d)))) {
      hn::StoreU(result, d, to);
    } else {
      StoreFirst(d, result, to, num_cols);
    }
  }

  // After a plane's results are stored.
  template <class D>
  HWY_INLINE void EndPlane(D d, const WholePlanes<T>& planes, hn::Vec<D> seen) const {
    if (HWY_LIKELY(hn::AllFalse(d, hn::IsNaN(seen)))) return;
    const hn::CappedTag<T, 1> one;
    for (int64_t row = 0; row < planes.out_h; ++row) {
      T* const to = out + row * planes.out_row;
      for (T* at = to; at < to + num_cols; ++at) {
        hn::StoreU(CanonicalNaN(one, hn::LoadU(one, at)), one, at);
      }
    }
  }

  const T* source;
  const T* weights;
  T* out;
  const T* const end;
  const int64_t num_cols;
};

// Some columns fetch their share of the planes behind theirs. Large planes are neither read nor
// written in the order in which they lie, which is all that the machine fetches ahead by
// itself.
template <Way kWay, class T>
struct NextPlanes {
  NextPlanes(const WholePlanes<T>& planes, int64_t end_plane, int64_t count, int64_t col,
             int64_t first_source) {
    if constexpr (kWay != Way::kFetching) return;
    source = planes.source + end_plane * planes.source_plane +
             count * planes.source_h * HWY_MAX(first_source, 0);
    out = planes.out + end_plane * planes.out_plane + count * planes.out_h * col;
  }

  // With every row so many numbers of the source, and of the results.
  template <int64_t kSources, int64_t kResults>
  HWY_INLINE void Fetch() {
    if constexpr (kWay != Way::kFetching) return;
    constexpr int64_t kLine = 64 / sizeof(T);
#pragma GCC unroll 4
    for (int64_t i = 0; i < kSources; i += kLine) __builtin_prefetch(source + i, 0, 2);
#pragma GCC unroll 4
    for (int64_t i = 0; i < kResults; i += kLine) __builtin_prefetch(out + i, 1, 2);
    source += kSources;
    out += kResults;
  }

  const T* source = nullptr;
  const T* out = nullptr;
};

#endif  // HWY_TARGET

}  // namespace HWY_NAMESPACE
}  // namespace convgrad
HWY_AFTER_NAMESPACE();

#endif  // toggle
