// Compiles plane-inl.h for every target.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/plane.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep

#include "kernels/dispatch.h"
#include "kernels/plane-inl.h"

#if HWY_ONCE
namespace convgrad {

void FillPlaneKernels(KernelTable& table) {
  CONVGRAD_FOR_ISA(table, FillPlane);
}

}  // namespace convgrad
#endif
