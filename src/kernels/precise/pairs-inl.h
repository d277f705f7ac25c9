// Numbers of float64 cut in two and sums of two numbers; see precise.h. Included once per target.
#if defined(CONVGRAD_KERNELS_PAIRS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CONVGRAD_KERNELS_PAIRS_INL_H_
#undef CONVGRAD_KERNELS_PAIRS_INL_H_
#else
#define CONVGRAD_KERNELS_PAIRS_INL_H_
#endif

#include <limits>

#include "kernels/precise/precise.h"
#include "kernels/simd/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace convgrad {
namespace HWY_NAMESPACE {

using PairTag = hn::ScalableTag<double>;
using OnePairTag = hn::CappedTag<double, 1>;

// body(d, i) for vectors of numbers, and then for single ones.
template <class Body>
HWY_INLINE void ForVectors(int64_t count, const Body& body) {
  const PairTag d;
  constexpr int64_t kLanes = hn::MaxLanes(d);
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) body(d, i);
  for (; i < count; ++i) body(OnePairTag(), i);
}

inline double LargestOf(const double* from, int64_t count) {
  const PairTag d;
  auto largest = hn::Zero(d);
  double last = 0;
  const auto finite_size = [&](auto tag, int64_t i) {
    const auto size = hn::Abs(hn::LoadU(tag, from + i));
    const auto infinity = hn::Set(tag, std::numeric_limits<double>::infinity());
    return hn::IfThenElse(hn::Lt(size, infinity), size, hn::Zero(tag));
  };
  constexpr int64_t kLanes = hn::MaxLanes(d);
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) largest = hn::Max(largest, finite_size(d, i));
  for (; i < count; ++i) last = HWY_MAX(last, hn::GetLane(finite_size(OnePairTag(), i)));
  return HWY_MAX(last, hn::GetLane(hn::MaxOfLanes(d, largest)));
}

inline void CutInTwo(const double* from, double to_unit, double* upper, double* lower,
                     int64_t count) {
  ForVectors(count, [&](auto d, int64_t i) {
    const auto number = hn::LoadU(d, from + i), unit = hn::Set(d, to_unit);
    const auto kept = hn::Sub(hn::Add(number, unit), unit);
    hn::StoreU(kept, d, upper + i);
    hn::StoreU(hn::Sub(number, kept), d, lower + i);
  });
}

inline void AddToPairs(const double* terms, double* high, double* low, int64_t count) {
  ForVectors(count,
             [&](auto d, int64_t i) { FoldBlock(d, hn::LoadU(d, terms + i), high + i, low + i); });
}

// high + low is sum + rest without an error: both ends of what it may be round to sum, or it is in
// doubt.
inline int64_t RoundPairs(const double* high, const double* low, double bound, double* to,
                          int64_t count, int64_t* doubts) {
  int64_t num_doubts = 0;
  // The two additions of a bound may lose as much; none is added where there is none.
  const double relative = bound > 0 ? 0x1p-51 : 0;
  ForVectors(count, [&](auto d, int64_t i) {
    const auto h = hn::LoadU(d, high + i), l = hn::LoadU(d, low + i);
    hn::Vec<decltype(d)> rest;
    const auto sum = TwoSum(h, l, rest);
    const auto slack =
        Fma(hn::Abs(rest), hn::Set(d, relative), hn::Set(d, bound + bound * relative));
    const auto least = hn::Add(sum, hn::Sub(rest, slack));
    const auto most = hn::Add(sum, hn::Add(rest, slack));
    hn::StoreU(most, d, to + i);
    // Nothing equals NaN, and an infinite sum makes NaN.
    const auto equal = hn::Eq(most, least);
    if (HWY_LIKELY(hn::AllTrue(d, equal))) return;
    uint8_t bits[8] = {};
    hn::StoreMaskBits(d, hn::Not(equal), bits);
    for (uint32_t mask = bits[0]; mask != 0; mask &= mask - 1) {
      doubts[num_doubts++] = i + __builtin_ctz(mask);
    }
  });
  return num_doubts;
}

inline constexpr PairKernels kPairKernels = {LargestOf, CutInTwo, AddToPairs, RoundPairs};

}  // namespace HWY_NAMESPACE
}  // namespace convgrad
HWY_AFTER_NAMESPACE();

#endif  // toggle
