// The algorithm "group-lanes" against the reference, bit for bit: groups that share a vector and
// groups of several, last vectors in part, slabs of rows and of images; strides, dilations, every
// type and target.
#include <gtest/gtest.h>

#include <string>

#include "support/algorithm_testing.h"

namespace convgrad::testing {
namespace {

// Problem lines; not every one has an output or is taken.
std::string DrawGrouped(Draw& draw) {
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

class GroupLanes : public ::testing::TestWithParam<Values> {};

TEST_P(GroupLanes, OfRandomProblems) {
  CheckOnRandomProblems("group-lanes", 100, 21, DrawGrouped, RandomOperands, GetParam());
}

INSTANTIATE_TEST_SUITE_P(AllValues, GroupLanes,
                         ::testing::Values(Values::kOrdinary, Values::kSpecial), NameOfValues);

// Several blocks of terms, panels of a group, slabs of images and of rows; both formats.
TEST(GroupLanesOf, LargeGroups) {
  for (const char* line :
       {"conv2d float32 NCHW in=2,160,27,25 filter=2,2,80,130 strides=1,1 ",
        "conv2d_backprop_input float64 NCHW in=1,100,16,31 filter=3,3,50,240 strides=2,1 ",
        "conv2d float16 NCHW in=1,600,20,21 filter=1,2,300,40 strides=1,1 ",
        "conv2d float32 NHWC in=1,19,20,512 filter=2,2,128,160 strides=1,2 "}) {
    const Problem problem =
        ParseProblem(std::string(line) + "dilations=1,1 pads=1,1,1,1 padding=EXPLICIT");
    CheckAlgorithm("group-lanes", problem, RandomOperands(problem, 3, Values::kOrdinary));
  }
}

}  // namespace
}  // namespace convgrad::testing
