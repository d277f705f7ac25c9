// Plans made for the types that they store, or for those whose numbers are computed as stored.
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

// Makes a PlanOf<Stored> for a problem of any type.
template <template <class> class PlanOf>
std::unique_ptr<Plan> PlanStored(const Problem& problem, const KernelTable& kernels,
                                 int num_threads) {
  return VisitFloat(problem.dtype, [&](auto tag) -> std::unique_ptr<Plan> {
    return std::make_unique<PlanOf<typename decltype(tag)::Type>>(problem, kernels, num_threads);
  });
}

}  // namespace convgrad
