// A plan for bfloat16 operands as pairs, which takes widened numbers where pairs are not exact.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "conv/move/bfloat16_pairs.h"
#include "conv/plan/plan.h"

namespace convgrad {

class PairsPlan : public Plan {
 public:
  PairsPlan(std::unique_ptr<Plan> pairs, std::unique_ptr<Plan> widened)
      : pairs_(std::move(pairs)), widened_(std::move(widened)) {}

  int64_t ScratchBytes() const override {
    return std::max(pairs_->ScratchBytes(), widened_->ScratchBytes());
  }
  Work CountWork() const override { return pairs_->CountWork(); }
  std::string Tiles() const override { return pairs_->Tiles() + ", in pairs"; }
  bool Run(const ConvArgs& args) const override {
    return PairsAreExact(args) ? pairs_->Run(args) : widened_->Run(args);
  }

 private:
  const std::unique_ptr<Plan> pairs_, widened_;
};

// A PlanOf<Stored, Element> for the problem's type, with both kinds of elements if `in_pairs`.
template <template <class, class> class PlanOf>
std::unique_ptr<Plan> PlanFloat(const Problem& problem, const KernelTable& kernels, int num_threads,
                                bool in_pairs) {
  return VisitFloat(problem.dtype, [&](auto tag) -> std::unique_ptr<Plan> {
    using Stored = typename decltype(tag)::Type;
    auto plan =
        std::make_unique<PlanOf<Stored, ComputeType<Stored>>>(problem, kernels, num_threads);
    if constexpr (std::is_same_v<Stored, BFloat16>) {
      if (in_pairs) {
        return std::make_unique<PairsPlan>(
            std::make_unique<PlanOf<Stored, BFloat16Pair>>(problem, kernels, num_threads),
            std::move(plan));
      }
    }
    return plan;
  });
}

}  // namespace convgrad
