// Compiles plane-inl.h for every target.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/depthwise/plane.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep

#include "kernels/depthwise/plane-inl.h"
#include "kernels/dispatch.h"

#if HWY_ONCE
namespace convgrad {

void FillPlaneKernels(KernelTable& table) {
  CONVGRAD_OF_ISA(table.isa, FillPlane)(table);
}

}  // namespace convgrad
#endif
