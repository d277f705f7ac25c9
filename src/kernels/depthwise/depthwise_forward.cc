// Compiles depthwise_forward-inl.h for every target.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/depthwise/depthwise_forward.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep

#include "kernels/depthwise/depthwise_forward-inl.h"
#include "kernels/dispatch.h"

#if HWY_ONCE
namespace convgrad {

void FillDepthwiseForwardKernels(KernelTable& table) {
  CONVGRAD_OF_ISA(table.isa, FillDepthwiseForward)(table);
}

}  // namespace convgrad
#endif
