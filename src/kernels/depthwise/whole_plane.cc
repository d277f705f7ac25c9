// Compiles whole_plane-inl.h for every target.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/depthwise/whole_plane.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep

#include "kernels/depthwise/whole_plane-inl.h"
#include "kernels/dispatch.h"

#if HWY_ONCE
namespace convgrad {

void FillWholePlaneKernels(KernelTable& table) {
  CONVGRAD_OF_ISA(table.isa, FillWholePlane)(table);
}

}  // namespace convgrad
#endif
