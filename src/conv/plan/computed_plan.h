// Plans of the types whose numbers are computed as they are stored.
#pragma once

#include <memory>

#include "conv/plan/plan.h"
#include "tensor/dtype.h"

namespace convgrad {

inline bool IsStoredAsComputed(DType dtype) {
  return dtype == DType::kFloat32 || dtype == DType::kFloat64;
}

// Makes a PlanOf<Compute> for a problem of such a type.
template <template <class> class PlanOf>
std::unique_ptr<Plan> PlanComputed(const Problem& problem, const KernelTable& kernels,
                                   int num_threads) {
  if (problem.dtype == DType::kFloat64) {
    return std::make_unique<PlanOf<double>>(problem, kernels, num_threads);
  }
  return std::make_unique<PlanOf<float>>(problem, kernels, num_threads);
}

}  // namespace convgrad
