// The algorithm "whole-planes" against the reference, bit for bit: rows that fill part of a vector,
// one, or two, planes of few rows, both strides, dilations, padding of every size, several images,
// both types; and filters that are not finite, which go another way.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "support/algorithm_testing.h"

namespace convgrad::testing {
namespace {

// A problem line; sizes and padding are drawn until the algorithm takes them.
std::string DrawWholePlanes(Draw& draw) {
  const bool backprop = draw(0, 1) == 1, f64 = draw(0, 1) == 1;
  const int64_t size = 3 + 2 * draw(0, 2);
  const int64_t batch = draw(1, 3), channels = draw(1, 5), h = draw(1, 20);
  const int64_t w = draw(1, f64 ? 36 : 68), stride = draw(1, 2);
  const int64_t dilation = stride > 1 ? 1 : draw(1, 3), most = (size - 1) * dilation;
  // An input gradient may have rows that meet nothing but padding.
  const int64_t behind = draw.OneIn(4) ? 2 * most : most;
  return std::string(backprop ? "depthwise_conv2d_backprop_input " : "depthwise_conv2d ") +
         (f64 ? "float64" : "float32") + " NCHW in=" + ListOf({batch, channels, h, w}) +
         " filter=" + ListOf({size, size, channels, 1}) + " strides=" + ListOf({stride, stride}) +
         " dilations=" + ListOf({dilation, dilation}) +
         " pads=" + ListOf({draw(0, most), draw(0, behind), draw(0, most), draw(0, behind)}) +
         " padding=EXPLICIT";
}

// Targets with vectors of 32 bytes or more have the kernel.
bool HasTarget() {
  return std::ranges::any_of(SupportedKernels(), [](const KernelTable& kernels) {
    return kernels.plane_f32.sum_whole != nullptr;
  });
}

class DepthwiseWholePlanes : public ::testing::TestWithParam<Values> {};

TEST_P(DepthwiseWholePlanes, OfRandomProblems) {
  if (!HasTarget()) GTEST_SKIP() << "no target of this machine has such a kernel";
  CheckOnRandomProblems("whole-planes", 300, 7, DrawWholePlanes, DrawOperands, GetParam());
}

INSTANTIATE_TEST_SUITE_P(AllValues, DepthwiseWholePlanes,
                         ::testing::Values(Values::kOrdinary, Values::kSpecial), NameOfValues);

// Pieces of work end within an image, and go on in the next one.
TEST(DepthwiseWholePlanesOf, ManyPlanes) {
  if (!HasTarget()) GTEST_SKIP() << "no target of this machine has such a kernel";
  for (const char* line :
       {"depthwise_conv2d float32 NCHW in=2,500,7,7 filter=3,3,500,1 pads=1,1,1,1 ",
        "depthwise_conv2d_backprop_input float32 NCHW in=3,70,14,14 filter=5,5,70,1 pads=2,2,2,2 ",
        "conv2d float32 NCHW in=2,300,9,14 filter=7,7,1,300 pads=3,3,3,3 "}) {
    for (const char* strides : {"strides=1,1 ", "strides=2,2 "}) {
      const Problem problem =
          ParseProblem(std::string(line) + strides + "dilations=1,1 padding=EXPLICIT");
      CheckAlgorithm("whole-planes", problem, RandomOperands(problem, 9, Values::kOrdinary));
    }
  }
}

// Large planes beyond the caches, behind which the next ones are fetched.
TEST(DepthwiseWholePlanesOf, PlanesBeyondTheCaches) {
  if (!HasTarget()) GTEST_SKIP() << "no target of this machine has such a kernel";
  for (const char* line :
       {"depthwise_conv2d float32 NCHW in=2,50,151,131 filter=3,3,50,1 strides=2,2 ",
        "depthwise_conv2d_backprop_input float32 NCHW in=2,50,131,151 filter=3,3,50,1 strides=2,2 ",
        "depthwise_conv2d float64 NCHW in=1,45,111,121 filter=3,3,45,1 strides=1,1 "}) {
    const Problem problem =
        ParseProblem(std::string(line) + "dilations=1,1 pads=1,1,1,1 padding=EXPLICIT");
    CheckAlgorithm("whole-planes", problem, RandomOperands(problem, 9, Values::kOrdinary));
  }
}

// Few large planes are cut into bands where several threads share them.
TEST(DepthwiseWholePlanesOf, BandsOfFewPlanes) {
  if (!HasTarget()) GTEST_SKIP() << "no target of this machine has such a kernel";
  const auto draw_large = [](Draw& draw) {
    const bool backprop = draw.OneIn(2), f64 = draw.OneIn(3);
    const int64_t size = 3 + 2 * draw(0, 2), stride = draw(1, 2);
    const int64_t dilation = stride > 1 ? 1 : draw(1, 3), most = (size - 1) * dilation;
    const int64_t h = draw(150, 330), w = draw(120, 200), channels = draw(1, 2);
    const int64_t zoom = backprop ? 1 : stride;
    return std::string(backprop ? "depthwise_conv2d_backprop_input " : "depthwise_conv2d ") +
           (f64 ? "float64" : "float32") +
           " NCHW in=" + ListOf({draw(1, 2), channels, h * zoom, w * zoom}) +
           " filter=" + ListOf({size, size, channels, 1}) + " strides=" + ListOf({stride, stride}) +
           " dilations=" + ListOf({dilation, dilation}) +
           " pads=" + ListOf({draw(0, most), draw(0, most), draw(0, most), draw(0, most)}) +
           " padding=EXPLICIT";
  };
  CheckOnRandomProblems("whole-planes", 40, 8, draw_large, DrawOperands, Values::kOrdinary);
}

// Rows of 224 bytes, wider than those that are best taken this way; targets without a kernel can't.
TEST(DepthwiseWholePlanesOf, RowsOfTheTarget) {
  const Problem problem = ParseProblem(
      "depthwise_conv2d float32 NCHW in=1,32,56,56 filter=3,3,32,1 strides=1,1 dilations=1,1 "
      "pads=1,1,1,1 padding=SAME");
  for (const KernelTable& kernels : SupportedKernels()) {
    Execution execution;
    execution.isa = kernels.isa;
    const bool can = kernels.plane_f32.sum_whole != nullptr;
    execution.algorithm = "whole-planes";
    if (can) {
      EXPECT_NO_THROW(PlanRun(problem, execution)) << NameOf(kernels.isa);
    } else {
      EXPECT_THROW(PlanRun(problem, execution), Error) << NameOf(kernels.isa);
    }
  }
  CheckAlgorithm("whole-planes", problem, RandomOperands(problem, 7, Values::kOrdinary));
}

}  // namespace
}  // namespace convgrad::testing
