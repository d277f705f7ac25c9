// The algorithm "block-lanes" against the reference, bit for bit: blocks of images, of rows and of
// parts of rows, fewer than a vector has lanes or more than a run has blocks; strides, dilations,
// multipliers, groups, every target; and infinities that meet the zeros which it multiplies.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <limits>
#include <string>
#include <vector>

#include "conv/axes/pixel_sum.h"
#include "support/algorithm_testing.h"

namespace convgrad::testing {
namespace {

std::string DrawWindow(Draw& draw) {
  return " strides=" + ListOf({draw(1, 3), draw(1, 3)}) +
         " dilations=" + ListOf({draw(1, 3), draw(1, 3)}) +
         " pads=" + ListOf({draw(0, 4), draw(0, 4), draw(0, 9), draw(0, 9)}) + " padding=EXPLICIT";
}

// Problem lines; not every one has an output or is taken.
std::string DrawDepthwise(Draw& draw) {
  const bool nhwc = draw(0, 1) == 0, wide = draw(0, 4) == 0;
  const int64_t batch = wide ? draw(1, 2) : draw(1, 40), channels = draw(1, 7);
  const int64_t h = wide ? draw(1, 6) : draw(1, 40), w = wide ? draw(250, 700) : draw(1, 40);
  constexpr const char* kTypes[] = {"float32", "float64", "float16", "bfloat16"};
  return std::string("depthwise_conv2d_backprop_filter ") + kTypes[draw(0, 3)] +
         (nhwc ? " NHWC in=" : " NCHW in=") +
         (nhwc ? ListOf({batch, h, w, channels}) : ListOf({batch, channels, h, w})) +
         " filter=" + ListOf({draw(1, 5), draw(1, 9), channels, draw(1, 3)}) + DrawWindow(draw);
}

// Groups of few channels; many of them fill several units.
std::string DrawGroupedFilterGradient(Draw& draw) {
  const bool nhwc = draw(0, 1) == 0;
  const int64_t batch = draw(1, 24), h = draw(1, 24), w = draw(1, 24);
  const int64_t groups = draw(0, 2) == 0 ? 1 : draw(2, 24), in_c = draw(2, 5), out_c = draw(1, 5);
  constexpr const char* kTypes[] = {"float32", "float64", "float16"};
  return std::string("conv2d_backprop_filter ") + kTypes[draw(0, 2)] +
         (nhwc ? " NHWC in=" : " NCHW in=") +
         (nhwc ? ListOf({batch, h, w, groups * in_c}) : ListOf({batch, groups * in_c, h, w})) +
         " filter=" + ListOf({draw(1, 5), draw(1, 5), in_c, groups * out_c}) + DrawWindow(draw);
}

class BlockLanes : public ::testing::TestWithParam<Values> {
 protected:
  static void Check(int count, std::string (*draw_line)(Draw&)) {
    CheckOnRandomProblems("block-lanes", count, 11, draw_line, RandomOperands, GetParam());
  }
};

TEST_P(BlockLanes, OfDepthwiseProblems) {
  Check(120, DrawDepthwise);
}

TEST_P(BlockLanes, OfGroupedProblems) {
  Check(40, DrawGroupedFilterGradient);
}

INSTANTIATE_TEST_SUITE_P(AllValues, BlockLanes,
                         ::testing::Values(Values::kOrdinary, Values::kSpecial), NameOfValues);

TEST(PixelBlocks, AreAsManyAndAsLargeAsCounted) {
  Draw draw(4);
  for (int i = 0; i < 2000; ++i) {
    const int64_t width = draw(1, draw(0, 1) == 0 ? 40 : 900);
    const ConvGeometry g =
        ParseProblem("depthwise_conv2d_backprop_filter float32 NHWC in=" +
                     ListOf({draw(1, 40), draw(1, 40), width, 1}) +
                     " filter=1,1,1,1 strides=1,1 dilations=1,1 pads=0,0,0,0 padding=VALID")
            .geometry;
    const std::vector<PixelBlock> blocks = PixelBlocks(g.batch, g.out_h, g.out_w);
    PixelBlockSize most = {0, 0, 0};
    for (const PixelBlock& block : blocks) {
      most = {std::max(most.images, block.image_end - block.image_begin),
              std::max(most.rows, block.row_end - block.row_begin),
              std::max(most.cols, block.col_end - block.col_begin)};
    }
    const PixelBlockSize largest = LargestPixelBlock(g);
    EXPECT_EQ(NumPixelBlocks(g), std::ssize(blocks));
    EXPECT_EQ(ListOf({largest.images, largest.rows, largest.cols}),
              ListOf({most.images, most.rows, most.cols}))
        << ListOf({g.batch, g.out_h, g.out_w});
  }
}

// An infinity of out_backprop in a corner has no term with the taps that leave the image there.
TEST(BlockLanesOf, InfinityBesideThePadding) {
  const Problem problem = ParseProblem(
      "depthwise_conv2d_backprop_filter float32 NHWC in=8,40,40,1 filter=3,3,1,1 strides=1,1 "
      "dilations=1,1 pads=1,1,1,1 padding=EXPLICIT");
  const Operands operands = RandomOperands(problem, 3, Values::kOrdinary);
  Tensor out_backprop(DType::kFloat32, operands.second.shape());
  std::memcpy(out_backprop.mutable_raw(), operands.second.raw(),
              static_cast<size_t>(out_backprop.num_bytes()));
  out_backprop.mutable_data<float>()[0] = std::numeric_limits<float>::infinity();
  CheckAlgorithm("block-lanes", problem, {operands.first, out_backprop});
}

}  // namespace
}  // namespace convgrad::testing
