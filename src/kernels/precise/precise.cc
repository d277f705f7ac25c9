// Compiles precise-inl.h, pairs-inl.h and screen-inl.h for every target.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/precise/precise.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep

#include "kernels/dispatch.h"
#include "kernels/precise/pairs-inl.h"
#include "kernels/precise/precise-inl.h"
#include "kernels/precise/screen-inl.h"

#if HWY_ONCE
namespace convgrad {

template <class Stored>
const PreciseKernels<Stored>& PreciseKernelsOf(Isa isa) {
  return CONVGRAD_OF_ISA(isa, kPrecise<Stored>);
}

const PairKernels& PairKernelsOf(Isa isa) {
  return CONVGRAD_OF_ISA(isa, kPairKernels);
}

template <class Stored>
const ScreenKernels<Stored>& ScreenKernelsOf(Isa isa) {
  return CONVGRAD_OF_ISA(isa, kScreen<Stored>);
}

template const ScreenKernels<Float16>& ScreenKernelsOf<Float16>(Isa);
template const ScreenKernels<BFloat16>& ScreenKernelsOf<BFloat16>(Isa);
template const ScreenKernels<float>& ScreenKernelsOf<float>(Isa);
template const PreciseKernels<Float16>& PreciseKernelsOf<Float16>(Isa);
template const PreciseKernels<BFloat16>& PreciseKernelsOf<BFloat16>(Isa);
template const PreciseKernels<float>& PreciseKernelsOf<float>(Isa);

}  // namespace convgrad
#endif
