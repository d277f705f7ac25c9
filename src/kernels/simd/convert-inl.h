// Numbers between storage and compute form, one at a time, by vectors and by groups of neighbours
// that are cheaper to take apart: exact widening, rounding to nearest even. Included once per
// target.
#if defined(CONVGRAD_KERNELS_CONVERT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CONVGRAD_KERNELS_CONVERT_INL_H_
#undef CONVGRAD_KERNELS_CONVERT_INL_H_
#else
#define CONVGRAD_KERNELS_CONVERT_INL_H_
#endif

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

// Lanes(d) numbers from storage form. Targets with vectors all convert float16 in hardware,
// exactly.
template <class D>
HWY_INLINE hn::Vec<D> LoadWidened(D d, const Float16* from) {
  const hn::Rebind<hwy::float16_t, D> dh;
  return hn::PromoteTo(d, hn::LoadU(dh, reinterpret_cast<const hwy::float16_t*>(from)));
}
template <class D>
HWY_INLINE hn::Vec<D> LoadWidened(D d, const BFloat16* from) {
  const hn::RebindToUnsigned<D> du;
  const hn::Rebind<uint16_t, D> dh;
  const auto bits = hn::PromoteTo(du, hn::LoadU(dh, reinterpret_cast<const uint16_t*>(from)));
  return hn::BitCast(d, hn::ShiftLeft<16>(bits));
}
template <class D>
HWY_INLINE hn::Vec<D> LoadWidened(D d, const hn::TFromD<D>* from) {
  return hn::LoadU(d, from);
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

// The inverse of LoadWidened, rounding to nearest even; in hardware for float16.
template <class D>
HWY_INLINE void StoreNarrowed(D d, hn::Vec<D> value, Float16* to) {
  const hn::Rebind<hwy::float16_t, D> dh;
  const auto narrow = hn::DemoteTo(dh, CanonicalNaN(d, value));
  hn::StoreU(narrow, dh, reinterpret_cast<hwy::float16_t*>(to));
}
template <class D>
HWY_INLINE void StoreNarrowed(D d, hn::Vec<D> value, BFloat16* to) {
  const hn::Rebind<uint16_t, D> dh;
  const auto narrow = hn::TruncateTo(dh, hn::ShiftRight<16>(RoundToUpperHalf(d, value)));
  hn::StoreU(narrow, dh, reinterpret_cast<uint16_t*>(to));
}
template <class D>
HWY_INLINE void StoreNarrowed(D d, hn::Vec<D> value, hn::TFromD<D>* to) {
  hn::StoreU(CanonicalNaN(d, value), d, to);
}

// Both for the first `count` <= Lanes(d) numbers; the other lanes of a load are zero.
template <class D, class Stored>
HWY_INLINE hn::Vec<D> LoadWidenedFirst(D d, const Stored* from, int64_t count) {
  if constexpr (sizeof(Stored) >= 4) {
    return LoadFirst(d, from, count);
  } else {
    Stored part[hn::MaxLanes(d)] = {};
    std::memcpy(part, from, static_cast<size_t>(count) * sizeof(Stored));
    return LoadWidened(d, part);
  }
}
template <class D, class Stored>
HWY_INLINE void StoreNarrowedFirst(D d, hn::Vec<D> value, Stored* to, int64_t count) {
  if constexpr (sizeof(Stored) >= 4) {
    StoreFirst(d, CanonicalNaN(d, value), to, count);
  } else {
    Stored part[hn::MaxLanes(d)];
    StoreNarrowed(d, value, part);
    std::memcpy(to, part, static_cast<size_t>(count) * sizeof(Stored));
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
