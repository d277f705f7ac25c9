// How the matrix micro-kernels multiply: numbers of the compute type one by one, bfloat16 numbers
// in pairs. Included once per target.
#if defined(CONVGRAD_KERNELS_MULTIPLIER_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CONVGRAD_KERNELS_MULTIPLIER_INL_H_
#undef CONVGRAD_KERNELS_MULTIPLIER_INL_H_
#else
#define CONVGRAD_KERNELS_MULTIPLIER_INL_H_
#endif

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "base/float16.h"
#include "kernels/simd/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace convgrad {
namespace HWY_NAMESPACE {

// How the micro-kernel multiplies two operands' elements into a vector of sums, D.
template <class Element, class D>
struct Multiplier {
  using V = hn::Vec<D>;
  static HWY_INLINE V Load(const Element* from) { return hn::LoadU(D(), from); }
  // Those of the mask alone, the others zero.
  static HWY_INLINE V LoadOf(hn::Mask<D> mask, const Element* from) {
    return hn::MaskedLoad(mask, D(), from);
  }
  static HWY_INLINE V Broadcast(const Element* from) { return hn::Set(D(), *from); }
  static HWY_INLINE V Add(V factor, V column, V sum) { return Fma(factor, column, sum); }
#if HWY_TARGET == HWY_AVX3
  // The same with one factor for all lanes, which the multiply-add itself reads. As assembly: the
  // compiler would read it once for several vectors.
  static HWY_INLINE V AddTimes(const Element* factor, V column, V sum) {
    if constexpr (sizeof(Element) == 4) {
      asm("vfmadd231ps %1%{1to%c3%}, %2, %0"
          : "+v"(sum.raw)
          : "m"(*factor), "v"(column.raw), "i"(hn::MaxLanes(D())));
    } else {
      asm("vfmadd231pd %1%{1to%c3%}, %2, %0"
          : "+v"(sum.raw)
          : "m"(*factor), "v"(column.raw), "i"(hn::MaxLanes(D())));
    }
    return sum;
  }
#endif
};

#if HWY_TARGET == HWY_AVX3
// Two chained fused multiply-adds, the second numbers' first; subnormals count as zero. As
// assembly, since the target's other code must run on processors without this instruction.
template <class D>
struct Multiplier<BFloat16Pair, D> {
  using Pairs = hn::Rebind<uint32_t, D>;
  using V = hn::Vec<Pairs>;
  static HWY_INLINE V Load(const BFloat16Pair* from) {
    return hn::LoadU(Pairs(), reinterpret_cast<const uint32_t*>(from));
  }
  static HWY_INLINE V Broadcast(const BFloat16Pair* from) {
    uint32_t bits;
    std::memcpy(&bits, from, sizeof(bits));
    return hn::Set(Pairs(), bits);
  }
  static HWY_INLINE hn::Vec<D> Add(V factor, V column, hn::Vec<D> sum) {
    asm("vdpbf16ps %2, %1, %0" : "+v"(sum.raw) : "v"(factor.raw), "v"(column.raw));
    return sum;
  }
  static HWY_INLINE hn::Vec<D> AddTimes(const BFloat16Pair* factor, V column, hn::Vec<D> sum) {
    asm("vdpbf16ps %1%{1to%c3%}, %2, %0"
        : "+v"(sum.raw)
        : "m"(*factor), "v"(column.raw), "i"(hn::MaxLanes(D())));
    return sum;
  }
};
#endif

template <class Element>
inline constexpr bool kOfPairs = std::is_same_v<Element, BFloat16Pair>;

// True if a tile can read no more columns than are wanted: the last vector by a mask where that is
// only a part of it. Whole ones are read without: of what is read by masks the machine by itself
// fetches nothing ahead. With few registers there is none for a mask.
template <class Element>
constexpr bool MasksColumns() {
  return HWY_TARGET == HWY_AVX3 && !std::is_same_v<Element, BFloat16Pair>;
}

// The columns of a term that a tile of kVectors reads. The last vector is half a one if
// kEndsInHalf.
template <class Element, class D, int kVectors, bool kEndsInHalf>
class WantedColumns {
 public:
  using Half = hn::Half<D>;
  using Times = Multiplier<Element, D>;
  using TimesHalf = Multiplier<Element, Half>;

  HWY_INLINE WantedColumns(int64_t num_cols, bool masked) {
    if constexpr (MasksColumns<Element>()) {
      const int64_t before = (kVectors - 1) * static_cast<int64_t>(hn::Lanes(D()));
      const auto cols = static_cast<size_t>(std::max<int64_t>(0, num_cols - before));
      whole_ = hn::FirstN(D(), cols);
      half_ = hn::FirstN(Half(), cols);
      partial_ = masked && cols < hn::Lanes(D()) / (kEndsInHalf ? 2 : 1);
    }
  }

  HWY_INLINE typename Times::V Load(int v, const Element* from) const {
    if constexpr (MasksColumns<Element>() && !kEndsInHalf) {
      if (v == kVectors - 1 && HWY_UNLIKELY(partial_)) return Times::LoadOf(whole_, from);
    }
    return Times::Load(from);
  }
  HWY_INLINE typename TimesHalf::V LoadHalf(const Element* from) const {
    if constexpr (MasksColumns<Element>()) {
      if (HWY_UNLIKELY(partial_)) return TimesHalf::LoadOf(half_, from);
    }
    return TimesHalf::Load(from);
  }

 private:
  hn::Mask<D> whole_{};
  hn::Mask<Half> half_{};
  bool partial_ = false;
};

// The result that is one block's sum. Where -0 and NaN may be, they become +0 and the canonical
// NaN; sums of pairs are neither (indirect_gemm.h).
template <class Element, class D>
HWY_INLINE hn::Vec<D> OnlyBlock(D d, hn::Vec<D> sum) {
  if constexpr (kOfPairs<Element>) return sum;
  return CanonicalSum(d, sum);
}

}  // namespace HWY_NAMESPACE
}  // namespace convgrad
HWY_AFTER_NAMESPACE();

#endif  // toggle
