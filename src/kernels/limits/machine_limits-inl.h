// The loops of machine_limits.h. They know vectors and bytes, not caches or clocks. Included once
// per target.
#if defined(CONVGRAD_KERNELS_MACHINE_LIMITS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CONVGRAD_KERNELS_MACHINE_LIMITS_INL_H_
#undef CONVGRAD_KERNELS_MACHINE_LIMITS_INL_H_
#else
#define CONVGRAD_KERNELS_MACHINE_LIMITS_INL_H_
#endif

#include <hwy/cache_control.h>

#include "kernels/kernel_table.h"
#include "kernels/simd/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace convgrad {
namespace HWY_NAMESPACE {

// Two pipes with a latency of 4 or 5 cycles need 8 to 10 chains. With 12, AVX2's 16 registers still
// hold them with the two factors.
template <class T>
int64_t LimitFma(int64_t rounds, void* sink) {
  constexpr int kChains = 12;
  const hn::ScalableTag<T> d;
  const auto factor = hn::Set(d, static_cast<T>(0.5));
  const auto term = hn::Set(d, static_cast<T>(1));  // the chains converge to 2: no subnormals
  hn::Vec<decltype(d)> chain[kChains];
#pragma GCC unroll 12
  for (int i = 0; i < kChains; ++i) chain[i] = hn::Set(d, static_cast<T>(i));
  for (int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 12
    for (int i = 0; i < kChains; ++i) chain[i] = Fma(chain[i], factor, term);
  }
#pragma GCC unroll 12
  for (int i = 1; i < kChains; ++i) chain[0] = hn::Add(chain[0], chain[i]);
  hn::StoreU(chain[0], d, static_cast<T*>(sink));
  return 2 * rounds * kChains * static_cast<int64_t>(hn::Lanes(d));
}

// Integers: no target is without, and an "or" takes one cycle, so that loads are the limit in L1
// too.
using LimitTag = hn::ScalableTag<uint64_t>;
constexpr int kLimitStreams = 8;

inline void LimitRead(const void* from, int64_t bytes, void* sink) {
  const LimitTag d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto* at = static_cast<const uint64_t*>(from);
  hn::Vec<LimitTag> seen[kLimitStreams];
#pragma GCC unroll 8
  for (int i = 0; i < kLimitStreams; ++i) seen[i] = hn::Zero(d);
  const uint64_t* const end = at + bytes / 8;
  for (; at < end; at += kLimitStreams * lanes) {
#pragma GCC unroll 8
    for (int i = 0; i < kLimitStreams; ++i) seen[i] = hn::Or(seen[i], hn::Load(d, at + i * lanes));
  }
#pragma GCC unroll 8
  for (int i = 1; i < kLimitStreams; ++i) seen[0] = hn::Or(seen[0], seen[i]);
  hn::StoreU(seen[0], d, static_cast<uint64_t*>(sink));
}

template <bool kAroundCaches>
void LimitWrite(void* to, int64_t bytes) {
  const LimitTag d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  auto* at = static_cast<uint64_t*>(to);
  const auto zero = hn::Zero(d);
  uint64_t* const end = at + bytes / 8;
  for (; at < end; at += kLimitStreams * lanes) {
#pragma GCC unroll 8
    for (int i = 0; i < kLimitStreams; ++i) {
      if constexpr (kAroundCaches) {
        hn::Stream(zero, d, at + i * lanes);
      } else {
        hn::Store(zero, d, at + i * lanes);
      }
    }
  }
  if constexpr (kAroundCaches) hwy::FlushStream();
}

inline void FillMachineLimits(KernelTable& table) {
  table.machine_limits = {LimitFma<float>, LimitFma<double>, LimitRead, LimitWrite<false>,
                          LimitWrite<true>};
}

}  // namespace HWY_NAMESPACE
}  // namespace convgrad
HWY_AFTER_NAMESPACE();

#endif  // toggle
