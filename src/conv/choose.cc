#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "base/checked.h"
#include "base/error.h"
#include "conv/conv2d/data/algorithms.h"
#include "conv/conv2d/filter/algorithms.h"
#include "conv/depthwise/algorithms.h"
#include "conv/plan/algorithm.h"
#include "conv/precise/precise.h"
#include "conv/reference/reference.h"

namespace convgrad {
namespace {

// Grouped convolutions with one input channel to a group are depthwise ones. With many groups of
// few output channels the depthwise algorithms are the best for them too.
bool IsDepthwiseInAllButName(const Problem& problem) {
  const ConvGeometry& g = problem.geometry;
  return g.group_in_c == 1 && g.groups >= 8 && g.group_out_c <= 8;
}

// Planes of NCHW are the best for one input channel to a group whatever the number of its output
// channels, but for narrow ones, and for the many that would each put a stride's columns in order.
bool IsPlaneByPlane(const Problem& problem) {
  constexpr int64_t kFewChannels = 16, kLeastWidth = 12;
  const ConvGeometry& g = problem.geometry;
  return IsDepthwiseInAllButName(problem) ||
         (problem.data_format == DataFormat::kNCHW && g.group_in_c == 1 &&
          (g.stride_w == 1 || (g.group_out_c <= kFewChannels && problem.op == Op::kConv2D)) &&
          std::min(g.in_w, g.out_w) >= kLeastWidth);
}

// Whether `direct` is counted to take fewer cycles.
bool LosesToDirect(const Algorithm& algorithm, const Problem& problem, const KernelTable& kernels) {
  return algorithm.cycles != nullptr && problem.HasTerms() &&
         kDepthwiseForwardAlgorithm.cycles(problem, kernels) < algorithm.cycles(problem, kernels);
}

// Whether an algorithm is a choice for a problem.
bool Serves(const Algorithm& algorithm, const Problem& problem, const KernelTable& kernels) {
  return algorithm.can(problem, kernels) &&
         (algorithm.wins == nullptr || algorithm.wins(problem, kernels));
}

// A depthwise algorithm for grouped convolutions of one input channel to a group: the choice for
// those that `kIsOne` names, if it is the best as a depthwise one.
template <const Algorithm& kAlgorithm, bool (*kIsOne)(const Problem&)>
Algorithm ForGrouped() {
  Algorithm algorithm = kAlgorithm;
  algorithm.can = [](const Problem& problem, const KernelTable& kernels) {
    return problem.geometry.group_in_c == 1 && kAlgorithm.can(problem, kernels);
  };
  algorithm.wins = [](const Problem& problem, const KernelTable& kernels) {
    return kIsOne(problem) && Serves(kAlgorithm, problem, kernels) &&
           !LosesToDirect(kAlgorithm, problem, kernels);
  };
  algorithm.cycles = nullptr;
  return algorithm;
}

}  // namespace

std::span<const Algorithm> AlgorithmsOf(Op op, Precision precision) {
  if (precision != Precision::kStandard) return PreciseAlgorithms(precision);
  static const std::vector<Algorithm> conv2d = {
      ForGrouped<kDepthwiseWholePlanesAlgorithm, IsPlaneByPlane>(),
      ForGrouped<kDepthwisePlanesAlgorithm, IsPlaneByPlane>(),
      ForGrouped<kDepthwiseForwardAlgorithm, IsDepthwiseInAllButName>(),
      kConv2DImageLanes,
      kConv2DPixelLanes,
      kConv2DChannelLanes,
      kReferenceAlgorithm};
  static const std::vector<Algorithm> conv2d_filter = {
      kConv2DFilterTapRows,
      kFilterBlockLanes,
      ForGrouped<kDepthwiseFilterAlgorithm, IsDepthwiseInAllButName>(),
      kConv2DFilterInputLanesJoined,
      kConv2DFilterInputLanes,
      kConv2DFilterTapsJoined,
      kConv2DFilterTapsApart,
      kReferenceAlgorithm};
  static const std::vector<Algorithm> depthwise = {kDepthwiseWholePlanesAlgorithm,
                                                   kDepthwisePlanesAlgorithm,
                                                   kDepthwiseForwardAlgorithm, kReferenceAlgorithm};
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

namespace {

// Of the algorithms that `is_one` names; null if none of them serves.
template <class IsOne>
const Algorithm* BestOf(std::span<const Algorithm> algorithms, const Problem& problem,
                        const KernelTable& kernels, const IsOne& is_one) {
  const Algorithm* best = nullptr;
  double least = HUGE_VAL;
  for (const Algorithm& algorithm : algorithms) {
    if (best != nullptr && algorithm.cycles == nullptr) break;
    if (!is_one(algorithm) || !Serves(algorithm, problem, kernels)) continue;
    if (algorithm.cycles == nullptr || !problem.HasTerms()) return &algorithm;
    if (best == nullptr) {
      best = &algorithm;
      continue;
    }
    // The first one is not counted before there is a choice.
    if (least == HUGE_VAL) least = best->cycles(problem, kernels);
    const double cycles = algorithm.cycles(problem, kernels);
    if (cycles >= least) continue;
    best = &algorithm;
    least = cycles;
  }
  return best;
}

}  // namespace

const Algorithm& BestAlgorithm(const Problem& problem, const KernelTable& kernels,
                               Precision precision) {
  const Algorithm* best = BestOf(AlgorithmsOf(problem.op, precision), problem, kernels,
                                 [](const Algorithm&) { return true; });
  if (best == nullptr) ThrowInternal("no algorithm can do " + problem.ToLine());
  return *best;
}

Planned::Planned(const Algorithm& algorithm, const Problem& problem, const KernelTable& kernels,
                 int num_threads)
    : algorithm_(&algorithm), plan_(algorithm.plan(problem, kernels, num_threads)) {
  if (!algorithm.may_refuse_data) return;
  const Algorithm* instead = BestOf(AlgorithmsOf(problem.op), problem, kernels,
                                    [](const Algorithm& other) { return !other.may_refuse_data; });
  instead_ = instead->plan(problem, kernels, num_threads);
}

int64_t Planned::ScratchBytes() const {
  return std::max(plan_->ScratchBytes(), instead_ ? instead_->ScratchBytes() : 0);
}

void Planned::Run(const ConvArgs& args) const {
  if (plan_->Run(args)) return;
  if (!instead_) ThrowInternal(std::string(algorithm_->name) + " refused its data");
  instead_->Run(args);
}

}  // namespace convgrad
