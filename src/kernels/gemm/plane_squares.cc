// Compiles plane_squares-inl.h for every target.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gemm/plane_squares.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep

#include "kernels/dispatch.h"
#include "kernels/gemm/plane_squares-inl.h"

#if HWY_ONCE
namespace convgrad {

void FillPlaneSquareKernels(KernelTable& table) {
  CONVGRAD_OF_ISA(table.isa, FillPlaneSquares)(table);
}

}  // namespace convgrad
#endif
