// The algorithm "planes" against the reference, bit for bit: rows of every width a vector can end
// in, strides, dilations, multipliers, padding beyond the row, bands, every target; and infinities
// and NaN beside the padding, which it multiplies.
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <string>

#include "support/algorithm_testing.h"

namespace convgrad::testing {
namespace {

// A problem line; sizes are drawn until the output has at least one row and one column.
std::string DrawPlanes(Draw& draw) {
  const bool backprop = draw(0, 1) == 1, nhwc = draw(0, 2) == 0;
  const int64_t batch = draw(1, 3), channels = draw(1, 5), h = draw(1, 30);
  const int64_t w = draw(0, 3) == 0 ? draw(1, 11) : draw(12, 75), kernel_h = draw(1, 11),
                kernel_w = draw(1, 8);
  const int64_t multiplier = draw(1, 3), dilation_h = draw(1, 3), dilation_w = draw(1, 3);
  const int64_t stride_h = draw(1, draw(0, 7) == 0 ? 7 : 3),
                stride_w = draw(1, draw(0, 7) == 0 ? 9 : 4);
  constexpr const char* kTypes[] = {"float32", "float64", "float16", "bfloat16"};
  return std::string(backprop ? "depthwise_conv2d_backprop_input " : "depthwise_conv2d ") +
         kTypes[draw(0, 3)] + (nhwc ? " NHWC in=" : " NCHW in=") +
         (nhwc ? ListOf({batch, h, w, channels}) : ListOf({batch, channels, h, w})) +
         " filter=" + ListOf({kernel_h, kernel_w, channels, multiplier}) +
         " strides=" + ListOf({stride_h, stride_w}) +
         " dilations=" + ListOf({dilation_h, dilation_w}) +
         " pads=" + ListOf({draw(0, 9), draw(0, 9), draw(0, 20), draw(0, 20)}) +
         " padding=EXPLICIT";
}

class DepthwisePlanes : public ::testing::TestWithParam<Values> {};

TEST_P(DepthwisePlanes, OfRandomProblems) {
  CheckOnRandomProblems("planes", 150, 5, DrawPlanes, DrawOperands, GetParam());
}

INSTANTIATE_TEST_SUITE_P(AllValues, DepthwisePlanes,
                         ::testing::Values(Values::kOrdinary, Values::kSpecial), NameOfValues);

// A result beside the padding has no term there, whatever the weight of that tap is.
TEST(DepthwisePlanesOf, InfiniteWeightsBesidePadding) {
  const Problem problem = ParseProblem(
      "depthwise_conv2d float32 NCHW in=1,2,3,14 filter=3,3,2,1 strides=1,1 dilations=1,1 "
      "pads=1,1,1,1 padding=EXPLICIT");
  for (const float weight :
       {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    const Operands operands = RandomOperands(problem, 3, Values::kOrdinary);
    Tensor filter(DType::kFloat32, problem.FilterShape());
    std::memcpy(filter.mutable_raw(), operands.second.raw(),
                static_cast<size_t>(filter.num_bytes()));
    filter.mutable_data<float>()[0] = weight;  // the first column of taps: off the row on the left
    const Operands changed = {operands.first, filter};
    CheckAlgorithm("planes", problem, changed);
    const Tensor result = RunOn(problem, changed, "planes", SupportedKernels().front().isa, 1);
    EXPECT_TRUE(std::isfinite(result.data<float>()[14]));
    EXPECT_FALSE(std::isfinite(result.data<float>()[15]));
  }
}

// Planes of several bands, and more rows than a thread takes.
TEST(DepthwisePlanesOf, HighPlanes) {
  for (const char* op : {"depthwise_conv2d", "depthwise_conv2d_backprop_input"}) {
    const Problem problem = ParseProblem(
        std::string(op) +
        " float32 NCHW in=1,2,400,230 filter=5,3,2,2 strides=2,1 dilations=1,2 pads=2,1,3,0 "
        "padding=EXPLICIT");
    CheckAlgorithm("planes", problem, RandomOperands(problem, 9, Values::kOrdinary));
  }
}

// 4 MiB and more, which are written around the caches where rows are not computed in order (here
// with planes that end in the middle of a line, so that several are written together, and with
// several bands) or hold several channels.
TEST(DepthwisePlanesOf, ResultsThatLeaveTheCaches) {
  for (const char* const line : {
           "depthwise_conv2d float32 NCHW in=2,520,33,33 filter=3,3,520,1 dilations=4,4 ",
           "depthwise_conv2d_backprop_input bfloat16 NCHW in=3,700,33,33 filter=3,3,700,1 "
           "dilations=3,1 ",
           "depthwise_conv2d float64 NCHW in=1,2,510,530 filter=3,3,2,1 dilations=3,1 ",
           "depthwise_conv2d float32 NHWC in=3,120,125,3 filter=3,3,3,8 dilations=1,1 ",
       }) {
    const Problem problem =
        ParseProblem(std::string(line) + "strides=1,1 pads=3,3,3,3 padding=EXPLICIT");
    CheckAlgorithm("planes", problem, RandomOperands(problem, 4, Values::kOrdinary));
  }
}

}  // namespace
}  // namespace convgrad::testing
