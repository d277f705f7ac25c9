#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "conv/axes/flattened.h"
#include "conv/conv2d/data/algorithms.h"
#include "conv/conv2d/few/algorithms.h"
#include "conv/conv2d/filter/algorithms.h"
#include "conv/conv2d/patches/space_to_depth.h"
#include "conv/cost_coefficients.h"
#include "conv/depthwise/algorithms.h"
#include "conv/plan/algorithm.h"
#include "conv/precise/precise.h"
#include "conv/reference/reference.h"

namespace convgrad {
namespace {

// A depthwise algorithm for grouped convolutions of one input channel to a group, which are
// depthwise ones in all but name.
template <const Algorithm& kAlgorithm>
Algorithm ForGrouped() {
  Algorithm algorithm = kAlgorithm;
  algorithm.can = [](const Problem& problem, const KernelTable& kernels) {
    // The lists of what columns meet are longer than worth it for larger filters and strides.
    constexpr int64_t kMostTaps = 1 << 16, kMostStride = 1 << 12;
    const ConvGeometry& g = problem.geometry;
    return g.group_in_c == 1 && std::max(g.kernel_h, g.kernel_w) <= kMostTaps &&
           std::max(g.stride_h, g.stride_w) <= kMostStride && kAlgorithm.can(problem, kernels);
  };
  return algorithm;
}

// A plan of a problem that was flattened (conv/axes/flattened.h).
class FlattenedPlan : public Plan {
 public:
  FlattenedPlan(const Problem& flattened, std::unique_ptr<Plan> plan)
      : flattened_(flattened), plan_(std::move(plan)) {}

  int64_t ScratchBytes() const override { return plan_->ScratchBytes(); }
  Work CountWork() const override { return plan_->CountWork(); }
  std::string Tiles() const override { return plan_->Tiles(); }
  bool Run(const ConvArgs& args) const override {
    return plan_->Run({flattened_, args.input, args.filter, args.out_backprop, args.result,
                       args.kernels, args.parallel});
  }

 private:
  const Problem flattened_;
  const std::unique_ptr<Plan> plan_;
};

// An algorithm of problems as they come, which it flattens first.
template <const Algorithm& kAlgorithm>
Algorithm OfFlattened() {
  Algorithm algorithm = kAlgorithm;
  algorithm.can = [](const Problem& problem, const KernelTable& kernels) {
    return kAlgorithm.can(Flattened(problem), kernels);
  };
  algorithm.plan = [](const Problem& problem, const KernelTable& kernels,
                      int num_threads) -> std::unique_ptr<Plan> {
    const Problem flattened = Flattened(problem);
    return std::make_unique<FlattenedPlan>(flattened,
                                           kAlgorithm.plan(flattened, kernels, num_threads));
  };
  return algorithm;
}

bool IsReference(const Algorithm& algorithm) {
  return std::string_view(algorithm.name) == kReferenceAlgorithm.name;
}

struct Candidate {
  const Algorithm* algorithm = nullptr;
  std::unique_ptr<Plan> plan = nullptr;
  int num_threads = 1;       // planned for
  double cycles = HUGE_VAL;  // of all threads together
  double until_end = HUGE_VAL;
};

// Cycles until the last thread is done: work of few tasks is shared by few threads. Counts are
// rough, and a thread without a task is lost for certain: such work must promise half more.
double CyclesUntilEnd(double cycles, double num_tasks, int num_threads) {
  constexpr double kIdle = 1.5;
  const double tasks = std::max(1.0, num_tasks);
  return tasks < num_threads ? kIdle * cycles / tasks : cycles / num_threads;
}

// The one that is counted to take least, of those that `is_one` names; the first, where there is
// nothing to count; the reference, where no other can. Plans every candidate.
template <class IsOne>
Candidate Least(const Problem& problem, const KernelTable& kernels, Precision precision,
                int num_threads, const IsOne& is_one) {
  Candidate least;
  for (const Algorithm& algorithm : AlgorithmsOf(problem.op, precision)) {
    if (IsReference(algorithm) && least.algorithm != nullptr) continue;
    if (!is_one(algorithm) || !algorithm.can(problem, kernels)) continue;
    std::unique_ptr<Plan> plan = algorithm.plan(problem, kernels, num_threads);
    const Work work = plan->CountWork();
    const double cycles = CyclesOf(work, kernels.vector_bytes);
    const double until_end = CyclesUntilEnd(cycles, work.TasksAtOnce(), num_threads);
    if (least.algorithm != nullptr && until_end >= least.until_end) continue;
    least = {&algorithm, std::move(plan), num_threads, cycles, until_end};
  }
  if (least.algorithm == nullptr) ThrowInternal("no algorithm can do " + problem.ToLine());
  return least;
}

// The one that is counted to take least of `least(threads)`, for one thread if it is done before
// the others would have helped: to wait for them and to fetch what one wrote for another takes
// time.
template <class LeastOf>
Candidate LeastAloneOrShared(int num_threads, const LeastOf& least) {
  constexpr double kHandOver = 3500, kSoonDone = 4 * kHandOver;  // cycles
  Candidate shared = least(num_threads);
  if (num_threads == 1 || shared.cycles <= 0 || shared.until_end > kSoonDone) return shared;
  Candidate alone = least(1);
  return alone.cycles < shared.until_end + kHandOver ? std::move(alone) : std::move(shared);
}

// Null where the algorithm takes all data.
std::unique_ptr<Plan> PlanInstead(const Algorithm& algorithm, const Problem& problem,
                                  const KernelTable& kernels, int num_threads) {
  if (!algorithm.may_refuse_data) return nullptr;
  return Least(problem, kernels, Precision::kStandard, num_threads,
               [](const Algorithm& other) { return !other.may_refuse_data; })
      .plan;
}

}  // namespace

double CyclesOf(const Work& work, int vector_bytes) {
  constexpr int kWide = 64;
  const auto& costs = vector_bytes == kWide ? kWideCosts : kNarrowCosts;
  double cycles = 0;
  for (size_t kind = 0; kind < kNumWorkKinds; ++kind) cycles += work.counts()[kind] * costs[kind];
  return cycles;
}

std::span<const Algorithm> AlgorithmsOf(Op op, Precision precision) {
  if (precision != Precision::kStandard) return PreciseAlgorithms(precision);
  static const std::vector<Algorithm> conv2d = {ForGrouped<kDepthwiseWholePlanesAlgorithm>(),
                                                ForGrouped<kDepthwisePlanesAlgorithm>(),
                                                ForGrouped<kDepthwiseDataAlgorithm>(),
                                                OfFlattened<kConv2DFewPixels>(),
                                                OfFlattened<kConv2DFewTerms>(),
                                                OfFlattened<kConv2DIm2Col>(),
                                                OfFlattened<kConv2DSpaceToDepth>(),
                                                OfFlattened<kConv2DImageLanes>(),
                                                OfFlattened<kConv2DPixelLanes>(),
                                                OfFlattened<kConv2DChannelLanes>(),
                                                kReferenceAlgorithm};
  static const std::vector<Algorithm> conv2d_filter = {
      OfFlattened<kConv2DFilterTapRows>(),      OfFlattened<kConv2DFilterFewPixels>(),
      OfFlattened<kConv2DFilterPlaneSquares>(), OfFlattened<kConv2DFilterFewChannels>(),
      OfFlattened<kFilterBlockLanes>(),         OfFlattened<kConv2DSpaceToDepth>(),
      ForGrouped<kDepthwiseFilterAlgorithm>(),  OfFlattened<kConv2DFilterInputLanesJoined>(),
      OfFlattened<kConv2DFilterInputLanes>(),   OfFlattened<kConv2DFilterTapsJoined>(),
      OfFlattened<kConv2DFilterTapsApart>(),    kReferenceAlgorithm};
  static const std::vector<Algorithm> depthwise = {kDepthwiseWholePlanesAlgorithm,
                                                   kDepthwisePlanesAlgorithm,
                                                   kDepthwiseDataAlgorithm, kReferenceAlgorithm};
  static const std::vector<Algorithm> depthwise_filter = {
      kFilterBlockLanes, kDepthwiseFilterAlgorithm, kReferenceAlgorithm};
  switch (op) {
    case Op::kConv2D:
    case Op::kConv2DBackpropInput: return conv2d;
    case Op::kConv2DBackpropFilter: return conv2d_filter;
    case Op::kDepthwiseConv2D:
    case Op::kDepthwiseConv2DBackpropInput: return depthwise;
    case Op::kDepthwiseConv2DBackpropFilter: return depthwise_filter;
  }
  return {};
}

Planned Planned::Best(const Problem& problem, const KernelTable& kernels, int num_threads,
                      Precision precision) {
  const auto least = [&](int threads) {
    return Least(problem, kernels, precision, threads, [](const Algorithm&) { return true; });
  };
  Candidate best = LeastAloneOrShared(num_threads, least);
  return Planned(*best.algorithm, std::move(best.plan),
                 PlanInstead(*best.algorithm, problem, kernels, best.num_threads),
                 best.num_threads < num_threads);
}

Planned Planned::Forced(const Algorithm& algorithm, const Problem& problem,
                        const KernelTable& kernels, int num_threads) {
  return Planned(algorithm, algorithm.plan(problem, kernels, num_threads),
                 PlanInstead(algorithm, problem, kernels, num_threads), /*alone=*/false);
}

std::string Planned::Tiles() const {
  return plan_->Tiles() + (alone_ ? ", on one thread" : "");
}

int64_t Planned::ScratchBytes() const {
  return std::max(plan_->ScratchBytes(), instead_ ? instead_->ScratchBytes() : 0);
}

void Planned::Run(const ConvArgs& args) const {
  static const Parallel one_thread(1);
  const ConvArgs planned{args.problem,
                         args.input,
                         args.filter,
                         args.out_backprop,
                         args.result,
                         args.kernels,
                         alone_ ? one_thread : args.parallel};
  if (plan_->Run(planned)) return;
  if (!instead_) ThrowInternal(std::string(algorithm_->name) + " refused its data");
  instead_->Run(planned);
}

}  // namespace convgrad
