// Numbers between storage and compute form, one at a time, by vectors and by groups of neighbours
// that are cheaper to take apart: exact widening, rounding to nearest even. Included once per
// target.
#if defined(CONVGRAD_KERNELS_CONVERT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CONVGRAD_KERNELS_CONVERT_INL_H_
#undef CONVGRAD_KERNELS_CONVERT_INL_H_
#else
#define CONVGRAD_KERNELS_CONVERT_INL_H_
#endif

#include <algorithm>
#include <cstring>
#include <limits>
#include <type_traits>

#include "base/float16.h"
#include "kernels/simd/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace convgrad {
namespace HWY_NAMESPACE {

// One number: the tails of the vector loops, and all of the scalar target.

HWY_INLINE float WidenOne(Float16 value) {
  return ToFloat(value);
}
HWY_INLINE float WidenOne(BFloat16 value) {
  return ToFloat(value);
}
HWY_INLINE float WidenOne(float value) {
  return value;
}
HWY_INLINE double WidenOne(double value) {
  return value;
}

template <class Stored>
HWY_INLINE Stored NarrowOne(ComputeType<Stored> value) {
  if constexpr (std::is_same_v<Stored, Float16>) {
    return ToFloat16(value);
  } else if constexpr (std::is_same_v<Stored, BFloat16>) {
    return ToBFloat16(value);
  } else {
    return value != value ? std::numeric_limits<Stored>::quiet_NaN() : value;
  }
}

#if HWY_TARGET == HWY_SCALAR
template <class D, class Stored>
HWY_INLINE hn::Vec<D> LoadWidened(D, const Stored* from) {
  return hn::Vec<D>(WidenOne(*from));
}
template <class D, class Stored>
HWY_INLINE void StoreNarrowed(D, hn::Vec<D> value, Stored* to) {
  *to = NarrowOne<Stored>(value.raw);
}
#else

// The bits of as many numbers of a 16-bit type as D has lanes.
template <class D>
using HalfBits = hn::Vec<hn::Rebind<uint16_t, D> >;

// Targets with vectors all convert float16 in hardware, exactly.
template <class Stored, class D>
HWY_INLINE hn::Vec<D> WidenBits(D d, HalfBits<D> bits) {
  if constexpr (std::is_same_v<Stored, Float16>) {
    return hn::PromoteTo(d, hn::BitCast(hn::Rebind<hwy::float16_t, D>(), bits));
  } else {
    const hn::RebindToUnsigned<D> du;
    return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(du, bits)));
  }
}

// Lanes(d) numbers from storage form.
template <class D, class Stored>
HWY_INLINE hn::Vec<D> LoadWidened(D d, const Stored* from) {
  if constexpr (std::is_same_v<Stored, hn::TFromD<D> >) {
    return hn::LoadU(d, from);
  } else {
    const hn::Rebind<uint16_t, D> dh;
    return WidenBits<Stored>(d, hn::LoadU(dh, reinterpret_cast<const uint16_t*>(from)));
  }
}

// The upper halves are the numbers rounded to bfloat16, to nearest even; by integers, since the
// vector library truncates.
template <class D, class DU = hn::RebindToUnsigned<D> >
HWY_INLINE hn::Vec<DU> RoundToUpperHalf(D, hn::Vec<D> value) {
  const DU du;
  const auto bits = hn::BitCast(du, value);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1));
  const auto rounded = hn::Add(bits, hn::Add(odd, hn::Set(du, 0x7FFF)));
  return hn::IfThenElse(hn::RebindMask(du, hn::IsNaN(value)), hn::Set(du, 0x7FC00000), rounded);
}

// The inverse of WidenBits, rounding to nearest even; in hardware for float16.
template <class Stored, class D>
HWY_INLINE HalfBits<D> NarrowedBits(D d, hn::Vec<D> value) {
  const hn::Rebind<uint16_t, D> dh;
  if constexpr (std::is_same_v<Stored, Float16>) {
    const hn::Rebind<hwy::float16_t, D> df;
    return hn::BitCast(dh, hn::DemoteTo(df, CanonicalNaN(d, value)));
  } else {
    return hn::TruncateTo(dh, hn::ShiftRight<16>(RoundToUpperHalf(d, value)));
  }
}

template <class D, class Stored>
HWY_INLINE void StoreNarrowed(D d, hn::Vec<D> value, Stored* to) {
  if constexpr (std::is_same_v<Stored, hn::TFromD<D> >) {
    hn::StoreU(CanonicalNaN(d, value), d, to);
  } else {
    const hn::Rebind<uint16_t, D> dh;
    hn::StoreU(NarrowedBits<Stored>(d, value), dh, reinterpret_cast<uint16_t*>(to));
  }
}

// The first `count` <= Lanes(dh) numbers of 16 bits, zeros behind them, and the inverse; no memory
// behind them is touched. Where no instruction masks 16 bits, parts of two, four and eight bytes
// are put together in registers: a vector would wait for small stores.
template <class DH>
HWY_INLINE hn::Vec<DH> LoadFirstHalves(DH dh, const uint16_t* from, int64_t count) {
#if HWY_TARGET == HWY_AVX3
  return hn::MaskedLoad(hn::FirstN(dh, static_cast<size_t>(count)), dh, from);
#elif HWY_TARGET == HWY_AVX2
  static_assert(hn::MaxLanes(dh) == 8);
  if (count == 8) return hn::LoadU(dh, from);
  const uint16_t* rest = from + (count & 4);
  uint64_t low = 0, high = 0;
  if ((count & 2) != 0) std::memcpy(&high, rest, 4);
  if ((count & 1) != 0) high |= uint64_t{rest[count & 2]} << 16 * (count & 2);
  if ((count & 4) != 0) {
    std::memcpy(&low, from, sizeof(low));
  } else {
    low = high;
    high = 0;
  }
  const hn::Repartition<uint64_t, DH> d64;
  return hn::BitCast(dh, hn::InsertLane(hn::Set(d64, low), 1, high));
#else
  uint16_t part[hn::MaxLanes(dh)] = {};
  std::copy_n(from, count, part);
  return hn::LoadU(dh, part);
#endif
}
template <class DH>
HWY_INLINE void StoreFirstHalves(DH dh, hn::Vec<DH> value, uint16_t* to, int64_t count) {
#if HWY_TARGET == HWY_AVX3
  hn::BlendedStore(value, hn::FirstN(dh, static_cast<size_t>(count)), dh, to);
#elif HWY_TARGET == HWY_AVX2
  static_assert(hn::MaxLanes(dh) == 8);
  if (count == 8) return hn::StoreU(value, dh, to);
  const auto halves = hn::BitCast(hn::Repartition<uint64_t, DH>(), value);
  uint64_t rest = hn::GetLane(halves);
  if ((count & 4) != 0) {
    std::memcpy(to, &rest, sizeof(rest));
    rest = hn::ExtractLane(halves, 1);
    to += 4;
  }
  if ((count & 2) != 0) {
    std::memcpy(to, &rest, 4);
    rest >>= 32;
    to += 2;
  }
  if ((count & 1) != 0) *to = static_cast<uint16_t>(rest);
#else
  uint16_t part[hn::MaxLanes(dh)];
  hn::StoreU(value, dh, part);
  std::copy_n(part, count, to);
#endif
}

// LoadWidened and StoreNarrowed of the first `count` <= Lanes(d) numbers; the other lanes of a load
// are zero.
template <class D, class Stored>
HWY_INLINE hn::Vec<D> LoadWidenedFirst(D d, const Stored* from, int64_t count) {
  if constexpr (sizeof(Stored) >= 4) {
    return LoadFirst(d, from, count);
  } else {
    const hn::Rebind<uint16_t, D> dh;
    return WidenBits<Stored>(d,
                             LoadFirstHalves(dh, reinterpret_cast<const uint16_t*>(from), count));
  }
}
template <class D, class Stored>
HWY_INLINE void StoreNarrowedFirst(D d, hn::Vec<D> value, Stored* to, int64_t count) {
  if constexpr (sizeof(Stored) >= 4) {
    StoreFirst(d, CanonicalNaN(d, value), to, count);
  } else {
    const hn::Rebind<uint16_t, D> dh;
    StoreFirstHalves(dh, NarrowedBits<Stored>(d, value), reinterpret_cast<uint16_t*>(to), count);
  }
}

#endif  // HWY_TARGET

// A group: as many neighbours as fill kGroupParts vectors of the compute type, its parts. Of
// bfloat16 the even numbers are one part and the odd ones the other: one instruction each then
// widens them, and one joins the results.
template <class Stored>
inline constexpr int64_t kGroupParts = 1;
template <>
inline constexpr int64_t kGroupParts<BFloat16> = HWY_TARGET == HWY_SCALAR ? 1 : 2;

template <class Stored>
inline constexpr int64_t kGroupSize = kGroupParts<Stored>* static_cast<int64_t>(
    hn::MaxLanes(hn::ScalableTag<ComputeType<Stored> >()));

template <int64_t kPart, class D, class Stored>
HWY_INLINE hn::Vec<D> LoadPart(D d, const Stored* group) {
  if constexpr (kGroupParts<Stored> == 1) {
    return LoadWidened(d, group);
  } else {
    const hn::RebindToUnsigned<D> du;
    const hn::Repartition<uint16_t, D> dh;
    const auto pairs = hn::BitCast(du, hn::LoadU(dh, reinterpret_cast<const uint16_t*>(group)));
    if constexpr (kPart == 0) {
      return hn::BitCast(d, hn::ShiftLeft<16>(pairs));
    } else {
      return hn::BitCast(d, hn::And(pairs, hn::Set(du, 0xFFFF0000u)));
    }
  }
}

// Both parts of a group rounded to nearest even, as they are stored.
template <class D>
HWY_INLINE auto JoinParts(D d, hn::Vec<D> first, hn::Vec<D> last) {
  const hn::RebindToUnsigned<D> du;
  const auto even = hn::ShiftRight<16>(RoundToUpperHalf(d, first));
  const auto odd = hn::And(RoundToUpperHalf(d, last), hn::Set(du, 0xFFFF0000u));
  return hn::Or(even, odd);
}

// The inverse, of the first part and the last: rounds to nearest even, NaN becomes the canonical
// one.
template <class D, class Stored>
HWY_INLINE void StoreParts(D d, hn::Vec<D> first, [[maybe_unused]] hn::Vec<D> last, Stored* group) {
  if constexpr (kGroupParts<Stored> == 1) {
    StoreNarrowed(d, first, group);
  } else {
    const hn::Repartition<uint16_t, D> dh;
    hn::StoreU(hn::BitCast(dh, JoinParts(d, first, last)), dh, reinterpret_cast<uint16_t*>(group));
  }
}

// The same around the caches, for groups that begin at multiples of their size.
template <class D, class Stored>
HWY_INLINE void StreamParts(D d, hn::Vec<D> first, [[maybe_unused]] hn::Vec<D> last,
                            Stored* group) {
  if constexpr (kGroupParts<Stored> == 2) {
    const hn::RebindToUnsigned<D> du;
    hn::Stream(JoinParts(d, first, last), du, reinterpret_cast<hn::TFromD<decltype(du)>*>(group));
  } else {
    static_assert(std::is_same_v<Stored, hn::TFromD<D> >);
    hn::Stream(CanonicalNaN(d, first), d, group);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace convgrad
HWY_AFTER_NAMESPACE();

#endif  // toggle
