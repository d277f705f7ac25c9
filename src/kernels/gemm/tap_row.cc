// Compiles tap_row-inl.h for every target.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gemm/tap_row.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep

#include "kernels/dispatch.h"
#include "kernels/gemm/tap_row-inl.h"

#if HWY_ONCE
namespace convgrad {

void FillTapRowKernels(KernelTable& table) {
  CONVGRAD_OF_ISA(table.isa, FillTapRow)(table);
}

}  // namespace convgrad
#endif
