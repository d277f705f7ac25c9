// Which problems are flattened and to what, and that flattened ones have the reference's bits by
// every form that can do them.
#include "conv/axes/flattened.h"

#include <gtest/gtest.h>

#include <string>

#include "support/algorithm_testing.h"

namespace convgrad::testing {
namespace {

// Gives its sizes, strides and layout.
std::string Described(const Problem& problem) {
  const ConvGeometry& g = problem.geometry;
  return std::string(NameOf(problem.data_format)) + " " +
         ListOf({g.batch, g.in_h, g.in_w, g.in_c}) + " by " +
         ListOf({g.kernel_h, g.kernel_w, g.group_in_c, g.out_c}) + " strides " +
         ListOf({g.stride_h, g.stride_w}) + " to " + ListOf({g.out_h, g.out_w});
}

// Describes what a line's problem is flattened to.
std::string FlattenedTo(const std::string& line) {
  return Described(Flattened(ParseProblem(line + " padding=EXPLICIT")));
}

TEST(Flattened, WindowsSideBySide) {
  const std::string rest = " strides=4,4 dilations=1,1 pads=0,0,0,0";
  for (const std::string op : {"conv2d", "conv2d_backprop_input", "conv2d_backprop_filter"}) {
    EXPECT_EQ(FlattenedTo(op + " float32 NHWC in=2,8,12,3 filter=4,4,3,5" + rest),
              "NHWC 2,8,3,12 by 4,1,12,5 strides 4,1 to 2,3");
  }
}

TEST(Flattened, FilterAsLargeAsTheMap) {
  EXPECT_EQ(
      FlattenedTo("conv2d_backprop_input float32 NHWC in=2,7,7,30 filter=7,7,30,9 strides=2,1 "
                  "dilations=1,1 pads=0,0,0,0"),
      "NHWC 2,1,1,1470 by 1,1,1470,9 strides 1,1 to 1,1");
}

TEST(Flattened, LayoutsOfOnePixelOrChannel) {
  const std::string rest = " strides=1,1 dilations=1,1 pads=0,0,0,0";
  EXPECT_EQ(FlattenedTo("conv2d float32 NCHW in=2,30,1,1 filter=1,1,15,8" + rest),
            "NHWC 2,1,1,30 by 1,1,15,8 strides 1,1 to 1,1");
  EXPECT_EQ(FlattenedTo("conv2d float32 NCHW in=2,1,5,6 filter=3,3,1,1" + rest),
            "NHWC 2,5,6,1 by 3,3,1,1 strides 1,1 to 3,4");
  EXPECT_EQ(FlattenedTo("conv2d float32 NCHW in=2,1,5,6 filter=3,3,1,2" + rest),
            "NCHW 2,5,6,1 by 3,3,1,2 strides 1,1 to 3,4");
}

TEST(Flattened, NotWithGapsPaddingDilationOrGroups) {
  for (const std::string shape :
       {"in=2,8,13,3 filter=4,4,3,5 strides=4,4 dilations=1,1 pads=0,0,0,0",
        "in=2,8,12,3 filter=4,3,3,5 strides=4,4 dilations=1,1 pads=0,0,0,0",
        "in=2,8,10,3 filter=4,4,3,5 strides=4,4 dilations=1,1 pads=0,0,1,1",
        "in=2,8,12,3 filter=4,2,3,5 strides=4,2 dilations=1,2 pads=0,0,0,0",
        "in=2,8,12,6 filter=4,4,3,4 strides=4,4 dilations=1,1 pads=0,0,0,0"}) {
    const Problem problem = ParseProblem("conv2d float32 NHWC " + shape + " padding=EXPLICIT");
    EXPECT_EQ(Flattened(problem).geometry.in_w, problem.geometry.in_w) << shape;
  }
}

TEST(Flattened, NothingWithoutTaps) {
  EXPECT_EQ(FlattenedTo("conv2d_backprop_filter float32 NHWC in=2,8,8,3 filter=0,0,3,5 strides=1,1 "
                        "dilations=1,1 pads=0,0,0,0"),
            "NHWC 2,8,8,3 by 0,0,3,5 strides 1,1 to 9,9");
}

// 300 channels of a tap make two blocks of 150, 600 of two taps three of 200.
TEST(Flattened, ForwardOnlyWhereBlocksStay) {
  const std::string of = " float32 NHWC in=1,4,4,300 filter=2,2,300,5 strides=2,2 ";
  const std::string rest = "dilations=1,1 pads=0,0,0,0";
  EXPECT_EQ(FlattenedTo("conv2d" + of + rest), "NHWC 1,4,4,300 by 2,2,300,5 strides 2,2 to 2,2");
  EXPECT_EQ(FlattenedTo("conv2d_backprop_input" + of + rest),
            "NHWC 1,4,2,600 by 2,1,600,5 strides 2,1 to 2,2");
}

// Rows of the filter have padding between them where windows are wider than the only column.
TEST(Flattened, RowsOnlyOfOneColumn) {
  const std::string of = "conv2d float32 NHWC in=2,8,1,16 filter=2,2,16,32 strides=2,2 ";
  EXPECT_EQ(FlattenedTo(of + "dilations=1,1 pads=0,0,0,1"),
            "NHWC 2,8,1,16 by 2,2,16,32 strides 2,2 to 4,1");
}

// 64 channels of twelve taps make three blocks, of four taps one. Windows side by side leave a
// phase its taps, a window down all rows one tap.
TEST(Flattened, InputGradientOnlyWhereBlocksStay) {
  const std::string of = "conv2d_backprop_input float32 NHWC in=1,7,3,8 filter=4,3,8,64 strides=";
  const std::string rest = " dilations=1,1 pads=0,0,0,0";
  EXPECT_EQ(FlattenedTo(of + "1,1" + rest), "NHWC 1,7,3,8 by 4,3,8,64 strides 1,1 to 4,1");
  EXPECT_EQ(FlattenedTo(of + "1,3" + rest), "NHWC 1,7,1,24 by 4,1,24,64 strides 1,1 to 4,1");
  EXPECT_EQ(FlattenedTo(of + "4,1" + rest), "NHWC 1,7,1,24 by 4,1,24,64 strides 4,1 to 1,1");
  EXPECT_EQ(FlattenedTo(
                "conv2d_backprop_input float32 NHWC in=1,7,3,8 filter=4,3,8,21 strides=1,1" + rest),
            "NHWC 1,7,1,24 by 4,1,24,21 strides 1,1 to 4,1");
}

// bfloat16 takes the channels of a tap in pairs, one channel alone.
TEST(Flattened, OnlyWherePairsStay) {
  const std::string rest = " strides=1,2 dilations=1,1 pads=0,0,0,0";
  EXPECT_EQ(FlattenedTo("conv2d bfloat16 NHWC in=1,4,4,3 filter=1,2,3,5" + rest),
            "NHWC 1,4,4,3 by 1,2,3,5 strides 1,2 to 4,2");
  EXPECT_EQ(FlattenedTo("conv2d_backprop_filter bfloat16 NHWC in=1,4,4,1 filter=1,2,1,5" + rest),
            "NHWC 1,4,4,1 by 1,2,1,5 strides 1,2 to 4,2");
  EXPECT_EQ(FlattenedTo("conv2d bfloat16 NHWC in=1,4,4,4 filter=1,2,4,5" + rest),
            "NHWC 1,4,2,8 by 1,1,8,5 strides 1,1 to 4,2");
}

// 320 channels of a tap make two blocks of 160, 1,280 of four taps five of 256.
TEST(WindowsAsPixels, AreMovedWhereBlocksStay) {
  const auto moved = [](const std::string& line) {
    return Described(WithWindowsAsPixels(ParseProblem(line + " padding=EXPLICIT")));
  };
  const std::string rest = " dilations=1,1 pads=0,0,0,0";
  const std::string of = " float32 NCHW in=2,640,4,6 filter=2,2,320,8 strides=2,2" + rest;
  EXPECT_EQ(moved("conv2d_backprop_input" + of),
            "NCHW 2,2,3,2560 by 1,1,1280,8 strides 1,1 to 2,3");
  EXPECT_EQ(moved("conv2d_backprop_filter" + of),
            "NCHW 2,2,3,2560 by 1,1,1280,8 strides 1,1 to 2,3");
  EXPECT_EQ(moved("conv2d" + of), "NCHW 2,4,6,640 by 2,2,320,8 strides 2,2 to 2,3");
  EXPECT_EQ(moved("conv2d float32 NCHW in=2,64,4,6 filter=2,2,64,8 strides=2,2" + rest),
            "NCHW 2,2,3,256 by 1,1,256,8 strides 1,1 to 2,3");
  EXPECT_EQ(moved("conv2d float32 NCHW in=2,64,5,6 filter=2,2,64,8 strides=2,2" + rest),
            "NCHW 2,5,6,64 by 2,2,64,8 strides 2,2 to 2,3");
}

struct DrawnAxis {
  int64_t in, kernel, stride, pad_before, pad_after;
};

// Windows side by side, one window, windows that overlap, or padding.
DrawnAxis DrawAxis(Draw& draw) {
  const int64_t kernel = draw(1, 5);
  switch (draw(0, 4)) {
    case 0: return {kernel, kernel, draw(1, 3), 0, 0};
    case 1: return {kernel + draw(0, 5), kernel, draw(1, 2), 0, 0};
    case 2: return {draw(1, 4), kernel, draw(1, 3), draw(0, 2), draw(0, 2)};
    default: return {kernel * draw(1, 4), kernel, kernel, 0, 0};
  }
}

// Problem lines of which most are flattened, unless their sums forbid it.
std::string DrawWindows(Draw& draw, const std::string& op) {
  constexpr const char* kTypes[] = {"float32", "float64", "float16", "bfloat16"};
  const std::string type = kTypes[draw(0, 3)];
  const bool one_pixel = draw(0, 5) == 0;
  const DrawnAxis pixel{1, 1, 1, 0, 0};
  const DrawnAxis h = one_pixel ? pixel : DrawAxis(draw), w = one_pixel ? pixel : DrawAxis(draw);
  const int64_t batch = draw(1, 20), out_c = draw(1, 70);
  const int64_t in_c = draw(0, 3) == 0 ? draw(100, 300) : draw(1, 40);
  return op + " " + type + (one_pixel ? " NCHW in=" : " NHWC in=") +
         (one_pixel ? ListOf({batch, in_c, 1, 1}) : ListOf({batch, h.in, w.in, in_c})) +
         " filter=" + ListOf({h.kernel, w.kernel, in_c, out_c}) +
         " strides=" + ListOf({h.stride, w.stride}) +
         " dilations=1,1 pads=" + ListOf({h.pad_before, h.pad_after, w.pad_before, w.pad_after}) +
         " padding=EXPLICIT";
}

class FlattenedBits : public ::testing::TestWithParam<Values> {};

TEST_P(FlattenedBits, OfEveryForm) {
  for (const std::string op : {"conv2d", "conv2d_backprop_input", "conv2d_backprop_filter"}) {
    const Problem any = ParseProblem(op + " float32 NHWC in=1,2,2,2 filter=1,1,2,2 strides=1,1 " +
                                     "dilations=1,1 pads=0,0,0,0 padding=EXPLICIT");
    for (const Algorithm& algorithm : AlgorithmsOf(any.op)) {
      const std::string name = algorithm.name;
      if (name == "reference" || name.ends_with("planes") || name == "direct") continue;
      if (name == "plane-squares" || name == "im2col") continue;  // take NCHW alone
      CheckOnRandomProblems(
          name, 40, 3, [&](Draw& draw) { return DrawWindows(draw, op); }, DrawOperands, GetParam());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(AllValues, FlattenedBits,
                         ::testing::Values(Values::kOrdinary, Values::kSpecial), NameOfValues);

}  // namespace
}  // namespace convgrad::testing
