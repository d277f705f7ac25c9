#include "conv/plan/algorithm.h"

#include <cmath>
#include <vector>

#include "base/checked.h"
#include "base/error.h"
#include "conv/conv2d/data/channel_lanes.h"
#include "conv/conv2d/data/group_lanes.h"
#include "conv/conv2d/data/image_lanes.h"
#include "conv/conv2d/data/pixel_lanes.h"
#include "conv/conv2d/filter/block_lanes.h"
#include "conv/conv2d/filter/tap_rows.h"
#include "conv/conv2d/filter/tile_forms.h"
#include "conv/depthwise/algorithms.h"
#include "conv/precise/precise.h"
#include "conv/reference.h"

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
  return algorithm.cycles != nullptr && HasTerms(problem) &&
         kDepthwiseForwardAlgorithm.cycles(problem, kernels) < algorithm.cycles(problem, kernels);
}

// A depthwise algorithm for the grouped convolutions that `kIsOne` names: the choice there, if it
// is the best as a depthwise one.
template <const Algorithm& kAlgorithm, bool (*kIsOne)(const Problem&)>
Algorithm ForGrouped() {
  Algorithm algorithm = kAlgorithm;
  algorithm.accepts = [](const Problem& problem, const KernelTable& kernels) {
    return kIsOne(problem) && kAlgorithm.accepts(problem, kernels) &&
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
      kConv2DGroupLanes,
      kConv2DChannelLanes,
      kReferenceAlgorithm};
  static const std::vector<Algorithm> conv2d_filter = {
      kConv2DFilterTapRows,
      kFilterBlockLanes,
      ForGrouped<kDepthwiseFilterAlgorithm, IsDepthwiseInAllButName>(),
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

const Algorithm& BestAlgorithm(const Problem& problem, const KernelTable& kernels,
                               Precision precision) {
  const Algorithm* best = nullptr;
  double least = HUGE_VAL;
  for (const Algorithm& algorithm : AlgorithmsOf(problem.op, precision)) {
    if (best != nullptr && algorithm.cycles == nullptr) break;
    if (!algorithm.accepts(problem, kernels)) continue;
    if (algorithm.cycles == nullptr || !HasTerms(problem)) return algorithm;
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
  if (best == nullptr) ThrowInternal("no algorithm accepts " + problem.ToLine());
  return *best;
}

bool HasTerms(const Problem& problem) {
  for (const Role role : {Role::kInput, Role::kFilter, Role::kOutBackprop}) {
    if (*CheckedProduct(problem.ShapeOf(role)) == 0) return false;
  }
  return true;
}

}  // namespace convgrad
