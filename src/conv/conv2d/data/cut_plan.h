// A form's plan: its cut, which says who does what and touches no data, and the runner that goes by
// it.
#pragma once

#include <cstdint>
#include <string>

#include "conv/conv2d/data/count_work.h"
#include "conv/plan/plan.h"

namespace convgrad {

template <class Cut, class Runner>
class CutPlan : public Plan {
 public:
  CutPlan(const Problem& problem, const KernelTable& kernels, int num_threads)
      : cut_(problem, kernels, num_threads) {}

  int64_t ScratchBytes() const override { return cut_.ScratchBytes(); }
  Work CountWork() const override { return convgrad::CountWork(cut_); }
  std::string Tiles() const override { return cut_.Tiles(); }
  bool Run(const ConvArgs& args) const override { return Runner(args, cut_).Run(); }

 private:
  const Cut cut_;
};

}  // namespace convgrad
