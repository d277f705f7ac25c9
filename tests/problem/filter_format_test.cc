// Shapes of filters in the orders of other frameworks.
#include "problem/filter_format.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/error.h"
#include "problem/geometry.h"

namespace convgrad {
namespace {

using ::testing::HasSubstr;

TEST(FilterFormat, OrdersTheDimensions) {
  const Shape ours = {3, 5, 2, 8};
  EXPECT_EQ(ShapeIn(FilterFormat::kHWIO, false, ours), ours);
  EXPECT_EQ(ShapeIn(FilterFormat::kOIHW, false, ours), Shape({8, 2, 3, 5}));
  EXPECT_EQ(ShapeIn(FilterFormat::kOHWI, false, ours), Shape({8, 3, 5, 2}));
  EXPECT_EQ(IndexIn(FilterFormat::kOIHW, false, ours, {1, 4, 0, 7}), Shape({7, 0, 1, 4}));
}

TEST(FilterFormat, JoinsDepthwiseChannelsAndMultipliers) {
  const Shape ours = {3, 5, 4, 2};
  EXPECT_EQ(ShapeIn(FilterFormat::kHWIO, true, ours), ours);
  EXPECT_EQ(ShapeIn(FilterFormat::kOIHW, true, ours), Shape({8, 1, 3, 5}));
  EXPECT_EQ(ShapeIn(FilterFormat::kOHWI, true, ours), Shape({8, 3, 5, 1}));
  EXPECT_EQ(IndexIn(FilterFormat::kOIHW, true, ours, {1, 4, 3, 1}), Shape({7, 0, 1, 4}));
}

TEST(FilterFormat, TakesShapesBack) {
  for (const FilterFormat format : kAllFilterFormats) {
    for (const bool depthwise : {false, true}) {
      const Shape ours = {3, 5, 4, 2};
      EXPECT_EQ(ShapeFrom(format, depthwise, 4, ShapeIn(format, depthwise, ours)), ours);
    }
  }
  EXPECT_EQ(ShapeFrom(FilterFormat::kOIHW, true, 4, {8, 2, 3, 5}), std::nullopt);
  EXPECT_EQ(ShapeFrom(FilterFormat::kOIHW, true, 3, {8, 1, 3, 5}), std::nullopt);
  EXPECT_EQ(ShapeFrom(FilterFormat::kOIHW, true, 0, {8, 1, 3, 5}), std::nullopt);
  EXPECT_EQ(ShapeFrom(FilterFormat::kOIHW, true, 0, {0, 1, 3, 5}), Shape({3, 5, 0, 1}));
}

ConvSpec DepthwiseForward(Shape input, Shape filter, FilterFormat format) {
  ConvSpec spec;
  spec.op = Op::kDepthwiseConv2D;
  spec.input = std::move(input);
  spec.filter = std::move(filter);
  spec.filter_format = format;
  return spec;
}

std::string CodeAndMessageOf(const ConvSpec& spec) {
  try {
    return "not refused: " + MakeProblem(spec).ToLine();
  } catch (const Error& error) {
    return error.code() + ": " + error.message();
  }
}

TEST(FilterFormat, IsTakenIntoAccountByProblems) {
  const Problem problem =
      MakeProblem(DepthwiseForward({1, 8, 8, 8}, {16, 1, 3, 5}, FilterFormat::kOIHW));
  EXPECT_EQ(problem.FilterShape(), Shape({3, 5, 8, 2}));
  ConvSpec spec;
  spec.op = Op::kConv2DBackpropInput;
  spec.filter = Shape{16, 4, 3, 3};
  spec.filter_format = FilterFormat::kOIHW;
  spec.input_sizes = Sizes{{6, 6}};
  spec.out_backprop = Shape{1, 6, 6, 16};
  EXPECT_EQ(MakeProblem(spec).InputShape(), Shape({1, 6, 6, 4}));
}

TEST(FilterFormat, ThatContradictsTheShapesIsRefused) {
  const std::string message =
      CodeAndMessageOf(DepthwiseForward({1, 8, 8, 16}, {16, 3, 3, 1}, FilterFormat::kOIHW));
  EXPECT_THAT(message, HasSubstr("shape/filter-format: filter [16,3,3,1] (OIHW)"));
  EXPECT_THAT(message, HasSubstr("the shapes fit filter_format OHWI, given is OIHW"));
  EXPECT_THAT(CodeAndMessageOf(DepthwiseForward({1, 8, 8, 6}, {16, 1, 3, 3}, FilterFormat::kOIHW)),
              HasSubstr("shape/filter-format"));
}

}  // namespace
}  // namespace convgrad
