// How the tables of the instruction sets are filled: each family compiles its kernels for every
// target and copies those of table.isa into the table.
#pragma once

#include <hwy/highway.h>

#include "kernels/kernel_table.h"

namespace convgrad {

void FillIndirectGemmKernels(KernelTable& table);
void FillVectorGemmKernels(KernelTable& table);
void FillVectorOuterKernels(KernelTable& table);
void FillTapRowKernels(KernelTable& table);
void FillPlaneSquareKernels(KernelTable& table);
void FillFewRowsKernels(KernelTable& table);
void FillDepthwiseKernels(KernelTable& table);
void FillDepthwiseForwardKernels(KernelTable& table);
void FillDepthwiseGradientKernels(KernelTable& table);
void FillDepthwiseRowsKernels(KernelTable& table);
void FillDepthwiseRowsInTurnKernels(KernelTable& table);
void FillPackKernels(KernelTable& table);
void FillPackPairKernels(KernelTable& table);
void FillPlaneKernels(KernelTable& table);
void FillWholePlaneKernels(KernelTable& table);
void FillCompensatedKernels(KernelTable& table);
void FillMachineLimitKernels(KernelTable& table);

// A build with sanitizers leaves one of these out (CMakeLists.txt). No table has it then: this only
// gives its name a meaning.
#if defined(__x86_64__) && !(HWY_TARGETS & HWY_AVX2)
namespace N_AVX3 {}
namespace N_AVX2 = N_AVX3;
#elif defined(__x86_64__) && !(HWY_TARGETS & HWY_AVX3)
namespace N_AVX2 {}
namespace N_AVX3 = N_AVX2;
#endif

}  // namespace convgrad

// `name` of the namespace that was compiled for an instruction set.
#if defined(__x86_64__)
#define CONVGRAD_OF_ISA(isa, name) \
  ((isa) == Isa::kAvx512 ? N_AVX3::name : (isa) == Isa::kAvx2 ? N_AVX2::name : N_SCALAR::name)
#else
#define CONVGRAD_OF_ISA(isa, name) ((isa) == Isa::kNeon ? N_NEON::name : N_SCALAR::name)
#endif
