#include "conv/algorithm.h"

#include <vector>

#include "conv/conv2d_channel_lanes.h"
#include "conv/reference.h"

namespace convgrad {

std::span<const Algorithm> AlgorithmsOf(Op op) {
  static const std::vector<Algorithm> conv2d = {kConv2DChannelLanes, kReferenceAlgorithm};
  static const std::vector<Algorithm> others = {kReferenceAlgorithm};
  return op == Op::kConv2D || op == Op::kConv2DBackpropInput ? conv2d : others;
}

}  // namespace convgrad
