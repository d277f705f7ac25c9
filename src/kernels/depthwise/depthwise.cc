// Compiles depthwise-inl.h for every target.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/depthwise/depthwise.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep

#include "kernels/depthwise/depthwise-inl.h"
#include "kernels/dispatch.h"

#if HWY_ONCE
namespace convgrad {

void FillDepthwiseKernels(KernelTable& table) {
  CONVGRAD_OF_ISA(table.isa, FillDepthwise)(table);
}

}  // namespace convgrad
#endif
