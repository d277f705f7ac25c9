// A copy of bytes around the caches; see kernel_table.h. Included once per target.
#if defined(CONVGRAD_KERNELS_STREAM_BYTES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CONVGRAD_KERNELS_STREAM_BYTES_INL_H_
#undef CONVGRAD_KERNELS_STREAM_BYTES_INL_H_
#else
#define CONVGRAD_KERNELS_STREAM_BYTES_INL_H_
#endif

#include <cstdint>
#include <cstring>

#include "base/memory.h"
#include "kernels/simd/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace convgrad {
namespace HWY_NAMESPACE {

inline void StreamBytes(const void* from, void* to, int64_t bytes) {
  const auto* source = static_cast<const uint8_t*>(from);
  auto* line = static_cast<uint8_t*>(to);
  const int64_t misaligned = static_cast<int64_t>(reinterpret_cast<uintptr_t>(to) % kLineBytes);
  const int64_t before = HWY_MIN(bytes, (kLineBytes - misaligned) % kLineBytes);
  std::memcpy(line, source, static_cast<size_t>(before));
  int64_t i = before;
#if HWY_TARGET != HWY_SCALAR
  const hn::ScalableTag<uint8_t> d;
  constexpr int64_t kLanes = hn::MaxLanes(d);
  for (; i + kLineBytes <= bytes; i += kLineBytes) {
#pragma GCC unroll 4
    for (int64_t at = i; at < i + kLineBytes; at += kLanes) {
      hn::Stream(hn::LoadU(d, source + at), d, line + at);
    }
  }
#endif
  std::memcpy(line + i, source + i, static_cast<size_t>(bytes - i));
}

}  // namespace HWY_NAMESPACE
}  // namespace convgrad
HWY_AFTER_NAMESPACE();

#endif  // toggle
