// The algorithm "channel-lanes" against the reference, bit for bit, where threads take stages of
// their own and where they share them.
#include <gtest/gtest.h>

#include <algorithm>
#include <initializer_list>
#include <string>
#include <vector>

#include "support/algorithm_testing.h"

namespace convgrad::testing {
namespace {

// Problem lines; not every one has an output.
std::string DrawStaged(Draw& draw) {
  constexpr const char* kTypes[] = {"float32", "float64", "float16", "bfloat16"};
  const int64_t type = draw(0, 3);
  const bool nhwc = type > 1 && draw(0, 1) == 0, forward = draw(0, 1) == 0;
  const int64_t batch = draw(1, 9), h = draw(1, 40), w = draw(1, 40), groups = draw(1, 3);
  const int64_t in_c = draw(1, 40), out_c = draw(1, 40);
  return std::string(forward ? "conv2d " : "conv2d_backprop_input ") + kTypes[type] +
         (nhwc ? " NHWC in=" : " NCHW in=") +
         (nhwc ? ListOf({batch, h, w, groups * in_c}) : ListOf({batch, groups * in_c, h, w})) +
         " filter=" + ListOf({draw(1, 4), draw(1, 4), in_c, groups * out_c}) +
         " strides=" + ListOf({draw(1, 3), draw(1, 3)}) +
         " dilations=" + ListOf({draw(1, 3), draw(1, 3)}) +
         " pads=" + ListOf({draw(0, 4), draw(0, 4), draw(0, 4), draw(0, 4)}) + " padding=EXPLICIT";
}

// Problem lines; not every one has an output or is taken.
std::string DrawGroupedData(Draw& draw) {
  const bool nhwc = draw(0, 1) == 0, forward = draw(0, 1) == 0, large = draw(0, 5) == 0;
  const int64_t batch = draw(1, 5), h = draw(1, large ? 60 : 12), w = draw(1, large ? 60 : 12);
  const int64_t groups = draw(2, 20);
  const int64_t in_c = draw(0, 3) == 0 ? draw(1, 40) : draw(1, 9);
  const int64_t out_c = draw(0, 3) == 0 ? draw(1, 40) : draw(1, 9);
  constexpr const char* kTypes[] = {"float32", "float64", "float16", "bfloat16"};
  return std::string(forward ? "conv2d " : "conv2d_backprop_input ") + kTypes[draw(0, 3)] +
         (nhwc ? " NHWC in=" : " NCHW in=") +
         (nhwc ? ListOf({batch, h, w, groups * in_c}) : ListOf({batch, groups * in_c, h, w})) +
         " filter=" + ListOf({draw(1, 5), draw(1, 5), in_c, groups * out_c}) +
         " strides=" + ListOf({draw(1, 3), draw(1, 3)}) +
         " dilations=" + ListOf({draw(1, 3), draw(1, 3)}) +
         " pads=" + ListOf({draw(0, 4), draw(0, 4), draw(0, 4), draw(0, 4)}) + " padding=EXPLICIT";
}

class ChannelLanes : public ::testing::TestWithParam<Values> {};

TEST_P(ChannelLanes, OfRandomProblems) {
  CheckOnRandomProblems("channel-lanes", 60, 5, DrawStaged, RandomOperands, GetParam());
}

TEST_P(ChannelLanes, OfGroups) {
  CheckOnRandomProblems("channel-lanes", 100, 21, DrawGroupedData, RandomOperands, GetParam());
}

INSTANTIATE_TEST_SUITE_P(AllValues, ChannelLanes,
                         ::testing::Values(Values::kOrdinary, Values::kSpecial), NameOfValues);

// `rest` is what the problem lines have in common.
void CheckEach(std::initializer_list<std::string> lines, const std::string& rest, uint64_t seed) {
  for (const std::string& line : lines) {
    const Problem problem = ParseProblem(line + rest + " padding=EXPLICIT");
    CheckAlgorithm("channel-lanes", problem, RandomOperands(problem, seed, Values::kOrdinary));
  }
}

// Several blocks of terms, panels of a group, slabs of images and of rows; both formats.
TEST(ChannelLanesOf, LargeGroups) {
  CheckEach({"conv2d float32 NCHW in=2,160,27,25 filter=2,2,80,130 strides=1,1 ",
             "conv2d_backprop_input float64 NCHW in=1,100,16,31 filter=3,3,50,240 strides=2,1 ",
             "conv2d float16 NCHW in=1,600,20,21 filter=1,2,300,40 strides=1,1 ",
             "conv2d float32 NHWC in=1,19,20,512 filter=2,2,128,160 strides=1,2 "},
            "dilations=1,1 pads=1,1,1,1", 3);
}

// Phases without taps and source pixels that no tap meets, over several stages; results that are
// written around the caches.
TEST(ChannelLanesOf, StridesBeyondTheFilter) {
  for (const char* line :
       {"conv2d_backprop_input float32 NCHW in=3,130,56,56 filter=1,1,130,40 strides=2,2 "
        "dilations=1,1 pads=0,0,0,0 ",
        "conv2d_backprop_input float32 NCHW in=2,150,57,64 filter=1,2,150,24 strides=2,3 "
        "dilations=1,1 pads=1,0,0,2 ",
        "conv2d_backprop_input float64 NCHW in=2,70,64,64 filter=2,1,70,9 strides=3,2 "
        "dilations=1,1 pads=0,1,0,0 ",
        "conv2d_backprop_input float32 NCHW in=2,260,48,48 filter=1,3,260,9 strides=2,1 "
        "dilations=1,1 pads=0,0,1,1 ",
        "conv2d_backprop_input bfloat16 NCHW in=2,30,41,43 filter=3,3,30,31 strides=2,2 "
        "dilations=2,2 pads=1,2,1,2 ",
        "conv2d_backprop_input float16 NHWC in=2,41,43,30 filter=1,1,30,31 strides=2,2 "
        "dilations=1,1 pads=0,0,0,0 ",
        "conv2d_backprop_input float32 NCHW in=2,20,1,9 filter=1,1,20,9 strides=3,2 "
        "dilations=1,1 pads=1,1,1,1 ",
        "conv2d_backprop_input float32 NHWC in=2,58,75,131 filter=1,1,131,24 strides=2,2 "
        "dilations=1,1 pads=0,0,0,0 ",
        "conv2d_backprop_input float64 NHWC in=3,37,40,34 filter=1,2,34,20 strides=3,3 "
        "dilations=1,1 pads=0,2,1,0 ",
        "conv2d_backprop_input bfloat16 NHWC in=2,31,18,64 filter=2,1,64,30 strides=3,2 "
        "dilations=1,1 pads=1,0,0,0 ",
        "conv2d_backprop_input float32 NHWC in=2,1,1,8 filter=1,1,8,8 strides=3,3 "
        "dilations=1,1 pads=1,1,1,1 ",
        "conv2d float32 NCHW in=3,130,56,56 filter=1,1,130,40 strides=2,2 dilations=1,1 "
        "pads=0,0,0,0 ",
        "conv2d float16 NCHW in=2,35,41,62 filter=2,2,35,20 strides=4,3 dilations=3,1 "
        "pads=2,1,1,2 ",
        "conv2d bfloat16 NHWC in=2,41,62,35 filter=1,2,35,20 strides=2,3 dilations=1,1 "
        "pads=1,1,0,0 ",
        "conv2d float64 NCHW in=2,35,40,40 filter=3,3,35,20 strides=2,2 dilations=2,2 "
        "pads=2,2,2,2 "}) {
    const Problem problem = ParseProblem(std::string(line) + "padding=EXPLICIT");
    CheckAlgorithm("channel-lanes", problem, RandomOperands(problem, 3, Values::kOrdinary));
    CheckAlgorithm("channel-lanes", problem, RandomOperands(problem, 4, Values::kSpecial));
  }
}

// Tiles of one vector read pixels of 9 MB where they lie, without padding and with it.
TEST(ChannelLanesOf, FewChannelsOfLargeTensors) {
  CheckEach({"conv2d float32 NHWC in=7,56,56,100 filter=1,1,100,3 pads=0,0,0,0 ",
             "conv2d_backprop_input float32 NHWC in=3,80,80,5 filter=3,3,5,120 pads=1,1,1,1 "},
            "strides=1,1 dilations=1,1", 5);
}

// The last of three panels and of four is narrower; of one chunk of pixels and of several.
TEST(ChannelLanesOf, PanelsThatArePackedTogether) {
  CheckEach({"conv2d float32 NHWC in=2,5,6,70 filter=3,3,70,50 ",
             "conv2d float64 NHWC in=1,7,7,90 filter=1,1,90,45 ",
             "conv2d bfloat16 NCHW in=3,40,9,8 filter=2,3,40,90 ",
             "conv2d float32 NHWC in=1,40,40,300 filter=1,1,300,50 "},
            "strides=1,1 dilations=1,1 pads=0,1,1,0", 6);
}

// Panels of one filter that are read where it lies, and a last one whose tile would reach past its
// end; taps, strides, groups, and sums of several parts.
TEST(ChannelLanesOf, FiltersInPlace) {
  CheckEach({"conv2d float32 NHWC in=2,13,12,40 filter=3,3,40,80 strides=1,1 pads=1,1,1,1 ",
             "conv2d float32 NCHW in=1,300,14,15 filter=5,5,300,48 strides=2,1 pads=2,2,2,2 ",
             "conv2d float64 NHWC in=1,17,18,90 filter=1,2,45,80 strides=1,1 pads=0,0,1,0 ",
             "conv2d float32 NHWC in=1,11,11,20 filter=3,3,20,40 strides=1,1 pads=1,1,1,1 "},
            "dilations=1,1", 7);
}

// Pixels and rows begin in the middle of lines.
TEST(ChannelLanesOf, ZerosAroundTheCaches) {
  CheckEach({"conv2d_backprop_input float32 NHWC in=13,59,59,71 filter=1,1,71,5 strides=2,2 ",
             "conv2d_backprop_input float32 NHWC in=13,59,61,67 filter=1,2,67,5 strides=3,3 ",
             "conv2d_backprop_input bfloat16 NHWC in=30,59,57,63 filter=1,1,63,4 strides=2,2 "},
            "dilations=1,1 pads=0,0,0,0", 8);
}

}  // namespace
}  // namespace convgrad::testing
