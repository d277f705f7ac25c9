// The door to exact sums over some images: memory, instruction set, threads.
#pragma once

#include <cstdint>
#include <functional>

#include "conv/compute.h"
#include "order/fixed_point.h"

namespace convgrad {

// Says what will run; its memory is the least that it takes: sums of one word. Throws usage
// "isa/unsupported", and "algorithm/refused" where one is forced.
RunInfo PlanExactSums(const Problem& problem, const Execution& execution);

// Throws I/O "memory/limit" where the execution does not allow operands of so many bytes, scratch
// and the least sums, with nothing allocated.
void CheckExactSumsMemory(const Problem& problem, int64_t operand_bytes,
                          const Execution& execution);

// The exact sums of a filter gradient over the problem's images, in the least window that has them.
// `seen(begin, end)` is called when images have been added, which are in the caches then. Operands
// held in memory are `operand_bytes`. Throws I/O "memory/limit" before anything is allocated that
// the execution does not allow.
FixedPointSums ComputeExactSums(const Problem& problem, const Tensor& input,
                                const Tensor& out_backprop, int64_t operand_bytes,
                                const Execution& execution,
                                const std::function<void(int64_t begin, int64_t end)>& seen);

}  // namespace convgrad
