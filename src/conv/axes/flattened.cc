#include "conv/axes/flattened.h"

#include <vector>

#include "order/canonical_order.h"

namespace convgrad {
namespace {

// One of the two axes of a geometry.
struct WindowAxis {
  int64_t &in, &out, &kernel, &stride, &dilation;
  int64_t pads;
};

WindowAxis WindowRows(ConvGeometry& g) {
  return {g.in_h, g.out_h, g.kernel_h, g.stride_h, g.dilation_h, g.pad_top | g.pad_bottom};
}
WindowAxis WindowCols(ConvGeometry& g) {
  return {g.in_w, g.out_w, g.kernel_w, g.stride_w, g.dilation_w, g.pad_left | g.pad_right};
}

// Every input position is met by one tap of one window.
bool TilesWithWindows(const WindowAxis& axis) {
  if (axis.pads != 0 || axis.dilation != 1) return false;
  if (axis.in % axis.kernel != 0 || axis.in / axis.kernel != axis.out) return false;
  return axis.stride == axis.kernel || axis.out == 1;
}

void FlattenAxis(const WindowAxis& axis, ConvGeometry& g) {
  g.in_c *= axis.kernel;
  g.group_in_c *= axis.kernel;
  axis.in = axis.out;
  axis.kernel = axis.stride = 1;
}

// Lists after how many terms each block of a forward pass ends.
std::vector<int64_t> BlockEnds(const Problem& problem) {
  const ConvGeometry& g = problem.geometry;
  std::vector<int64_t> cuts;
  for (const TapBlock& block :
       TapBlocks(g.kernel_h * g.kernel_w, g.group_in_c, TermsInPairs(problem))) {
    cuts.push_back((block.tap_end - 1) * g.group_in_c + block.channel_end);
  }
  return cuts;
}

// An input gradient has one tap for each element, whose channels of out_backprop are cut alike; a
// filter gradient's sums run over pixels of the output, which stay as they are.
bool SumsAlike(const Problem& problem, const Problem& flattened) {
  constexpr int64_t kMostTaps = 1 << 16;  // whose blocks are listed
  const ConvGeometry &g = problem.geometry, &to = flattened.geometry;
  if (g.in_c == to.in_c) return true;
  const bool pairs = TermsInPairs(problem);
  if (pairs != TermsInPairs(flattened)) return false;
  if (InfoOf(problem.op).direction != Direction::kForward) return true;
  if (g.kernel_h > kMostTaps || g.kernel_w > kMostTaps / g.kernel_h) return false;
  const bool pairs_stay = !pairs || g.group_in_c % 2 == 0;
  return pairs_stay && BlockEnds(problem) == BlockEnds(flattened);
}

bool LiesLikeNHWC(const ConvGeometry& g) {
  const bool input = g.in_c == 1 || g.in_h * g.in_w == 1;
  return input && (g.out_c == 1 || g.out_h * g.out_w == 1);
}

}  // namespace

Problem Flattened(const Problem& problem) {
  Problem flattened = problem;
  if (!problem.HasTerms()) return flattened;
  ConvGeometry& g = flattened.geometry;
  if (LiesLikeNHWC(g)) flattened.data_format = DataFormat::kNHWC;
  if (flattened.data_format != DataFormat::kNHWC || g.groups != 1) return flattened;
  const Problem unflattened = flattened;
  if (TilesWithWindows(WindowCols(g))) FlattenAxis(WindowCols(g), g);
  if (g.in_w == 1 && TilesWithWindows(WindowRows(g))) FlattenAxis(WindowRows(g), g);
  return SumsAlike(unflattened, flattened) ? flattened : unflattened;
}

}  // namespace convgrad
