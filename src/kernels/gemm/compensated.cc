// Compiles compensated-inl.h for every target.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gemm/compensated.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep

#include "kernels/dispatch.h"
#include "kernels/gemm/compensated-inl.h"

#if HWY_ONCE
namespace convgrad {

void FillCompensatedKernels(KernelTable& table) {
  CONVGRAD_OF_ISA(table.isa, FillCompensated)(table);
}

}  // namespace convgrad
#endif
