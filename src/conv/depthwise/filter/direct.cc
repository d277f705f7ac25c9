// Depthwise filter gradient: units (a chunk of channels x some taps) whose block sums stay in the
// first cache, over portions of the output pixels. Units and portions are dealt to threads; the
// sums of portions are kept apart and folded in order.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "base/checked.h"
#include "base/parallel.h"
#include "conv/axes/pixel_sum.h"
#include "conv/depthwise/algorithms.h"
#include "conv/depthwise/filter/cut.h"
#include "conv/depthwise/filter/work.h"
#include "conv/depthwise/filter/worker.h"

namespace convgrad {
namespace {

// A run of a plan. Element is what the kernel reads: Stored where both operands are in place, else
// Compute.
template <class Stored, class Element>
class FilterRunner {
 public:
  using Compute = ComputeType<Stored>;

  FilterRunner(const ConvArgs& args, const DepthwiseFilterCut& cut)
      : args_(args),
        cut_(cut),
        kernels_(args.kernels.Depthwise<Compute>()),
        workers_(args.parallel),
        folds_(cut.units_at_once * cut.folds_of_unit() * cut.FoldSize()),
        parts_left_(static_cast<size_t>(cut.units_at_once)) {}

  void Run();

 private:
  void RunPass(Range units, const PortionPass& pass);
  void FoldPortions(int64_t slot, int64_t num_portions);

  double* Errors(double* fold) const { return cut_.f64 ? fold + cut_.unit_size : nullptr; }
  // The unit's in `slot`: the sums of a portion, and behind those of all portions the total.
  double* PortionOf(int64_t slot, int64_t portion) {
    return folds_.data() + (slot * cut_.folds_of_unit() + portion) * cut_.FoldSize();
  }
  double* TotalOf(int64_t slot) {
    return PortionOf(slot, std::max<int64_t>(cut_.folds_of_unit(), 1) - 1);
  }

  const ConvArgs& args_;
  const DepthwiseFilterCut& cut_;
  const DepthwiseKernels<Compute>& kernels_;
  PerThread<FilterWorker<Stored, Element>> workers_;
  AlignedArray<double> folds_;
  std::vector<std::atomic<size_t>> parts_left_;  // by slot
};

// A unit's portions go to its total, which a single portion's sum is already.
template <class Stored, class Element>
void FilterRunner<Stored, Element>::FoldPortions(int64_t slot, int64_t num_portions) {
  AddPortions(
      {0, num_portions}, cut_.portion_blocks, TotalOf(slot),
      [&](int64_t portion) { return PortionOf(slot, portion); },
      [&](double* from, double* to) {
        kernels_.fold_run(from, Errors(from), to, Errors(to), cut_.unit_size);
      });
}

// Who sums the last part of a unit's portions folds them too: one loop on the threads instead of
// three, each of which would wait for the slowest.
template <class Stored, class Element>
void FilterRunner<Stored, Element>::RunPass(Range units, const PortionPass& pass) {
  const auto parts = std::ssize(pass.parts);
  for (auto& left : parts_left_) left = pass.parts.size();
  args_.parallel.For(units.size() * parts, [&](int64_t i) {
    const int64_t slot = i / parts;
    const PortionPart& part = pass.parts[static_cast<size_t>(i % parts)];
    FilterWorker<Stored, Element>& worker =
        workers_.Own(cut_, args_.kernels, static_cast<const Stored*>(args_.input),
                     static_cast<const Stored*>(args_.out_backprop));
    worker.SumPortions(units.begin + slot, part,
                       PortionOf(slot, part.portions.begin - pass.portions.begin));
    if (--parts_left_[static_cast<size_t>(slot)] > 0) return;
    FoldPortions(slot, pass.portions.size());
    if (pass.portions.end < cut_.num_portions()) return;
    worker.Finish(cut_.UnitAt(units.begin + slot), TotalOf(slot),
                  static_cast<Stored*>(args_.result));
  });
}

template <class Stored, class Element>
void FilterRunner<Stored, Element>::Run() {
  for (int64_t begin = 0; begin < cut_.num_units(); begin += cut_.units_at_once) {
    const Range units = {begin, std::min(cut_.num_units(), begin + cut_.units_at_once)};
    for (int64_t slot = 0; cut_.num_portions() > 1 && slot < units.size(); ++slot) {
      std::fill_n(TotalOf(slot), cut_.FoldSize(), 0.0);
    }
    for (const PortionPass& pass : cut_.passes) RunPass(units, pass);
  }
}

class DepthwiseFilterPlan final : public Plan {
 public:
  DepthwiseFilterPlan(const Problem& problem, const KernelTable& kernels, int num_threads)
      : dtype_(problem.dtype),
        kernels_(kernels),
        num_threads_(num_threads),
        cut_(problem, kernels, num_threads) {}

  int64_t ScratchBytes() const override {
    return (cut_.worker_bytes() + CallBytes(cut_)) * num_threads_ +
           cut_.units_at_once * cut_.folds_of_unit() * cut_.FoldSize() * int64_t{sizeof(double)};
  }
  Work CountWork() const override { return CountFilter(cut_, kernels_); }
  std::string Tiles() const override;
  bool Run(const ConvArgs& args) const override;

 private:
  const DType dtype_;
  const KernelTable& kernels_;
  const int num_threads_;
  const DepthwiseFilterCut cut_;
};

std::string DepthwiseFilterPlan::Tiles() const {
  return fmt::format("{} channels x {} rows of taps a unit, {} blocks, {}", cut_.chunks.widest(),
                     CeilDiv(cut_.rows.kernel, cut_.row_groups), cut_.blocks.size(),
                     cut_.input_in_place ? "in place" : "through strips");
}

bool DepthwiseFilterPlan::Run(const ConvArgs& args) const {
  VisitFloat(dtype_, [&](auto tag) {
    using Stored = typename decltype(tag)::Type;
    if (cut_.input_in_place) {
      FilterRunner<Stored, Stored>(args, cut_).Run();
    } else {
      FilterRunner<Stored, ComputeType<Stored>>(args, cut_).Run();
    }
  });
  return true;
}

std::unique_ptr<Plan> PlanFilter(const Problem& problem, const KernelTable& kernels,
                                 int num_threads) {
  return std::make_unique<DepthwiseFilterPlan>(problem, kernels, num_threads);
}

}  // namespace

const Algorithm kDepthwiseFilterAlgorithm = {
    .name = "direct",
    .summary = "depthwise filter gradient, lanes along channels, padding skipped",
    .can = [](const Problem&, const KernelTable&) { return true; },
    .plan = PlanFilter,
};

}  // namespace convgrad
