#include "conv/axes/flattened.h"

#include <numeric>
#include <vector>

#include "base/checked.h"
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

// The taps of one stride phase of an axis, at most.
int64_t MostPhaseTaps(const WindowAxis& axis) {
  return CeilDiv(axis.kernel, axis.stride / std::gcd(axis.stride, axis.dilation));
}

// An input gradient's channels of a tap are cut alike. Its blocks are so, too, where a phase has as
// many taps as before, or no more terms than a block; or where each element has one tap, for those
// that are absent move no cut of a tap's channels.
bool InputGradientSumsAlike(ConvGeometry g, ConvGeometry flattened) {
  const int64_t rows = MostPhaseTaps(WindowRows(g)), cols = MostPhaseTaps(WindowCols(g));
  const int64_t rows_left = MostPhaseTaps(WindowRows(flattened));
  const int64_t cols_left = MostPhaseTaps(WindowCols(flattened));
  if ((rows == rows_left && cols == cols_left) || (rows_left == 1 && cols_left == 1)) return true;
  return rows <= kBlockTerms && cols <= kBlockTerms && rows * cols * g.group_out_c <= kBlockTerms;
}

// The sums of a filter gradient run over pixels of the output, which stay as they are.
bool SumsAlike(const Problem& problem, const Problem& flattened) {
  constexpr int64_t kMostTaps = 1 << 16;  // whose blocks are listed
  const ConvGeometry &g = problem.geometry, &to = flattened.geometry;
  if (g.in_c == to.in_c) return true;
  const bool pairs = TermsInPairs(problem);
  if (pairs != TermsInPairs(flattened)) return false;
  switch (InfoOf(problem.op).direction) {
    case Direction::kBackpropFilter: return true;
    case Direction::kBackpropInput: return InputGradientSumsAlike(g, to);
    case Direction::kForward: break;
  }
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
  // Rows of the filter lie behind each other like those of the input where both have one column.
  if (g.in_w == 1 && g.kernel_w == 1 && TilesWithWindows(WindowRows(g))) {
    FlattenAxis(WindowRows(g), g);
  }
  return SumsAlike(unflattened, flattened) ? flattened : unflattened;
}

Problem WithWindowsAsPixels(const Problem& problem) {
  Problem moved = problem;
  ConvGeometry& g = moved.geometry;
  if (!problem.HasTerms()) return moved;
  if (!TilesWithWindows(WindowRows(g)) || !TilesWithWindows(WindowCols(g))) return moved;
  FlattenAxis(WindowRows(g), g);
  FlattenAxis(WindowCols(g), g);
  return SumsAlike(problem, moved) ? moved : problem;
}

}  // namespace convgrad
