// Compiles few_rows-inl.h for every target.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gemm/few_rows.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep

#include "kernels/dispatch.h"
#include "kernels/gemm/few_rows-inl.h"

#if HWY_ONCE
namespace convgrad {

void FillFewRowsKernels(KernelTable& table) {
  CONVGRAD_OF_ISA(table.isa, FillFewRows)(table);
}

}  // namespace convgrad
#endif
