// The algorithm "channel-lanes" against the reference, bit for bit, where threads take stages of
// their own and where they share them; and which of the two they do.
#include <gtest/gtest.h>

#include <string>

#include "algorithm_testing.h"
#include "conv/channel_lanes_plan.h"

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

class ChannelLanes : public ::testing::TestWithParam<Values> {};

TEST_P(ChannelLanes, OfRandomProblems) {
  CheckOnRandomProblems("channel-lanes", 60, 5, DrawStaged, RandomOperands, GetParam());
}

INSTANTIATE_TEST_SUITE_P(AllValues, ChannelLanes,
                         ::testing::Values(Values::kOrdinary, Values::kSpecial), NameOfValues);

ChannelLanesPlan<float, float> PlanOf(const std::string& sizes, int num_threads) {
  const Problem problem = ParseProblem("conv2d float32 " + sizes +
                                       " strides=1,1 dilations=1,1 pads=1,1,1,1 padding=EXPLICIT");
  return {problem, SupportedKernels().front(), num_threads};
}

TEST(ChannelLanesStages, AreAThreadsOwnWhereThereAreEnough) {
  const std::string image = "NCHW in=1,64,64,64 filter=3,3,64,64";
  EXPECT_FALSE(PlanOf(image, 1).own_stages);
  const auto plan = PlanOf(image, 2);
  EXPECT_TRUE(plan.own_stages);
  EXPECT_GE(plan.stages.size(), 8u);
}

TEST(ChannelLanesStages, AreSharedOtherwise) {
  for (const char* sizes : {
           "NHWC in=1,64,64,64 filter=3,3,64,64",    // one stage, nothing is copied
           "NCHW in=1,64,1,9000 filter=3,3,64,64",   // one row
           "NCHW in=8,512,7,7 filter=3,3,512,512",   // a filter that outweighs the rest
           "NCHW in=1,64,16,300 filter=11,1,64,64",  // stages would read rows several times
           "NCHW in=1,8,9,9 filter=3,3,8,8",         // little to do
       }) {
    EXPECT_FALSE(PlanOf(sizes, 2).own_stages) << sizes;
  }
}

}  // namespace
}  // namespace convgrad::testing
