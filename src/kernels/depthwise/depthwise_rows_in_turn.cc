// Compiles depthwise_rows_in_turn-inl.h for every target.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/depthwise/depthwise_rows_in_turn.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep

#include "kernels/depthwise/depthwise_rows_in_turn-inl.h"
#include "kernels/dispatch.h"

#if HWY_ONCE
namespace convgrad {

void FillDepthwiseRowsInTurnKernels(KernelTable& table) {
  CONVGRAD_OF_ISA(table.isa, FillDepthwiseRowsInTurn)(table);
}

}  // namespace convgrad
#endif
