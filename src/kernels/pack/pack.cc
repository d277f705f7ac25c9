// Compiles pack-inl.h and pack_pairs-inl.h for every target.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/pack/pack.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep

#include "kernels/dispatch.h"
#include "kernels/pack/pack-inl.h"
#include "kernels/pack/pack_pairs-inl.h"

#if HWY_ONCE
namespace convgrad {

void FillPackKernels(KernelTable& table) {
  CONVGRAD_OF_ISA(table.isa, FillPack)(table);
}

void FillPackPairKernels(KernelTable& table) {
  CONVGRAD_OF_ISA(table.isa, FillPackPairs)(table);
}

}  // namespace convgrad
#endif
