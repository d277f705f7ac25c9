// A run of one form with one table of kernels, which a test may have changed, on operands where
// they lie.
#pragma once

#include "conv/plan/algorithm.h"
#include "problem/op.h"

namespace convgrad::testing {

// `first` and `second` are the operands in the order of InfoOf(op).operands.
inline void RunForced(const Algorithm& algorithm, const Problem& problem,
                      const KernelTable& kernels, const void* first, const void* second,
                      void* result, int num_threads) {
  const OpInfo& op = InfoOf(problem.op);
  const auto pointer_of = [&](Role role) -> const void* {
    if (role == op.operands[0]) return first;
    return role == op.operands[1] ? second : nullptr;
  };
  const Parallel parallel(num_threads);
  Planned::Forced(algorithm, problem, kernels, num_threads)
      .Run({problem, pointer_of(Role::kInput), pointer_of(Role::kFilter),
            pointer_of(Role::kOutBackprop), result, kernels, parallel});
}

}  // namespace convgrad::testing
