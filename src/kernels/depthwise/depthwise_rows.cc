// Compiles depthwise_rows-inl.h for every target.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/depthwise/depthwise_rows.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep

#include "kernels/depthwise/depthwise_rows-inl.h"
#include "kernels/dispatch.h"

#if HWY_ONCE
namespace convgrad {

void FillDepthwiseRowsKernels(KernelTable& table) {
  CONVGRAD_OF_ISA(table.isa, FillDepthwiseRows)(table);
}

}  // namespace convgrad
#endif
