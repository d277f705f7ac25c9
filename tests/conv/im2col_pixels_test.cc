// The algorithm "im2col" in NHWC against the reference, bit for bit: forward and input gradient,
// all types and every target; strips of several rows and of one row's part, strides, padding that
// is copied as zeros, channels of no whole vector and of one or two, filters that are not finite;
// what it takes, and when it is chosen.
#include <gtest/gtest.h>

#include <string>

#include "support/algorithm_testing.h"

namespace convgrad::testing {
namespace {

// Problem lines; not every one has an output or is taken.
std::string DrawWindowsOfPixels(Draw& draw) {
  const bool forward = draw(0, 2) > 0, wide = draw(0, 4) == 0, many = draw(0, 4) == 0;
  const int64_t h = draw(1, wide ? 4 : 18), w = wide ? draw(300, 900) : draw(1, 18);
  const int64_t terms = draw(1, 6), channels = many ? draw(30, 90) : draw(1, 20);
  const int64_t in_c = forward ? terms : channels, out_c = forward ? channels : terms;
  const int64_t stride = forward ? 4 : 1;
  const int64_t padding = draw(0, 2) == 0 ? 0 : 3;
  return std::string(forward ? "conv2d " : "conv2d_backprop_input ") + DrawType(draw) +
         " NHWC in=" + ListOf({draw(1, 2), h, w, in_c}) +
         " filter=" + ListOf({draw(1, 4), draw(1, 4), in_c, out_c}) +
         " strides=" + ListOf({draw(1, stride), draw(1, stride)}) + " dilations=1,1 pads=" +
         ListOf({draw(0, padding), draw(0, padding), draw(0, padding), draw(0, padding)}) +
         " padding=EXPLICIT";
}

// The first target that takes windows: of vectors, and shorter ones than a line.
const KernelTable* KernelsOfShortVectors() {
  for (const KernelTable& kernels : SupportedKernels()) {
    if (kernels.isa != Isa::kScalar && kernels.vector_bytes < 64) return &kernels;
  }
  return nullptr;
}

class WindowsOfPixelsBits : public ::testing::TestWithParam<Values> {
 protected:
  void SetUp() override {
    if (SupportedKernels().front().isa == Isa::kScalar) GTEST_SKIP() << "no vectors";
  }
};

TEST_P(WindowsOfPixelsBits, OfRandomWindows) {
  CheckOnRandomProblems("im2col", 200, 43, DrawWindowsOfPixels, DrawOperands, GetParam());
}

// Whole strips of a row, and rows, that meet padding alone, on either side of the source: nothing
// may be copied, or made zero, outside of the copy.
TEST_P(WindowsOfPixelsBits, OfPaddingAlone) {
  const auto draw_problem = [](Draw& draw) {
    const auto any = [&] { return draw(0, 2) == 0 ? 0 : draw(1, 700); };
    const bool high = draw(0, 1) == 0;
    const int64_t channels = draw(1, 4);
    return std::string("conv2d ") + DrawType(draw) +
           " NHWC in=" + ListOf({1, draw(1, 3), draw(1, 3), channels}) +
           " filter=" + ListOf({draw(1, 2), draw(1, 3), channels, draw(4, 20)}) +
           " strides=" + ListOf({draw(1, 2), draw(1, 2)}) + " dilations=1,1 pads=" +
           (high ? ListOf({any(), any(), 1, 1}) : ListOf({1, 1, any(), any()})) +
           " padding=EXPLICIT";
  };
  CheckOnRandomProblems("im2col", 60, 45, draw_problem, DrawOperands, GetParam());
}

// The results have 8 MiB in whole lines, and 12 in others.
TEST_P(WindowsOfPixelsBits, AroundTheCaches) {
  if (KernelsOfShortVectors() == nullptr) GTEST_SKIP() << "no short vectors";
  for (const char* const sizes :
       {"in=1,182,181,1 filter=3,3,1,64", "in=1,251,252,1 filter=3,3,1,51"}) {
    const std::string problem = std::string("conv2d float32 NHWC ") + sizes +
                                " strides=1,1 dilations=1,1 pads=1,1,1,1 padding=EXPLICIT";
    CheckOnRandomProblems(
        "im2col", 1, 44, [&](Draw&) { return problem; }, DrawOperands, GetParam());
  }
}

INSTANTIATE_TEST_SUITE_P(AllValues, WindowsOfPixelsBits,
                         ::testing::Values(Values::kOrdinary, Values::kSpecial), NameOfValues);

Problem NhwcLayer(const std::string& sizes, const std::string& op = "conv2d") {
  return ParseProblem(op + " float32 NHWC " + sizes + " padding=EXPLICIT");
}

TEST(WindowsOfPixels, TakesOneBlockOfOnePhaseWithoutGaps) {
  const KernelTable* const kernels = KernelsOfShortVectors();
  if (kernels == nullptr) GTEST_SKIP() << "no short vectors";
  const auto takes = [&](const std::string& sizes, const std::string& op = "conv2d") {
    return Takes("im2col", NhwcLayer(sizes, op), *kernels);
  };
  const std::string same = " strides=1,1 dilations=1,1 pads=1,1,1,1";
  EXPECT_TRUE(takes("in=1,40,40,28 filter=3,3,28,8" + same));
  EXPECT_FALSE(takes("in=1,40,40,29 filter=3,3,29,8" + same));
  EXPECT_TRUE(takes("in=1,40,40,16 filter=3,3,16,227" + same));
  EXPECT_FALSE(takes("in=1,40,40,16 filter=3,3,16,228" + same)) << "128 KiB of the filter";
  EXPECT_TRUE(takes("in=1,40,40,1 filter=3,3,1,512" + same));
  EXPECT_TRUE(takes("in=1,40,40,2 filter=3,3,2,500" + same));
  EXPECT_FALSE(takes("in=1,40,40,2 filter=3,3,2,512" + same)) << "rows of 2 KiB, 36 of them";
  EXPECT_FALSE(takes("in=1,40,40,8 filter=1,1,8,8 strides=1,1 dilations=1,1 pads=0,0,0,0"));
  EXPECT_FALSE(takes("in=1,40,40,8 filter=3,3,4,8" + same)) << "two groups";
  EXPECT_FALSE(takes("in=1,40,40,8 filter=3,3,8,8 strides=1,1 dilations=2,1 pads=1,1,1,1"));
  EXPECT_TRUE(takes("in=1,40,40,8 filter=3,3,8,3" + same, "conv2d_backprop_input"));
  EXPECT_FALSE(takes("in=1,40,40,8 filter=3,3,8,3 strides=2,2 dilations=1,1 pads=1,1,1,1",
                     "conv2d_backprop_input"));
}

// Those of 16 bits are.
TEST(WindowsOfPixels, AreNotTakenByVectorsOfWholeLines) {
  const Problem problem =
      NhwcLayer("in=1,40,40,3 filter=3,3,3,8 strides=1,1 dilations=1,1 pads=1,1,1,1");
  Problem halves = problem;
  halves.dtype = DType::kFloat16;
  for (const KernelTable& kernels : SupportedKernels()) {
    const bool is_short = kernels.isa != Isa::kScalar && kernels.vector_bytes < 64;
    EXPECT_EQ(Takes("im2col", problem, kernels), is_short) << kernels.vector_bytes;
    EXPECT_EQ(Takes("im2col", halves, kernels), kernels.isa != Isa::kScalar);
  }
}

// 8 KiB of the source are 682 pixels of three channels, of which strides leave a part.
TEST(WindowsOfPixels, CutsStripsForTheFirstCacheAndThreads) {
  const KernelTable* const kernels = KernelsOfShortVectors();
  if (kernels == nullptr) GTEST_SKIP() << "no short vectors";
  const auto strips = [&](const std::string& input, int stride, int num_threads) {
    Execution execution;
    execution.algorithm = "im2col";
    execution.isa = kernels->isa;
    execution.num_threads = num_threads;
    return PlanRun(NhwcLayer("in=" + input + " filter=3,3,3,64 strides=" +
                             ListOf({stride, stride}) + " dilations=1,1 pads=1,1,1,1"),
                   execution)
        .tiles;
  };
  EXPECT_EQ(strips("4,128,128,3", 1, 1), "104 strips of 5x128 pixels");
  EXPECT_EQ(strips("4,128,128,3", 2, 1), "128 strips of 2x64 pixels");
  EXPECT_EQ(strips("1,28,28,3", 1, 8), "10 strips of 3x28 pixels");
  EXPECT_EQ(strips("1,2,1024,3", 1, 1), "4 strips of 1x684 pixels");
}

TEST(WindowsOfPixels, ChosenForFewChannelsOfOneSide) {
  if (SupportedKernels().front().isa != Isa::kAvx2) GTEST_SKIP() << "as coefficients are fitted";
  const auto chosen = [](const std::string& sizes, const std::string& op = "conv2d") {
    return PlanRun(NhwcLayer(sizes + " dilations=1,1 pads=1,1,1,1", op), {}).algorithm;
  };
  EXPECT_EQ(chosen("in=32,28,28,1 filter=3,3,1,64 strides=1,1"), "im2col");
  EXPECT_EQ(chosen("in=4,112,112,1 filter=3,3,1,128 strides=2,2"), "im2col");
  EXPECT_EQ(chosen("in=4,64,64,64 filter=3,3,64,1 strides=1,1", "conv2d_backprop_input"), "im2col");
  EXPECT_NE(chosen("in=4,56,56,24 filter=3,3,24,24 strides=1,1"), "im2col");
}

}  // namespace
}  // namespace convgrad::testing
