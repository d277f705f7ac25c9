#include "conv/algorithm.h"

#include <vector>

#include "conv/conv2d_backprop_filter.h"
#include "conv/conv2d_channel_lanes.h"
#include "conv/conv2d_pixel_lanes.h"
#include "conv/depthwise.h"
#include "conv/reference.h"

namespace convgrad {

std::span<const Algorithm> AlgorithmsOf(Op op) {
  static const std::vector<Algorithm> conv2d = {kConv2DPixelLanes, kConv2DChannelLanes,
                                                kReferenceAlgorithm};
  static const std::vector<Algorithm> conv2d_filter = {
      kConv2DFilterTapsJoined, kConv2DFilterTapsApart, kReferenceAlgorithm};
  static const std::vector<Algorithm> depthwise = {kDepthwiseForwardAlgorithm, kReferenceAlgorithm};
  static const std::vector<Algorithm> depthwise_filter = {kDepthwiseFilterAlgorithm,
                                                          kReferenceAlgorithm};
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
