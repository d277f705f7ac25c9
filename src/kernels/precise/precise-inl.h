// Widening with sums of squares and rounding with a bound; see precise.h. Included once per target.
#if defined(CONVGRAD_KERNELS_PRECISE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CONVGRAD_KERNELS_PRECISE_INL_H_
#undef CONVGRAD_KERNELS_PRECISE_INL_H_
#else
#define CONVGRAD_KERNELS_PRECISE_INL_H_
#endif

#include <cmath>
#include <cstring>
#include <type_traits>

#include "kernels/precise/precise.h"
#include "kernels/simd/convert-inl.h"
#include "kernels/simd/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace convgrad {
namespace HWY_NAMESPACE {

using PreciseTag = hn::ScalableTag<double>;
using PreciseVec = hn::Vec<PreciseTag>;

#if HWY_TARGET == HWY_SCALAR

template <class Stored>
HWY_INLINE PreciseVec LoadDoubles(const Stored* from) {
  return PreciseVec(WidenOne(*from));
}

// Sums rounded to the type, to tell whether two ends of a bound round alike.
template <class Stored>
struct RoundedNumbers {
  Stored only;

  static constexpr Finish kFinish = std::is_same_v<Stored, float> ? Finish::kNearest : Finish::kOdd;
  using FloatTag = hn::ScalableTag<float>;

  explicit RoundedNumbers(PreciseVec sums)
      : only(NarrowOne<Stored>(Rounded<kFinish>(FloatTag(), Doubles<FloatTag>{sums.raw}).raw)) {}
  bool AllEqual(const RoundedNumbers& other) const {
    uint32_t bits = 0, others = 0;
    std::memcpy(&bits, &only, sizeof(only));
    std::memcpy(&others, &other.only, sizeof(only));
    return bits == others;
  }
  uint64_t Differences(const RoundedNumbers& other) const { return AllEqual(other) ? 0 : 1; }
  void Store(Stored* to) const { *to = only; }
};

#else

using PreciseFloatTag = hn::Half<hn::ScalableTag<float>>;

template <class Stored>
HWY_INLINE PreciseVec LoadDoubles(const Stored* from) {
  return hn::PromoteTo(PreciseTag(), LoadWidened(PreciseFloatTag(), from));
}

template <class Stored>
struct RoundedNumbers {
  using DF = PreciseFloatTag;
  using DU = hn::RebindToUnsigned<DF>;
  hn::Vec<DU> bits;  // in the lowest bits of each lane

  explicit HWY_INLINE RoundedNumbers(PreciseVec sums) : bits(BitsOf(sums)) {}
  HWY_INLINE bool AllEqual(const RoundedNumbers& other) const {
    return hn::AllTrue(DU(), hn::Eq(bits, other.bits));
  }
  // A bit for each lane.
  uint64_t Differences(const RoundedNumbers& other) const {
    uint8_t mask[8] = {};
    hn::StoreMaskBits(DU(), hn::Ne(bits, other.bits), mask);
    return mask[0];
  }
  HWY_INLINE void Store(Stored* to) const {
    if constexpr (sizeof(Stored) == 4) {
      hn::StoreU(hn::BitCast(DF(), bits), DF(), to);
    } else {
      const hn::Rebind<uint16_t, DF> dh;
      hn::StoreU(hn::TruncateTo(dh, bits), dh, reinterpret_cast<uint16_t*>(to));
    }
  }

 private:
  static HWY_INLINE hn::Vec<DU> BitsOf(PreciseVec sums) {
    const DF df;
    if constexpr (std::is_same_v<Stored, float>) {
      return hn::BitCast(DU(), hn::DemoteTo(df, sums));
    } else if constexpr (std::is_same_v<Stored, BFloat16>) {
      return hn::ShiftRight<16>(RoundToUpperHalf(df, HalfToOdd(df, sums)));
    } else {
      const hn::Rebind<hwy::float16_t, DF> dh;
      const hn::Rebind<uint16_t, DF> du;
      const auto narrow = hn::DemoteTo(dh, CanonicalNaN(df, HalfToOdd(df, sums)));
      return hn::PromoteTo(DU(), hn::BitCast(du, narrow));
    }
  }
};

#endif

#if HWY_TARGET == HWY_AVX3

using FloatTag = hn::ScalableTag<float>;
using FloatVec = hn::Vec<FloatTag>;
inline constexpr int64_t kFloatLanes = hn::MaxLanes(FloatTag());

// True if both ends of what each sum may be round to the same number, to nearest even: `to`.
HWY_INLINE bool RoundEnds(FloatVec low, FloatVec high, Float16* to) {
  const hn::Rebind<hwy::float16_t, FloatTag> dh;
  const hn::Rebind<uint16_t, FloatTag> du;
  const auto most = hn::DemoteTo(dh, high);
  hn::StoreU(most, dh, reinterpret_cast<hwy::float16_t*>(to));
  return hn::AllTrue(du, hn::Eq(hn::BitCast(du, hn::DemoteTo(dh, low)), hn::BitCast(du, most)));
}
// The sum must lie between the ends, and be neither unless they are equal. So it is enough to round
// both to nearest with ties away from zero, a simple addition: they differ if a tie lies between
// them, or the end farther from zero is one; if the nearer end is, the sum and the farther one
// round away from zero. The farther end, which no tie that matters is, is then rounded to even.
HWY_INLINE bool RoundEnds(FloatVec low, FloatVec high, BFloat16* to) {
  const hn::RebindToUnsigned<FloatTag> du;
  const hn::Rebind<uint16_t, FloatTag> dh;
  const auto least = hn::BitCast(du, low), most = hn::BitCast(du, high);
  const auto farther = hn::Max(least, most);
  const auto odd = hn::And(hn::ShiftRight<16>(farther), hn::Set(du, 1));
  const auto even = hn::Add(farther, hn::Add(odd, hn::Set(du, 0x7FFF)));
  hn::StoreU(hn::TruncateTo(dh, hn::ShiftRight<16>(even)), dh, reinterpret_cast<uint16_t*>(to));
  const auto half = hn::Set(du, 0x8000);
  const auto differences = hn::Xor(hn::Add(least, half), hn::Add(most, half));
  return hn::AllTrue(du, hn::Lt(differences, hn::Set(du, 0x10000)));
}

// Conversions towards smaller and larger numbers, for which the library has no names.
HWY_INLINE hn::Vec<PreciseFloatTag> FloatBelow(PreciseVec number) {
  hn::Vec<PreciseFloatTag> below;
  asm("vcvtpd2ps %{rd-sae%}, %1, %0" : "=v"(below.raw) : "v"(number.raw));
  return below;
}
HWY_INLINE hn::Vec<PreciseFloatTag> FloatAbove(PreciseVec number) {
  hn::Vec<PreciseFloatTag> above;
  asm("vcvtpd2ps %{ru-sae%}, %1, %0" : "=v"(above.raw) : "v"(number.raw));
  return above;
}
#endif

inline constexpr int64_t kPreciseLanes = hn::MaxLanes(PreciseTag());
// Numbers are fetched so far ahead from beyond the second cache, and asked for to be written: the
// machine's own prefetcher does not follow them between the streams of doubles. They are fetched no
// nearer, since of what the first cache waits for there can be less at a time.
inline constexpr int64_t kAhead = 1024;
inline constexpr int kToSecondCache = 2;

// It takes some rows at once, so that the sums of squares are loaded and stored once for all of
// them.
template <int kRows, class Stored>
HWY_INLINE void WidenRows(const Stored* from, double* to, double* squares, int64_t cols) {
  const PreciseTag d;
  int64_t j = 0;
  for (; j + kPreciseLanes <= cols; j += kPreciseLanes) {
    PreciseVec sum = hn::LoadU(d, squares + j);
#pragma GCC unroll 8
    for (int row = 0; row < kRows; ++row) {
      __builtin_prefetch(from + row * cols + j + kAhead, 0, kToSecondCache);
      const PreciseVec number = LoadDoubles(from + row * cols + j);
      hn::StoreU(number, d, to + row * cols + j);
      sum = Fma(number, number, sum);
    }
    hn::StoreU(sum, d, squares + j);
  }
  for (; j < cols; ++j) {
    for (int row = 0; row < kRows; ++row) {
      const double number = WidenOne(from[row * cols + j]);
      to[row * cols + j] = number;
      squares[j] += number * number;
    }
  }
}

template <class Stored>
void WidenWithSquares(const Stored* from, double* to, double* squares, int64_t rows, int64_t cols) {
  constexpr int64_t kTogether = 4;
  for (; rows >= kTogether; rows -= kTogether) {
    WidenRows<kTogether>(from, to, squares, cols);
    from += kTogether * cols;
    to += kTogether * cols;
  }
  for (; rows > 0; --rows) {
    WidenRows<1>(from, to, squares, cols);
    from += cols;
    to += cols;
  }
}

template <class Stored>
void WidenWithRowSquares(const Stored* from, double* to, double* squares, int64_t rows,
                         int64_t cols) {
  const PreciseTag d;
  for (int64_t row = 0; row < rows; ++row, from += cols, to += cols) {
    PreciseVec sums = hn::Zero(d);
    int64_t j = 0;
    for (; j + kPreciseLanes <= cols; j += kPreciseLanes) {
      const PreciseVec number = LoadDoubles(from + j);
      hn::StoreU(number, d, to + j);
      sums = Fma(number, number, sums);
    }
    double sum = hn::GetLane(hn::SumOfLanes(d, sums));
    for (; j < cols; ++j) {
      const double number = WidenOne(from[j]);
      to[j] = number;
      sum += number * number;
    }
    squares[row] = sum;
  }
}

template <class Stored>
void TakeSizes(const Stored* from, float* to, int64_t count) {
  const hn::ScalableTag<float> d;
  constexpr int64_t kLanes = hn::MaxLanes(d);
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) hn::StoreU(hn::Abs(LoadWidened(d, from + i)), d, to + i);
  for (; i < count; ++i) to[i] = std::fabs(WidenOne(from[i]));
}

// The exponent of a lowest bit is what the bit is as a float, in units of the number's last.
template <class Stored>
int LowestBit(const Stored* from, int64_t count) {
  const hn::ScalableTag<float> d;
  const hn::RebindToSigned<hn::ScalableTag<float>> di;
  constexpr int kFractionBits = 23, kBias = 127, kSpecial = 255;
  const auto none = hn::Set(di, kNoBit), one = hn::Set(di, 1);
  auto least = none;
  const auto look = [&](hn::Vec<hn::ScalableTag<float>> numbers) {
    const auto bits = hn::BitCast(di, hn::Abs(numbers));
    const auto exponent = hn::ShiftRight<kFractionBits>(bits);
    const auto fraction = hn::And(bits, hn::Set(di, (1 << kFractionBits) - 1));
    const auto normal = hn::Gt(exponent, hn::Zero(di));
    const auto significand =
        hn::IfThenElse(normal, hn::Or(fraction, hn::Set(di, 1 << kFractionBits)), fraction);
    const auto last = hn::And(significand, hn::Sub(hn::Zero(di), significand));
    const auto as_float = hn::BitCast(di, hn::ConvertTo(d, last));
    const auto place = hn::Add(hn::ShiftRight<kFractionBits>(as_float), hn::Max(exponent, one));
    const auto counts =
        hn::And(hn::Gt(last, hn::Zero(di)), hn::Lt(exponent, hn::Set(di, kSpecial)));
    least = hn::Min(least, hn::IfThenElse(counts, place, none));
  };
  constexpr int64_t kLanes = hn::MaxLanes(d);
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) look(LoadWidened(d, from + i));
  if (i < count) {
    Stored last[kLanes] = {};
    std::memcpy(last, from + i, static_cast<size_t>(count - i) * sizeof(Stored));
    look(LoadWidened(d, last));
  }
  const int place = hn::GetLane(hn::MinOfLanes(di, least));
  return place == kNoBit ? kNoBit : place - 2 * kBias - kFractionBits;
}

// All vectors of sums share these. An upper and a lower end of what each may be are rounded:
// rounding is monotonic, so that they are enough.
struct RoundingBounds {
  PreciseVec relative, minus_relative, exact_below;

  explicit HWY_INLINE RoundingBounds(const SumBounds& bounds)
      : relative(hn::Set(PreciseTag(), bounds.relative)),
        minus_relative(hn::Set(PreciseTag(), -bounds.relative)),
        exact_below(hn::Set(PreciseTag(), bounds.exact_below)) {}
};

// It rounds a vector with lanes in doubt, infinite or NaN, and returns a bit for each in doubt.
template <class Stored>
HWY_NOINLINE uint64_t RoundOddOnes(PreciseVec sum, PreciseVec size, const RoundingBounds& bounds,
                                   Stored* to) {
  const PreciseTag d;
  const auto finite = hn::Eq(hn::Sub(sum, sum), hn::Zero(d));
  const PreciseVec certain = CanonicalNaN(d, sum);
  const PreciseVec low = Fma(size, bounds.minus_relative, sum);
  const PreciseVec high = Fma(size, bounds.relative, sum);
  const RoundedNumbers<Stored> least(hn::IfThenElse(finite, low, certain));
  const RoundedNumbers<Stored> most(hn::IfThenElse(finite, high, certain));
  most.Store(to);
  return most.Differences(least);
}

template <bool kMayBeExact>
HWY_INLINE PreciseVec LoadSizes(const double* sizes, const RoundingBounds& bounds) {
  const PreciseTag d;
  const PreciseVec size = hn::LoadU(d, sizes);
  if constexpr (!kMayBeExact) return size;
  return hn::IfThenElse(hn::Lt(size, bounds.exact_below), hn::Zero(d), size);
}

template <bool kMayBeExact, class Stored>
HWY_INLINE uint64_t RoundVector(const double* sums, const double* sizes,
                                const RoundingBounds& bounds, Stored* to) {
  const PreciseTag d;
  const PreciseVec sum = hn::LoadU(d, sums);
  const PreciseVec size = LoadSizes<kMayBeExact>(sizes, bounds);
  const PreciseVec high = Fma(size, bounds.relative, sum);
  const RoundedNumbers<Stored> least(Fma(size, bounds.minus_relative, sum));
  const RoundedNumbers<Stored> most(high);
  most.Store(to);
  if (HWY_LIKELY(most.AllEqual(least) && hn::AllFalse(d, hn::IsNaN(high)))) return 0;
  return RoundOddOnes(sum, size, bounds, to);
}

#if HWY_TARGET == HWY_AVX3
// Two vectors at once, to 16 bits; false where some are in doubt, infinite or NaN. The ends are
// rounded by what float32 leaves of them.
template <bool kMayBeExact, class Stored>
HWY_INLINE bool RoundTwoVectors(const double* sums, const double* sizes,
                                const RoundingBounds& bounds, Stored* to) {
  const FloatTag d;
  hn::Vec<PreciseFloatTag> low[2], high[2];
#pragma GCC unroll 2
  for (int i = 0; i < 2; ++i) {
    const PreciseVec sum = hn::LoadU(PreciseTag(), sums + i * kPreciseLanes);
    const PreciseVec size = LoadSizes<kMayBeExact>(sizes + i * kPreciseLanes, bounds);
    low[i] = FloatBelow(Fma(size, bounds.minus_relative, sum));
    high[i] = FloatAbove(Fma(size, bounds.relative, sum));
  }
  const FloatVec most = hn::Combine(d, high[1], high[0]);
  return RoundEnds(hn::Combine(d, low[1], low[0]), most, to) && hn::AllFalse(d, hn::IsNaN(most));
}
#endif

template <bool kMayBeExact, class Stored>
int64_t RoundVectors(const double* sums, const double* sizes, const SumBounds& sum_bounds,
                     Stored* to, int64_t count, int64_t* doubts) {
  const RoundingBounds bounds(sum_bounds);
  int64_t num_doubts = 0;
  const auto list = [&](uint64_t mask, int64_t first) {
    for (; mask != 0; mask &= mask - 1) doubts[num_doubts++] = first + __builtin_ctzll(mask);
  };
  int64_t i = 0;
#if HWY_TARGET == HWY_AVX3
  if constexpr (sizeof(Stored) == 2) {
    for (; i + kFloatLanes <= count; i += kFloatLanes) {
      __builtin_prefetch(to + i + kAhead, 1, kToSecondCache);
      if (HWY_LIKELY(RoundTwoVectors<kMayBeExact>(sums + i, sizes + i, bounds, to + i))) continue;
      for (int64_t j = i; j < i + kFloatLanes; j += kPreciseLanes) {
        list(RoundVector<kMayBeExact>(sums + j, sizes + j, bounds, to + j), j);
      }
    }
  }
#endif
  for (; i + kPreciseLanes <= count; i += kPreciseLanes) {
    __builtin_prefetch(to + i + kAhead, 1, kToSecondCache);
    const uint64_t mask = RoundVector<kMayBeExact>(sums + i, sizes + i, bounds, to + i);
    if (HWY_UNLIKELY(mask != 0)) list(mask, i);
  }
  if (i < count) {  // the last, with sums of zero behind them, of which none is in doubt
    const auto rest = static_cast<size_t>(count - i);
    double last_sums[kPreciseLanes] = {}, last_sizes[kPreciseLanes] = {};
    Stored rounded[kPreciseLanes];
    std::memcpy(last_sums, sums + i, rest * sizeof(double));
    std::memcpy(last_sizes, sizes + i, rest * sizeof(double));
    list(RoundVector<kMayBeExact>(last_sums, last_sizes, bounds, rounded), i);
    std::memcpy(to + i, rounded, rest * sizeof(Stored));
  }
  return num_doubts;
}

template <class Stored>
int64_t RoundWithBound(const double* sums, const double* sizes, const SumBounds& bounds, Stored* to,
                       int64_t count, int64_t* doubts) {
  return bounds.exact_below > 0 ? RoundVectors<true>(sums, sizes, bounds, to, count, doubts)
                                : RoundVectors<false>(sums, sizes, bounds, to, count, doubts);
}

template <class Stored>
inline constexpr PreciseKernels<Stored> kPrecise = {WidenWithSquares<Stored>,
                                                    WidenWithRowSquares<Stored>, TakeSizes<Stored>,
                                                    LowestBit<Stored>, RoundWithBound<Stored>};

}  // namespace HWY_NAMESPACE
}  // namespace convgrad
HWY_AFTER_NAMESPACE();

#endif  // toggle
