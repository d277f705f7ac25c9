// Compiles depthwise_gradient-inl.h for every target.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/depthwise/depthwise_gradient.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep

#include "kernels/depthwise/depthwise_gradient-inl.h"
#include "kernels/dispatch.h"

#if HWY_ONCE
namespace convgrad {

void FillDepthwiseGradientKernels(KernelTable& table) {
  CONVGRAD_OF_ISA(table.isa, FillDepthwiseGradient)(table);
}

}  // namespace convgrad
#endif
