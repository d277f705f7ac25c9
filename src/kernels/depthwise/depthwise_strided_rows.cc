// Compiles depthwise_strided_rows-inl.h for every target.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/depthwise/depthwise_strided_rows.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep

#include "kernels/depthwise/depthwise_strided_rows-inl.h"
#include "kernels/dispatch.h"

#if HWY_ONCE
namespace convgrad {

void FillDepthwiseStridedRowsKernels(KernelTable& table) {
  CONVGRAD_OF_ISA(table.isa, FillDepthwiseStridedRows)(table);
}

}  // namespace convgrad
#endif
