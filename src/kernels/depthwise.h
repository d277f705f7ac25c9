// Depthwise kernels on channels-innermost data; see depthwise-inl.h.
#pragma once

#include <cstdint>

namespace convgrad {

template <class Compute>
struct DepthwiseKernels {};

}  // namespace convgrad
