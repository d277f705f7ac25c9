// Compiles indirect_gemm-inl.h for every target.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gemm/indirect_gemm.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep

#include "kernels/dispatch.h"
#include "kernels/gemm/indirect_gemm-inl.h"

#if HWY_ONCE
namespace convgrad {

void FillIndirectGemmKernels(KernelTable& table) {
  CONVGRAD_OF_ISA(table.isa, FillIndirectGemm)(table);
}

}  // namespace convgrad
#endif
