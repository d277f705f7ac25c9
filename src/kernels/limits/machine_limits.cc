// Compiles machine_limits-inl.h for every target.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/limits/machine_limits.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep

#include "kernels/dispatch.h"
#include "kernels/limits/machine_limits-inl.h"

#if HWY_ONCE
namespace convgrad {

void FillMachineLimitKernels(KernelTable& table) {
  CONVGRAD_OF_ISA(table.isa, FillMachineLimits)(table);
}

}  // namespace convgrad
#endif
