// The vector library as every kernel needs it, with the arithmetic of the canonical order: a
// fused multiply-add on every target, and folding of block sums. Included once per target.
#if defined(CONVGRAD_KERNELS_VECTOR_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CONVGRAD_KERNELS_VECTOR_INL_H_
#undef CONVGRAD_KERNELS_VECTOR_INL_H_
#else
#define CONVGRAD_KERNELS_VECTOR_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace convgrad {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// True if the target has 32 vector registers; else 16. Tiles are as large as fit them.
inline constexpr bool kManyRegisters = HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_NEON;

// a * b + c with one rounding. Targets without a fused instruction (scalar) go through the C
// library, which uses the machine's when it has one.
#if HWY_TARGET == HWY_SCALAR
template <class V>
HWY_INLINE V Fma(V a, V b, V c) {
  return V(std::fma(a.raw, b.raw, c.raw));
}
#else
template <class V>
HWY_INLINE V Fma(V a, V b, V c) {
  return hn::MulAdd(a, b, c);
}
#endif

// Keeps a vector that several multiply-adds read in a register: GCC else likes to load it again for
// every use, as a memory operand, and loads are what limits short chains.
template <class V>
HWY_INLINE V InRegister(V vector) {
#if HWY_TARGET != HWY_SCALAR && HWY_ARCH_X86
  asm("" : "+v"(vector.raw));
#elif HWY_TARGET != HWY_SCALAR && HWY_ARCH_ARM_A64
  asm("" : "+w"(vector.raw));
#endif
  return vector;
}

// Returns a number or an address, of whose origin the compiler knows nothing from here on. It would
// else keep the address of everything that is read, in more registers than there are.
template <class T>
HWY_INLINE T Opaque(T number) {
  asm("" : "+r"(number));
  return number;
}

// The canonical NaN: quiet, positive, no payload.
template <class D>
HWY_INLINE hn::Vec<D> QuietNaN(D d) {
  const hn::RebindToUnsigned<D> du;
  using U = hn::TFromD<decltype(du)>;
  constexpr U kQuiet = sizeof(U) == 4 ? U{0x7FC00000} : static_cast<U>(0x7FF8000000000000ull);
  return hn::BitCast(d, hn::Set(du, kQuiet));
}

#if HWY_TARGET == HWY_AVX3
// One instruction, which the library has no name for, that chooses by what a value is: a digit of
// kChoices for each kind, from the right: quiet NaN, signalling NaN, zero, 1, -inf, inf, negative,
// positive. 0 is the canonical NaN, 1 the value, 8 is +0.
template <uint32_t kChoices, class D, class V = hn::Vec<D>>
HWY_INLINE V ChosenByKind(D d, V value) {
  const hn::RebindToUnsigned<D> du;
  const auto choices = hn::Set(du, hn::TFromD<decltype(du)>{kChoices});
  V chosen = QuietNaN(d);
  if constexpr (sizeof(hn::TFromD<D>) == 4) {
    asm("vfixupimmps $0, %2, %1, %0" : "+v"(chosen.raw) : "v"(value.raw), "v"(choices.raw));
  } else {
    asm("vfixupimmpd $0, %2, %1, %0" : "+v"(chosen.raw) : "v"(value.raw), "v"(choices.raw));
  }
  return chosen;
}
#endif

// The canonical NaN for every NaN.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V CanonicalNaN(D d, V value) {
#if HWY_TARGET == HWY_AVX3
  return ChosenByKind<0x11111100>(d, value);
#else
  return hn::IfThenElse(hn::IsNaN(value), QuietNaN(d), value);
#endif
}

// The same, and +0 for -0, as every fold makes it: a chain ends with -0 where it rounds a small
// negative product.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V CanonicalSum(D d, V value) {
#if HWY_TARGET == HWY_AVX3
  return ChosenByKind<0x11111800>(d, value);
#else
  return CanonicalNaN(d, hn::Add(value, hn::Zero(d)));
#endif
}

#if HWY_TARGET == HWY_AVX2
// AVX2's masked store takes AMD's processors forty steps: here a vector is stored in halves, each
// of them whole or in halves.
template <class D, class T = hn::TFromD<D>>
HWY_INLINE void StoreHalves(D d, hn::Vec<D> value, T* to, int64_t count) {
  constexpr int64_t kLanes = hn::MaxLanes(d);
  if constexpr (kLanes == 1) {
    if (count > 0) *to = hn::GetLane(value);
  } else {
    const hn::Half<D> dh;
    if (count < kLanes / 2) return StoreHalves(dh, hn::LowerHalf(dh, value), to, count);
    hn::StoreU(hn::LowerHalf(dh, value), dh, to);
    StoreHalves(dh, hn::UpperHalf(dh, value), to + kLanes / 2, count - kLanes / 2);
  }
}

// The first `count` <= Lanes(d) lanes of `value` are stored, and no memory behind them is touched.
// It is a call because unrolled tiles would be a fifth larger with it in line.
template <class D, class T = hn::TFromD<D>>
HWY_NOINLINE void StoreFirst(D d, hn::Vec<D> value, T* to, int64_t count) {
  StoreHalves(d, value, to, count);
}
#else
// The first `count` <= Lanes(d) lanes of `value` are stored, and no memory behind them is touched.
template <class D, class T = hn::TFromD<D>>
HWY_INLINE void StoreFirst(D d, hn::Vec<D> value, T* to, int64_t count) {
#if defined(__x86_64__)
  hn::BlendedStore(value, hn::FirstN(d, static_cast<size_t>(count)), d, to);
#else  // the library's masked store writes whole vectors there
  HWY_ALIGN T lanes[HWY_MAX_BYTES / sizeof(T)];
  hn::Store(value, d, lanes);
  std::copy_n(lanes, count, to);
#endif
}
#endif

// The first `count` <= Lanes(d) numbers from memory, zeros behind them; no memory behind them is
// touched.
template <class D, class T = hn::TFromD<D>>
HWY_INLINE hn::Vec<D> LoadFirst(D d, const T* from, int64_t count) {
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2
  return hn::MaskedLoad(hn::FirstN(d, static_cast<size_t>(count)), d, from);
#else  // the library's masked load reads whole vectors there
  HWY_ALIGN T lanes[hn::MaxLanes(d)] = {};
  std::copy_n(from, count, lanes);
  return hn::Load(d, lanes);
#endif
}

template <class D, class T = hn::TFromD<D>>
HWY_INLINE void StoreUpTo(D d, hn::Vec<D> value, T* to, int64_t count) {
  if (count >= static_cast<int64_t>(hn::Lanes(d))) {
    hn::StoreU(value, d, to);
  } else if (count > 0) {
    StoreFirst(d, value, to, count);
  }
}

// A vector of float as doubles, in registers.
#if HWY_TARGET == HWY_SCALAR
template <class D>
struct Doubles {
  double only;

  static HWY_INLINE Doubles Zero() { return {0.0}; }
  static HWY_INLINE Doubles Of(D, hn::Vec<D> block) { return {static_cast<double>(block.raw)}; }
  static HWY_INLINE Doubles Load(D, const double* from) { return {from[0]}; }
  HWY_INLINE void Store(D, double* to) const { to[0] = only; }
  HWY_INLINE void Add(const Doubles& other) { only += other.only; }
};
#else
template <class D>
struct Doubles {
  using Half = hn::Half<D>;
  using DD = hn::Rebind<double, Half>;
  hn::Vec<DD> low, high;

  HWY_INLINE Doubles(hn::Vec<DD> low_in, hn::Vec<DD> high_in) : low(low_in), high(high_in) {}

  static HWY_INLINE Doubles Zero() { return {hn::Zero(DD()), hn::Zero(DD())}; }
  static HWY_INLINE Doubles Of(D, hn::Vec<D> block) {
    const Half dh;
    return {hn::PromoteTo(DD(), hn::LowerHalf(dh, block)),
            hn::PromoteTo(DD(), hn::UpperHalf(dh, block))};
  }
  static HWY_INLINE Doubles Load(D, const double* from) {
    return {hn::LoadU(DD(), from), hn::LoadU(DD(), from + hn::Lanes(DD()))};
  }
  HWY_INLINE void Store(D, double* to) const {
    hn::StoreU(low, DD(), to);
    hn::StoreU(high, DD(), to + hn::Lanes(DD()));
  }
  HWY_INLINE void Add(const Doubles& other) {
    low = hn::Add(other.low, low);
    high = hn::Add(other.high, high);
  }
};
#endif

// How a finished sum becomes a number of the compute type: rounded to nearest (float32, float64),
// or to odd, for sums that will be rounded again to 16 bits: the two roundings then equal one.
enum class Finish { kNearest, kOdd };

#if HWY_TARGET == HWY_SCALAR
template <Finish kFinish, class D>
HWY_INLINE hn::Vec<D> Rounded(D d, const Doubles<D>& sum) {
  const float nearest = static_cast<float>(sum.only);
  if constexpr (kFinish == Finish::kNearest) return hn::Vec<D>(nearest);
  const double back = nearest;
  if (!(back < sum.only) && !(back > sum.only)) return hn::Vec<D>(nearest);  // exact, or NaN
  const hn::RebindToUnsigned<D> du;
  uint32_t bits = hn::BitCast(du, hn::Vec<D>(nearest)).raw;
  if (std::fabs(back) > std::fabs(sum.only)) bits -= 1;
  return hn::BitCast(d, hn::Vec<decltype(du)>(bits | 1));
}
#else
// Lanes of one half: nearest, then one step towards zero where that went too far, then the last
// bit.
template <class DH>
HWY_INLINE hn::Vec<DH> HalfToOdd(DH dh, hn::Vec<hn::Rebind<double, DH>> exact) {
  const hn::Rebind<double, DH> dd;
  const hn::RebindToUnsigned<DH> du;
  const hn::RebindToUnsigned<decltype(dd)> ddu;
  const auto nearest = hn::DemoteTo(dh, exact);
  const auto back = hn::PromoteTo(dd, nearest);
  const auto one = hn::Set(ddu, 1);
  const auto over =
      hn::And(hn::BitCast(ddu, hn::VecFromMask(dd, hn::Gt(hn::Abs(back), hn::Abs(exact)))), one);
  const auto inexact = hn::And(hn::BitCast(ddu, hn::VecFromMask(dd, hn::Ne(back, exact))), one);
  const auto bits = hn::BitCast(du, nearest);
  const auto towards_zero = hn::Sub(bits, hn::TruncateTo(du, over));
  return hn::BitCast(dh, hn::Or(towards_zero, hn::TruncateTo(du, inexact)));
}
#if HWY_TARGET == HWY_AVX3
// The same by a conversion towards zero, for which the library has no name.
HWY_INLINE hn::Vec<hn::Half<hn::ScalableTag<float>>> HalfToOdd(
    hn::Half<hn::ScalableTag<float>> dh, hn::Vec<hn::ScalableTag<double>> exact) {
  const hn::ScalableTag<double> dd;
  const hn::RebindToUnsigned<decltype(dh)> du;
  hn::Vec<decltype(dh)> kept;
  asm("vcvtpd2ps %{rz-sae%}, %1, %0" : "=v"(kept.raw) : "v"(exact.raw));
  const hn::MFromD<decltype(du)> inexact{hn::Ne(hn::PromoteTo(dd, kept), exact).raw};
  const auto bits = hn::BitCast(du, kept);
  return hn::BitCast(dh, hn::IfThenElse(inexact, hn::Or(bits, hn::Set(du, 1)), bits));
}
#endif
template <Finish kFinish, class D>
HWY_INLINE hn::Vec<D> Rounded(D d, const Doubles<D>& sum) {
  const hn::Half<D> dh;
  if constexpr (kFinish == Finish::kOdd) {
    return hn::Combine(d, HalfToOdd(dh, sum.high), HalfToOdd(dh, sum.low));
  } else {
    return hn::Combine(d, hn::DemoteTo(dh, sum.high), hn::DemoteTo(dh, sum.low));
  }
}
#endif

// Knuth's TwoSum: a + b rounded, which with `lost` is exactly a + b.
template <class V>
HWY_INLINE V TwoSum(V a, V b, V& lost) {
  const V sum = hn::Add(a, b);
  const V back = hn::Sub(sum, a);
  lost = hn::Add(hn::Sub(a, hn::Sub(sum, back)), hn::Sub(b, back));
  return sum;
}

// The sum of finished blocks, for Lanes(d) consecutive elements, in registers (canonical_order.h
// has the scalar form). In memory `sum` and, for double only, `error` are arrays of Lanes(d)
// doubles; for float `error` may be null.
template <class D, class T = hn::TFromD<D>>
struct BlockSum;

template <class D>
struct BlockSum<D, float> {
  Doubles<D> sum;

  static HWY_INLINE BlockSum Zero(D) { return {Doubles<D>::Zero()}; }
  static HWY_INLINE BlockSum Load(D d, const double* sum, const double*) {
    return {Doubles<D>::Load(d, sum)};
  }
  HWY_INLINE void Store(D d, double* to, double*) const { sum.Store(d, to); }
  HWY_INLINE void Add(D d, hn::Vec<D> block) { sum.Add(Doubles<D>::Of(d, block)); }
  // Rounded as said, NaN canonical.
  template <Finish kFinish>
  HWY_INLINE hn::Vec<D> Result(D d) const {
    return CanonicalNaN(d, Rounded<kFinish>(d, sum));
  }
};

template <class D>
struct BlockSum<D, double> {
  hn::Vec<D> sum, error;

  HWY_INLINE BlockSum(hn::Vec<D> sum_in, hn::Vec<D> error_in) : sum(sum_in), error(error_in) {}

  static HWY_INLINE BlockSum Zero(D d) { return {hn::Zero(d), hn::Zero(d)}; }
  static HWY_INLINE BlockSum Load(D d, const double* sum, const double* error) {
    return {hn::LoadU(d, sum), hn::LoadU(d, error)};
  }
  HWY_INLINE void Store(D d, double* to, double* error_to) const {
    hn::StoreU(sum, d, to);
    hn::StoreU(error, d, error_to);
  }
  HWY_INLINE void Add(D, hn::Vec<D> block) {
    hn::Vec<D> lost;
    sum = TwoSum(sum, block, lost);
    error = hn::Add(error, lost);
  }
  template <Finish>
  HWY_INLINE hn::Vec<D> Result(D d) const {
    const auto finite = hn::Eq(hn::Sub(sum, sum), hn::Zero(d));
    return CanonicalNaN(d, hn::IfThenElse(finite, hn::Add(sum, error), sum));
  }
};

// The error of the sum `at` places behind the first, whose own is `error`: null for float.
template <class T, class Error>
HWY_INLINE Error* ErrorAt(Error* error, int64_t at) {
  return sizeof(T) == 8 ? error + at : nullptr;
}

// Sums in memory are begun, take a block, and become results.
template <class D>
HWY_INLINE void FoldBlock(D d, hn::Vec<D> block, double* HWY_RESTRICT sum,
                          double* HWY_RESTRICT error) {
  auto total = BlockSum<D>::Load(d, sum, error);
  total.Add(d, block);
  total.Store(d, sum, error);
}
template <class D>
HWY_INLINE void ZeroSums(D d, double* sum, double* error) {
  BlockSum<D>::Zero(d).Store(d, sum, error);
}
template <Finish kFinish, class D>
HWY_INLINE hn::Vec<D> FoldResult(D d, const double* sum, const double* error) {
  return BlockSum<D>::Load(d, sum, error).template Result<kFinish>(d);
}
template <class D>
HWY_INLINE hn::Vec<D> FoldResult(D d, const double* sum, const double* error, bool odd) {
  return odd ? FoldResult<Finish::kOdd>(d, sum, error)
             : FoldResult<Finish::kNearest>(d, sum, error);
}

// `count` elements' sums of a run of blocks are added to those of the runs before, T being the
// elements' type.
template <class T>
void FoldRun(const double* run_sum, const double* run_error, double* sum, double* error,
             int64_t count) {
  const hn::ScalableTag<double> d;
  for (int64_t i = 0; i < count; i += static_cast<int64_t>(hn::MaxLanes(d))) {
    const auto term = hn::LoadU(d, run_sum + i);
    if constexpr (sizeof(T) == 8) {
      FoldBlock(d, term, sum + i, error + i);
      hn::StoreU(hn::Add(hn::LoadU(d, error + i), hn::LoadU(d, run_error + i)), d, error + i);
    } else {
      hn::StoreU(hn::Add(hn::LoadU(d, sum + i), term), d, sum + i);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace convgrad
HWY_AFTER_NAMESPACE();

#endif  // toggle
