// Packing kernels; see pack.h. Included once per target.
#if defined(CONVGRAD_KERNELS_PACK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CONVGRAD_KERNELS_PACK_INL_H_
#undef CONVGRAD_KERNELS_PACK_INL_H_
#else
#define CONVGRAD_KERNELS_PACK_INL_H_
#endif

#include <limits>
#include <type_traits>

#include "kernels/kernel_table.h"
#include "kernels/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace convgrad {
namespace HWY_NAMESPACE {

HWY_INLINE float WidenOne(Float16 value) { return ToFloat(value); }
HWY_INLINE float WidenOne(BFloat16 value) { return ToFloat(value); }
HWY_INLINE float WidenOne(float value) { return value; }
HWY_INLINE double WidenOne(double value) { return value; }

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

template <class Stored>
void PackWiden(const Stored* from, ComputeType<Stored>* to, int64_t count) {
  for (int64_t i = 0; i < count; ++i) to[i] = WidenOne(from[i]);
}

template <class Stored>
void PackNarrow(const ComputeType<Stored>* from, Stored* to, int64_t count) {
  for (int64_t i = 0; i < count; ++i) to[i] = NarrowOne<Stored>(from[i]);
}

template <class Stored>
void PackTransposeWiden(const Stored* from, int64_t from_stride, ComputeType<Stored>* to,
                        int64_t to_stride, int64_t rows, int64_t cols) {
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t col = 0; col < cols; ++col) {
      to[col * to_stride + row] = WidenOne(from[row * from_stride + col]);
    }
  }
}

template <class Stored>
void PackTransposeNarrow(const ComputeType<Stored>* from, int64_t from_stride, Stored* to,
                         int64_t to_stride, int64_t rows, int64_t cols) {
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t col = 0; col < cols; ++col) {
      to[col * to_stride + row] = NarrowOne<Stored>(from[row * from_stride + col]);
    }
  }
}

template <class Stored>
PackKernels<Stored> MakePackKernels() {
  return {PackWiden<Stored>, PackNarrow<Stored>, PackTransposeWiden<Stored>,
          PackTransposeNarrow<Stored>};
}

inline void FillPack(KernelTable& table) {
  table.pack_f16 = MakePackKernels<Float16>();
  table.pack_bf16 = MakePackKernels<BFloat16>();
  table.pack_f32 = MakePackKernels<float>();
  table.pack_f64 = MakePackKernels<double>();
}

}  // namespace HWY_NAMESPACE
}  // namespace convgrad
HWY_AFTER_NAMESPACE();

#endif  // toggle
