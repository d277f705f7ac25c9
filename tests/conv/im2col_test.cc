// The algorithm "im2col" against the reference, bit for bit: forward and input gradient, all types
// and every target; strips of several rows and parts of one, strides, dilations, padding, groups,
// channels that fill no block, filters that are not finite; what it takes, and when it is chosen.
#include <gtest/gtest.h>

#include <string>

#include "support/algorithm_testing.h"

namespace convgrad::testing {
namespace {

// Problem lines; not every one has an output or is taken.
std::string DrawFewTerms(Draw& draw) {
  const bool forward = draw(0, 2) > 0, wide = draw(0, 4) == 0, many = draw(0, 4) == 0;
  const int64_t h = draw(1, wide ? 4 : 14), w = wide ? draw(150, 700) : draw(1, 14);
  const int64_t groups = draw(0, 4) == 0 ? draw(2, 3) : 1;
  const int64_t terms = draw(1, 6), channels = many ? draw(30, 70) : draw(1, 9);
  const int64_t in_c = forward ? terms : channels, out_c = forward ? channels : terms;
  const int64_t stride = forward ? 4 : 1, dilation = draw(0, 3) == 0 ? draw(2, 3) : 1;
  return std::string(forward ? "conv2d " : "conv2d_backprop_input ") + DrawType(draw) +
         " NCHW in=" + ListOf({draw(1, 2), groups * in_c, h, w}) +
         " filter=" + ListOf({draw(1, 4), draw(1, 4), in_c, groups * out_c}) +
         " strides=" + ListOf({draw(1, stride), draw(1, stride)}) +
         " dilations=" + ListOf({dilation, draw(1, 2)}) +
         " pads=" + ListOf({draw(0, 3), draw(0, 3), draw(0, 3), draw(0, 3)}) + " padding=EXPLICIT";
}

class Im2ColBits : public ::testing::TestWithParam<Values> {};

TEST_P(Im2ColBits, OfRandomWindows) {
  CheckOnRandomProblems("im2col", 150, 41, DrawFewTerms, DrawOperands, GetParam());
}

INSTANTIATE_TEST_SUITE_P(AllValues, Im2ColBits,
                         ::testing::Values(Values::kOrdinary, Values::kSpecial), NameOfValues);

Problem Layer(const std::string& sizes, const std::string& op = "conv2d") {
  return ParseProblem(op + " float32 NCHW " + sizes + " dilations=1,1 padding=EXPLICIT");
}

// Planes of 15 MB, which go around the caches where they are whole lines.
TEST(Im2Col, OfPlanesAroundTheCaches) {
  if (SupportedKernels().front().isa == Isa::kScalar) GTEST_SKIP() << "no vectors";
  for (const std::string plane : {"200,200", "197,203"}) {
    const Problem problem = Layer("in=1,1," + plane + " filter=2,2,1,96 strides=1,1 pads=1,0,0,1");
    CheckAlgorithm("im2col", problem, RandomOperands(problem, 3, Values::kOrdinary));
  }
}

// One block has 256 terms; 1x1 filters on planes need no copy; a stride parts an input gradient.
TEST(Im2Col, TakesOneBlockOfOnePhase) {
  if (SupportedKernels().front().isa == Isa::kScalar) GTEST_SKIP() << "no vectors";
  const std::string same = " strides=1,1 pads=1,1,1,1";
  EXPECT_TRUE(Takes("im2col", Layer("in=1,28,40,40 filter=3,3,28,8" + same)));
  EXPECT_FALSE(Takes("im2col", Layer("in=1,29,40,40 filter=3,3,29,8" + same)));
  EXPECT_FALSE(Takes("im2col", Layer("in=1,8,40,40 filter=1,1,8,8 strides=1,1 pads=0,0,0,0")));
  EXPECT_TRUE(Takes("im2col", Layer("in=1,8,40,40 filter=1,1,8,8 strides=2,2 pads=0,0,0,0")));
  EXPECT_TRUE(
      Takes("im2col", Layer("in=1,8,40,40 filter=3,3,8,3" + same, "conv2d_backprop_input")));
  EXPECT_FALSE(Takes("im2col", Layer("in=1,8,40,40 filter=3,3,8,3 strides=2,2 pads=1,1,1,1",
                                     "conv2d_backprop_input")));
}

// Of 16 bits what 1x1 filters meet is widened.
TEST(Im2Col, TakesPixelsOf16Bits) {
  if (SupportedKernels().front().isa == Isa::kScalar) GTEST_SKIP() << "no vectors";
  for (const std::string type : {"float16", "bfloat16"}) {
    const std::string rest = " strides=1,1 dilations=1,1 pads=0,0,0,0 padding=EXPLICIT";
    EXPECT_TRUE(Takes(
        "im2col", ParseProblem("conv2d " + type + " NCHW in=1,12,48,48 filter=1,1,12,480" + rest)));
    EXPECT_TRUE(Takes(
        "im2col", ParseProblem("conv2d " + type + " NHWC in=1,48,48,12 filter=1,1,12,480" + rest)));
    if (SupportedKernels().front().isa != Isa::kAvx512) continue;
    // Others take pairs where these are quicker.
    if (type == "bfloat16" && SupportedKernels().front().takes_bf16_pairs) continue;
    const auto chosen = [&](const std::string& problem) {
      return PlanRun(ParseProblem(problem + rest), {}).algorithm;
    };
    EXPECT_EQ(chosen("conv2d " + type + " NCHW in=1,12,48,48 filter=1,1,12,480"), "im2col");
    EXPECT_EQ(chosen("conv2d_backprop_input " + type + " NHWC in=1,56,56,128 filter=1,1,128,2"),
              "im2col");
    EXPECT_EQ(chosen("conv2d " + type + " NCHW in=8,63,24,24 filter=1,1,63,45"), "pixel-lanes");
  }
}

// 40 KiB of columns are 640 pixels of 16 terms, whatever the rows; strips are nearly equal. Each
// thread gets some.
TEST(Im2Col, CutsStripsForTheFirstCacheAndThreads) {
  if (SupportedKernels().front().isa == Isa::kScalar) GTEST_SKIP() << "no vectors";
  const auto strips = [](const std::string& sizes, int num_threads) {
    const Problem problem = Layer(sizes + " filter=2,2,4,64 strides=1,1 pads=0,1,0,1");
    Execution execution;
    execution.algorithm = "im2col";
    execution.num_threads = num_threads;
    return PlanRun(problem, execution).tiles;
  };
  EXPECT_EQ(strips("in=2,4,40,48", 1), "6 strips of 640 pixels");
  EXPECT_EQ(strips("in=1,4,2,512", 1), "2 strips of 512 pixels");
  EXPECT_EQ(strips("in=1,4,32,48", 8), "8 strips of 192 pixels");
}

TEST(Im2Col, ChosenForFewChannelsOfOneSide) {
  const Isa isa = SupportedKernels().front().isa;
  if (isa != Isa::kAvx2) GTEST_SKIP() << "the counts are compared on AVX2";
  const auto chosen = [](const Problem& problem) { return PlanRun(problem, {}).algorithm; };
  const std::string same = " strides=1,1 pads=1,1,1,1";
  EXPECT_EQ(chosen(Layer("in=4,3,128,128 filter=3,3,3,64" + same)), "im2col");
  EXPECT_EQ(chosen(Layer("in=8,1,112,112 filter=3,3,1,64 strides=2,2 pads=1,1,1,1")), "im2col");
  EXPECT_EQ(chosen(Layer("in=1,128,56,56 filter=3,3,128,1" + same, "conv2d_backprop_input")),
            "im2col");
  EXPECT_NE(chosen(Layer("in=4,24,56,56 filter=3,3,24,24" + same)), "im2col");
}

// Columns of many terms are read for every block of rows; the filter is packed anew in every run.
TEST(Im2Col, ChosenForStridedStemsWithAvx512) {
  if (SupportedKernels().front().isa != Isa::kAvx512) GTEST_SKIP() << "no vectors of whole lines";
  const auto chosen = [](const Problem& problem) { return PlanRun(problem, {}).algorithm; };
  EXPECT_EQ(chosen(Layer("in=4,3,160,160 filter=3,3,3,64 strides=2,2 pads=1,1,1,1")), "im2col");
  EXPECT_EQ(chosen(Layer("in=1,3,75,75 filter=3,3,3,72 strides=2,2 pads=1,1,1,1")), "im2col");
  EXPECT_NE(chosen(Layer("in=2,224,40,40 filter=1,1,224,640 strides=2,2 pads=0,0,0,0")), "im2col");
  EXPECT_NE(chosen(Layer("in=2,88,12,12 filter=1,1,88,728 strides=2,2 pads=0,0,0,0")), "im2col");
}

}  // namespace
}  // namespace convgrad::testing
