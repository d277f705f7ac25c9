#include "conv/algorithm.h"

#include <vector>

#include "conv/conv2d_backprop_filter.h"
#include "conv/conv2d_channel_lanes.h"
#include "conv/conv2d_image_lanes.h"
#include "conv/conv2d_pixel_lanes.h"
#include "conv/depthwise.h"
#include "conv/precise.h"
#include "conv/reference.h"

namespace convgrad {
namespace {

// Grouped convolutions with one input channel to a group are depthwise ones. With many groups of
// few output channels the depthwise algorithms are the best for them too.
bool IsDepthwiseInAllButName(const Problem& problem) {
  const ConvGeometry& g = problem.geometry;
  return g.group_in_c == 1 && g.groups >= 8 && g.group_out_c <= 8;
}

// A depthwise algorithm that also looks at the problem itself.
template <const Algorithm& kAlgorithm>
Algorithm ForGrouped() {
  Algorithm algorithm = kAlgorithm;
  algorithm.accepts = [](const Problem& problem) {
    return IsDepthwiseInAllButName(problem) && kAlgorithm.accepts(problem);
  };
  return algorithm;
}

}  // namespace

std::span<const Algorithm> AlgorithmsOf(Op op, Precision precision) {
  if (precision != Precision::kStandard) return PreciseAlgorithms(precision);
  static const std::vector<Algorithm> conv2d = {ForGrouped<kDepthwisePlanesAlgorithm>(),
                                                ForGrouped<kDepthwiseForwardAlgorithm>(),
                                                kConv2DImageLanes,
                                                kConv2DPixelLanes,
                                                kConv2DChannelLanes,
                                                kReferenceAlgorithm};
  static const std::vector<Algorithm> conv2d_filter = {
      ForGrouped<kDepthwiseFilterAlgorithm>(), kConv2DFilterInputLanes, kConv2DFilterTapsJoined,
      kConv2DFilterTapsApart, kReferenceAlgorithm};
  static const std::vector<Algorithm> depthwise = {kDepthwisePlanesAlgorithm,
                                                   kDepthwiseForwardAlgorithm, kReferenceAlgorithm};
  static const std::vector<Algorithm> depthwise_filter = {
      kDepthwiseFilterBlockLanes, kDepthwiseFilterAlgorithm, kReferenceAlgorithm};
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

}  // namespace convgrad
