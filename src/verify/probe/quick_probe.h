// A probe for problems of any size, in about the time of a few runs of a fast kernel: what a
// measurement asks for before it times anything.
#pragma once

#include <cstdint>
#include <functional>

#include "conv/compute.h"
#include "verify/compare/compare.h"

namespace convgrad {

// Up to this many terms every element is held against its exact value (a probe).
inline constexpr int64_t kMaxProbedTerms = int64_t{1} << 25;

// Runs `problem` with `execution` on integer fills and demands the exact values: of every element
// where that is quick; else of elements at all corners and edges and of random ones, and of all
// elements together by the adjoint identity, <conv(x,w), g> = <x, backprop_input(w,g)> = <w,
// backprop_filter(x,g)>, whose other side another kernel computes. Each element enters it with a
// factor of its own, 16-bit ones by way of the same problem in float32. Where memory is short, the
// identity is left out, then images, and the reason says so. Throws I/O "memory/limit" where not
// even one image fits.
CheckResult QuickProbe(const Problem& problem, const Execution& execution, uint64_t seed);

// The same of a result that comes from elsewhere. Only `compute` is on trial: the other side of the
// identity is the library's.
using ComputeFunction =
    std::function<Tensor(const Problem& problem, const Tensor& first, const Tensor& second)>;
CheckResult QuickProbe(const Problem& problem, const Execution& execution, uint64_t seed,
                       const ComputeFunction& compute);

}  // namespace convgrad
