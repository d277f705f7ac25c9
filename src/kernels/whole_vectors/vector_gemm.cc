// Compiles vector_gemm-inl.h and vector_outer-inl.h for every target.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/whole_vectors/vector_gemm.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep

#include "kernels/dispatch.h"
#include "kernels/whole_vectors/vector_gemm-inl.h"
#include "kernels/whole_vectors/vector_outer-inl.h"

#if HWY_ONCE
namespace convgrad {

void FillVectorGemmKernels(KernelTable& table) {
  CONVGRAD_OF_ISA(table.isa, FillVectorGemm)(table);
}

void FillVectorOuterKernels(KernelTable& table) {
  CONVGRAD_OF_ISA(table.isa, FillVectorOuter)(table);
}

}  // namespace convgrad
#endif
