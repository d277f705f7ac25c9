// Sums rounded to bfloat16 by instructions that only some processors of a target have: those with
// pairs (kernel_table.h). Included once per target.
#if defined(CONVGRAD_KERNELS_BFLOAT16_INSTRUCTIONS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CONVGRAD_KERNELS_BFLOAT16_INSTRUCTIONS_INL_H_
#undef CONVGRAD_KERNELS_BFLOAT16_INSTRUCTIONS_INL_H_
#else
#define CONVGRAD_KERNELS_BFLOAT16_INSTRUCTIONS_INL_H_
#endif

#include <cstdint>

#include "base/float16.h"
#include "kernels/simd/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace convgrad {
namespace HWY_NAMESPACE {

#if HWY_TARGET == HWY_AVX3
// A vector of sums rounded to the final type. The instructions take subnormal numbers for zero, and
// keep payloads of NaN: sums of pairs are neither. As assembly, since the target's other code must
// run on processors without them.
template <class D>
HWY_INLINE hn::Vec<hn::Rebind<uint16_t, D>> Narrowed(D, hn::Vec<D> value) {
  hn::Vec<hn::Rebind<uint16_t, D>> narrowed;
  asm("vcvtneps2bf16 %1, %0" : "=v"(narrowed.raw) : "v"(value.raw));
  return narrowed;
}

// The first `count` numbers, rounded.
template <class D>
HWY_INLINE void StoreFirst(D d, hn::Vec<D> value, BFloat16* to, int64_t count) {
  const hn::Rebind<uint16_t, D> dh;
  const auto first = hn::FirstN(dh, static_cast<size_t>(count));
  hn::BlendedStore(Narrowed(d, value), first, dh, reinterpret_cast<uint16_t*>(to));
}

// Whole vectors side by side, rounded, two of them as one.
template <bool kStream, int kCount, class V>
HWY_INLINE void StoreNarrowed(const V (&values)[kCount], BFloat16* to) {
  const hn::ScalableTag<float> d;
  const hn::ScalableTag<uint16_t> dw;
  auto* bits = reinterpret_cast<uint16_t*>(to);
#pragma GCC unroll 16
  for (int v = 0; v + 1 < kCount; v += 2, bits += hn::MaxLanes(dw)) {
    hn::Vec<decltype(dw)> both;
    asm("vcvtne2ps2bf16 %1, %2, %0" : "=v"(both.raw) : "v"(values[v].raw), "v"(values[v + 1].raw));
    if constexpr (kStream) {
      hn::Stream(both, dw, bits);
    } else {
      hn::StoreU(both, dw, bits);
    }
  }
  if constexpr (kCount % 2 != 0) {
    const hn::Rebind<uint16_t, decltype(d)> dh;
    const auto last = Narrowed(d, values[kCount - 1]);
    if constexpr (kStream) {
      hn::Stream(last, dh, bits);
    } else {
      hn::StoreU(last, dh, bits);
    }
  }
}
#endif

}  // namespace HWY_NAMESPACE
}  // namespace convgrad
HWY_AFTER_NAMESPACE();

#endif  // toggle
