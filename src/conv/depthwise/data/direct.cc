// The plan of depthwise forward and input gradient with lanes along channels, through strips or in
// place.
#include <fmt/format.h>

#include <memory>
#include <string>

#include "base/checked.h"
#include "conv/depthwise/algorithms.h"
#include "conv/depthwise/data/direct_calls.h"
#include "conv/depthwise/data/direct_cut.h"
#include "conv/depthwise/data/direct_runs.h"
#include "conv/depthwise/data/work.h"

namespace convgrad {
namespace {

class DepthwiseDataPlan final : public Plan {
 public:
  DepthwiseDataPlan(const Problem& problem, const KernelTable& kernels, int num_threads)
      : kernels_(kernels), num_threads_(num_threads), cut_(problem, kernels, num_threads) {}

  int64_t ScratchBytes() const override {
    return cut_.shared_bytes() + (cut_.worker_bytes() + CallBytes(cut_)) * num_threads_;
  }
  Work CountWork() const override { return CountDirect(cut_, kernels_); }
  std::string Tiles() const override;
  bool Run(const ConvArgs& args) const override;

 private:
  const KernelTable& kernels_;
  const int num_threads_;
  const DepthwiseDataCut cut_;
};

std::string DepthwiseDataPlan::Tiles() const {
  return fmt::format("{} channels x {} rows a task, {}{}{}", cut_.chunks.widest(),
                     CeilDiv(cut_.rows.num_results(), cut_.row_parts),
                     cut_.source_in_place ? "in place" : "through strips",
                     cut_.by_pairs ? ", by pairs" : "",
                     cut_.rows_in_turn ? ", all rows in turn"
                     : cut_.all_rows   ? ", all rows together"
                                       : "");
}

bool DepthwiseDataPlan::Run(const ConvArgs& args) const {
  if (cut_.source_in_place) {
    RunInPlace(args, cut_);
  } else {
    RunThroughStrips(args, cut_);
  }
  return true;
}

std::unique_ptr<Plan> PlanData(const Problem& problem, const KernelTable& kernels,
                               int num_threads) {
  return std::make_unique<DepthwiseDataPlan>(problem, kernels, num_threads);
}

}  // namespace

const Algorithm kDepthwiseDataAlgorithm = {
    .name = "direct",
    .summary = "depthwise forward and input gradient, lanes along channels, padding skipped",
    .can = [](const Problem&, const KernelTable&) { return true; },
    .plan = PlanData,
};

}  // namespace convgrad
