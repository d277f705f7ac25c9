// The algorithm "plane-squares" against the reference, bit for bit: planes of one pixel to several
// blocks, rows longer than a block, images, groups, few channels on either side, panels that are
// not full, both types and every target; what it fetches, and when it is chosen.
#include <gtest/gtest.h>

#include <string>

#include "conv/conv2d/filter/units/plane_squares_cut.h"
#include "support/algorithm_testing.h"

namespace convgrad::testing {
namespace {

struct Sizes {
  int64_t batch, c, h, w;
};

std::string LineOf(const std::string& type, const Sizes& in, int64_t out_c, int64_t groups = 1) {
  return "conv2d_backprop_filter " + type + " NCHW in=" + ListOf({in.batch, in.c, in.h, in.w}) +
         " filter=" + ListOf({1, 1, in.c / groups, out_c}) +
         " strides=1,1 dilations=1,1 pads=0,0,0,0 padding=EXPLICIT";
}

std::string DrawPlanes(Draw& draw) {
  const int64_t kind = draw(0, 3);
  const int64_t batch = kind == 0 ? draw(20, 60) : draw(1, 3);
  const int64_t h = kind == 0 ? draw(1, 9) : kind == 3 ? draw(1, 3) : draw(1, 40);
  const int64_t w = kind == 0 ? draw(1, 9) : kind == 3 ? draw(260, 600) : draw(1, 40);
  const int64_t groups = draw(0, 4) == 0 ? draw(2, 3) : 1;
  const int64_t few = draw(1, 14), many = draw(1, 70);
  const bool few_inputs = draw(0, 1) == 0;
  return LineOf(draw(0, 2) == 0 ? "float64" : "float32",
                {batch, groups * (few_inputs ? few : many), h, w},
                groups * (few_inputs ? many : few), groups);
}

class PlaneSquaresBits : public ::testing::TestWithParam<Values> {};

TEST_P(PlaneSquaresBits, OfRandomPlanes) {
  CheckOnRandomProblems("plane-squares", 250, 17, DrawPlanes, RandomOperands, GetParam());
}

INSTANTIATE_TEST_SUITE_P(AllValues, PlaneSquaresBits,
                         ::testing::Values(Values::kOrdinary, Values::kSpecial), NameOfValues);

// Several megabytes, whose lines are fetched ahead.
TEST(PlaneSquares, BeyondTheCaches) {
  const Problem problem = ParseProblem(LineOf("float32", {2, 40, 230, 231}, 3));
  ASSERT_TRUE(PlaneSquaresCut<float>(problem, SupportedKernels().front(), 1).fetches);
  CheckAlgorithm("plane-squares", problem, RandomOperands(problem, 5, Values::kOrdinary));
}

TEST(PlaneSquares, FetchesWhatLeavesTheCaches) {
  const auto fetches = [](const Sizes& in, int num_threads) {
    const Problem problem = ParseProblem(LineOf("float32", in, 4));
    return PlaneSquaresCut<float>(problem, SupportedKernels().front(), num_threads).fetches;
  };
  EXPECT_FALSE(fetches({1, 60, 170, 170}, 1));  // 7.4 MB
  EXPECT_TRUE(fetches({1, 60, 200, 200}, 1));   // 10.2 MB
  EXPECT_FALSE(fetches({1, 60, 200, 200}, 2));
}

// Rows are channels of whichever side has fewer; tiles of one vector where columns fill no second.
TEST(PlaneSquares, TilesOfTheFewerRows) {
  for (const KernelTable& kernels : SupportedKernels()) {
    if (kernels.vector_bytes != 64) continue;
    const auto tiles = [&](int64_t in_c, int64_t out_c) {
      const Problem problem = ParseProblem(LineOf("float32", {1, in_c, 20, 20}, out_c));
      return PlaneSquaresCut<float>(problem, kernels, 1).Tiles();
    };
    EXPECT_EQ(tiles(64, 3), "3x32 output x input channels, 2 panels, 2 blocks in 1 runs");
    EXPECT_EQ(tiles(3, 64), "3x32 input x output channels, 2 panels, 2 blocks in 1 runs");
    EXPECT_EQ(tiles(4, 16), "4x16 input x output channels, 1 panels, 2 blocks in 1 runs");
    EXPECT_EQ(tiles(8, 64), "8x16 input x output channels, 4 panels, 2 blocks in 1 runs");
  }
}

TEST(PlaneSquares, CountsEveryTermOfEveryImage) {
  for (const KernelTable& kernels : SupportedKernels()) {
    if (kernels.plane_squares_f32.tiles.empty()) continue;
    const auto work = [&](int64_t batch) {
      const Problem problem = ParseProblem(LineOf("float32", {batch, 70, 28, 28}, 4));
      return PlaneSquaresCut<float>(problem, kernels, 1).CountWork();
    };
    const Work once = work(16), twice = work(32);
    const double terms = 16.0 * 28 * 28 * 70 * 4;
    EXPECT_GE(once.Of(WorkKind::kGemmFma) * kernels.vector_bytes / 4, terms);
    EXPECT_LE(once.Of(WorkKind::kGemmFma) * kernels.vector_bytes / 4, 4 * terms);
    for (const WorkKind kind : {WorkKind::kGemmFma, WorkKind::kGemmSingle, WorkKind::kTransposed,
                                WorkKind::kCall, WorkKind::kTask}) {
      EXPECT_DOUBLE_EQ(twice.Of(kind), 2 * once.Of(kind));
    }
  }
}

// A head of few classes on large maps; not what makes full tiles of packed panels.
TEST(PlaneSquares, ChosenForFewChannels) {
  const auto chosen = [](const Sizes& in, int64_t out_c) {
    return PlanRun(ParseProblem(LineOf("float32", in, out_c)), {}).algorithm;
  };
  const Isa isa = SupportedKernels().front().isa;
  if (isa != Isa::kAvx512 && isa != Isa::kAvx2) GTEST_SKIP() << "coefficients are of x86-64";
  EXPECT_EQ(chosen({1, 64, 128, 128}, 1), "plane-squares");
  EXPECT_EQ(chosen({1, 64, 128, 128}, 3), "plane-squares");
  EXPECT_EQ(chosen({1, 4, 128, 128}, 64), "plane-squares");
  EXPECT_NE(chosen({1, 64, 128, 128}, 64), "plane-squares");
  EXPECT_NE(chosen({1, 64, 128, 128}, 32), "plane-squares");
}

}  // namespace
}  // namespace convgrad::testing
