// Words about shapes that don't fit together, and about how sizes come about.
#include "problem/misfit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "base/error.h"
#include "problem/explain.h"
#include "problem/geometry.h"

namespace convgrad {
namespace {

using ::testing::HasSubstr;

std::string MessageOf(const ConvSpec& spec) {
  try {
    return "not refused: " + MakeProblem(spec).ToLine();
  } catch (const Error& error) {
    return error.message();
  }
}

ConvSpec FilterGradient(Shape input, Shape filter, Shape out_backprop) {
  ConvSpec spec;
  spec.op = Op::kConv2DBackpropFilter;
  spec.input = std::move(input);
  spec.filter_sizes = Sizes{std::move(filter)};
  spec.out_backprop = std::move(out_backprop);
  return spec;
}

TEST(Misfit, OfAWrongOutBackpropNamesTheSizeThePadsTheInputsAndTheFix) {
  ConvSpec spec = FilterGradient({8, 57, 57, 64}, {3, 3, 64, 128}, {8, 28, 28, 128});
  spec.strides = {2};
  EXPECT_EQ(MessageOf(spec),
            "out_backprop [8,28,28,128]: expected [8,29,29,128], height ceil(57 / stride 2) = 29, "
            "pads 1+1 (an input height of 55 to 56 would give 28), width ceil(57 / stride 2) = 29, "
            "pads 1+1 (an input width of 55 to 56 would give 28); padding VALID would fit");
  spec.out_backprop = Shape{8, 29, 57, 128};
  EXPECT_THAT(MessageOf(spec), HasSubstr("; padding SAME with strides 2,1 would fit"));
}

TEST(Misfit, OfAWrongOutBackpropSuggestsExplicitPaddings) {
  ConvSpec spec = FilterGradient({1, 5, 5, 1}, {2, 2, 1, 1}, {1, 6, 6, 1});
  EXPECT_THAT(MessageOf(spec), HasSubstr("; padding 1 would fit"));
  spec.out_backprop = Shape{1, 5, 6, 1};
  EXPECT_THAT(MessageOf(spec), HasSubstr("; padding 0,1,1,1 (top,bottom,left,right) would fit"));
}

TEST(Misfit, OfAFilterTooLargeSaysByHowMuch) {
  ConvSpec spec = FilterGradient({8, 4, 9, 1}, {3, 3, 1, 1}, {8, 1, 9, 1});
  spec.padding = Padding::kValid;
  spec.dilations = {3, 1};
  EXPECT_THAT(MessageOf(spec),
              HasSubstr("height (4 - filter 7 (3 dilated by 3) + stride 1) / 1 = -2"));
}

TEST(Misfit, SeesTheOtherLayout) {
  ConvSpec spec = FilterGradient({8, 64, 57, 57}, {3, 3, 64, 128}, {8, 128, 57, 57});
  EXPECT_THAT(MessageOf(spec), HasSubstr("the shapes fit data_format NCHW, given is NHWC"));
  spec.strides = {1, 1, 2, 2};
  EXPECT_THAT(MessageOf(spec), HasSubstr("they fit the order of data_format NCHW, given is NHWC"));
}

TEST(Misfit, SeesSizesInTheOtherLayout) {
  ConvSpec spec;
  spec.op = Op::kDepthwiseConv2DBackpropInput;
  spec.filter = Shape{3, 3, 32, 1};
  spec.out_backprop = Shape{8, 56, 56, 32};
  spec.input_sizes = Sizes{{8, 32, 56, 56}};
  EXPECT_THAT(MessageOf(spec),
              HasSubstr("input_sizes seem to be in NCHW order: [8,56,56,32] would fit"));
}

TEST(Misfit, SeesFiltersOfOtherPrograms) {
  ConvSpec spec = FilterGradient({8, 57, 57, 64}, {128, 64, 3, 3}, {8, 57, 57, 128});
  EXPECT_THAT(MessageOf(spec), HasSubstr("; the shapes fit filter_format OIHW, given is HWIO"));
  spec.filter_sizes->values = {3, 3, 128, 64};
  EXPECT_THAT(MessageOf(spec), HasSubstr("in [height,width,out,in] order: [3,3,64,128] would fit"));
}

TEST(Misfit, SeesTensorsOfPyTorch) {
  ConvSpec spec = FilterGradient({8, 64, 57, 57}, {128, 64, 3, 3}, {8, 128, 57, 57});
  EXPECT_THAT(MessageOf(spec), HasSubstr("; the shapes fit filter_format OIHW with data_format "
                                         "NCHW, given is HWIO with NHWC"));
  // Where 3 "input channels" divide the 9 "channels" too.
  ConvSpec forward;
  forward.input = Shape{2, 16, 9, 9};
  forward.filter = Shape{33, 16, 3, 3};
  forward.padding = Padding::kValid;
  EXPECT_THAT(MessageOf(forward), HasSubstr("; the shapes fit filter_format OIHW with data_format "
                                            "NCHW, given is HWIO with NHWC"));
  // Depthwise weights, as groups equal to the channels make them.
  spec = FilterGradient({8, 57, 57, 16}, {16, 1, 3, 3}, {8, 57, 57, 16});
  EXPECT_THAT(MessageOf(spec), HasSubstr("; the shapes fit filter_format OIHW, given is HWIO"));
  spec.op = Op::kDepthwiseConv2DBackpropFilter;
  EXPECT_THAT(MessageOf(spec), HasSubstr("; the shapes fit filter_format OIHW, given is HWIO"));
}

TEST(Misfit, OfGroupsSaysHowManyTheShapesMake) {
  ConvSpec spec = FilterGradient({8, 9, 9, 16}, {3, 3, 4, 32}, {8, 9, 9, 32});
  spec.groups = 4;
  EXPECT_THAT(MessageOf(spec), HasSubstr("not refused"));
  spec.groups = 2;
  EXPECT_THAT(MessageOf(spec), HasSubstr("groups 2: filter_sizes [3,3,4,32] with input [8,9,9,16] "
                                         "makes 4"));
  // The dangerous ones: weights in another order that make a grouped convolution of their own.
  spec = FilterGradient({8, 9, 9, 16}, {3, 3, 1, 16}, {8, 9, 9, 16});
  spec.groups = 1;
  EXPECT_THAT(MessageOf(spec), HasSubstr("makes 16"));
}

TEST(Misfit, OfDepthwiseShapesNamesTheDepthwiseOp) {
  const ConvSpec spec = FilterGradient({8, 57, 57, 16}, {3, 3, 16, 1}, {8, 57, 57, 16});
  EXPECT_THAT(MessageOf(spec), HasSubstr("; the shapes fit depthwise_conv2d_backprop_filter"));
}

TEST(Misfit, SeesSwappedOperandsAndTheOtherOp) {
  ConvSpec spec = FilterGradient({8, 29, 29, 128}, {3, 3, 64, 128}, {8, 57, 57, 64});
  spec.strides = {2};
  EXPECT_THAT(MessageOf(spec), HasSubstr("the two operands seem to be swapped"));
  spec = FilterGradient({8, 57, 57, 64}, {3, 3, 64, 2}, {8, 57, 57, 128});
  EXPECT_THAT(MessageOf(spec), HasSubstr("the shapes fit depthwise_conv2d_backprop_filter"));
}

TEST(Misfit, StaysShortForAHostileRank) {
  ConvSpec spec = FilterGradient(Shape(1'000'000, 1), {1, 1, 1, 1}, {1, 1, 1, 1});
  EXPECT_LT(MessageOf(spec).size(), 200u);
}

TEST(ExplainSizes, SaysHowTheOutputComesAbout) {
  const Problem problem = ParseProblem(
      "conv2d float32 NHWC in=1,56,57,1 filter=3,3,1,1 strides=2,1 dilations=1,2 pads=0,1,2,2 "
      "padding=SAME");
  EXPECT_THAT(ExplainSizes(problem),
              ::testing::ElementsAre("height: ceil(56 / stride 2) = 28, pads 0+1",
                                     "width: ceil(57 / stride 1) = 57, pads 2+2"));
}

}  // namespace
}  // namespace convgrad
