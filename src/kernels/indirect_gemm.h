// The indirect matrix micro-kernel; see indirect_gemm-inl.h.
#pragma once

#include <cstdint>

namespace convgrad {

template <class Compute>
struct IndirectGemmKernels {};

}  // namespace convgrad
