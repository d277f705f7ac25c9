// The sums of a tile that holds them in registers for a whole block. Included once per target.
#if defined(CONVGRAD_KERNELS_HELD_SUMS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CONVGRAD_KERNELS_HELD_SUMS_INL_H_
#undef CONVGRAD_KERNELS_HELD_SUMS_INL_H_
#else
#define CONVGRAD_KERNELS_HELD_SUMS_INL_H_
#endif

#include <cstdint>

#include "kernels/simd/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace convgrad {
namespace HWY_NAMESPACE {

// Every loop over them is unrolled.
template <class Compute, int kRows, int kVectors>
struct HeldSums {
  using D = hn::ScalableTag<Compute>;

  hn::Vec<D> at[kRows][kVectors];

  HWY_INLINE HeldSums() {}  // one that the compiler adds is not for this target

  HWY_INLINE void SetZero() {
#pragma GCC unroll 32
    for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) at[i][v] = hn::Zero(D());
    }
  }

  // Adds them in double to sums in memory, row by row; float has no errors.
  HWY_INLINE void Fold(double* to, double* errors) const {
    const int64_t lanes = static_cast<int64_t>(hn::Lanes(D()));
#pragma GCC unroll 32
    for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) {
        const int64_t place = (i * kVectors + v) * lanes;
        FoldBlock(D(), at[i][v], to + place, ErrorAt<Compute>(errors, place));
      }
    }
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace convgrad
HWY_AFTER_NAMESPACE();

#endif  // toggle
