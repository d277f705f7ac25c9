// A plan of functions that each plan anew: what algorithms are that have no plan of their own.
#pragma once

#include <memory>
#include <string>
#include <type_traits>

#include "conv/plan/plan.h"

namespace convgrad {

// `kRun` may return nothing, or whether the data allow it.
template <auto kScratchBytes, auto kTiles, auto kRun>
class FunctionPlan : public Plan {
 public:
  FunctionPlan(const Problem& problem, const KernelTable& kernels, int num_threads)
      : problem_(problem), kernels_(kernels), num_threads_(num_threads) {}

  int64_t ScratchBytes() const override { return kScratchBytes(problem_, kernels_, num_threads_); }
  std::string Tiles() const override { return kTiles(problem_, kernels_); }
  bool Run(const ConvArgs& args) const override {
    if constexpr (std::is_void_v<decltype(kRun(args))>) {
      kRun(args);
      return true;
    } else {
      return kRun(args);
    }
  }

  static std::unique_ptr<Plan> Make(const Problem& problem, const KernelTable& kernels,
                                    int num_threads) {
    return std::make_unique<FunctionPlan>(problem, kernels, num_threads);
  }

 private:
  const Problem problem_;
  const KernelTable& kernels_;
  const int num_threads_;
};

}  // namespace convgrad
