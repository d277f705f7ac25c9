#include "problem/op.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/error.h"
#include "base/nearest.h"

namespace convgrad {
namespace {

using ::testing::HasSubstr;

TEST(ParseOp, TakesEverySpellingWithAndWithoutPrefixes) {
  for (const OpInfo& info : AllOps()) {
    for (const char* prefix :
         {"", "tf.nn.", "tf.compat.v1.nn.", "tf.compat.v2.nn.", "tf.raw_ops."}) {
      EXPECT_EQ(ParseOp(std::string(prefix) + info.name), info.op);
      for (const char* alias : info.aliases)
        EXPECT_EQ(ParseOp(std::string(prefix) + alias), info.op);
    }
  }
}

TEST(AllOps, AreInTheOrderOfTheEnum) {
  for (const OpInfo& info : AllOps()) EXPECT_STREQ(InfoOf(info.op).name, info.name);
}

std::string MessageOf(const std::string& name) {
  try {
    ParseOp(name);
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), ExitCode::kUsage);
    EXPECT_EQ(error.code(), "op/unknown");
    return error.message();
  }
  return "accepted";
}

TEST(ParseOp, SuggestsTheNearest) {
  EXPECT_THAT(MessageOf("conv2d_backprop_fliter"),
              HasSubstr("did you mean conv2d_backprop_filter?"));
  EXPECT_THAT(MessageOf("tf.raw_ops.Conv2DBackpropInptu"),
              HasSubstr("did you mean Conv2DBackpropInput?"));
  EXPECT_THAT(MessageOf("depthwise_conv_backprop_input"),
              HasSubstr("depthwise_conv2d_backprop_input"));
  EXPECT_THAT(MessageOf(""), HasSubstr("the ops are conv2d_backprop_filter, "));
  EXPECT_THAT(MessageOf("matmul"), HasSubstr("the ops are "));
  EXPECT_THAT(MessageOf("tf.nn.tf.nn.conv2d"), HasSubstr("no such op"));
  EXPECT_LT(MessageOf(std::string(1'000'000, 'c')).size(), 400u);
}

TEST(ParseOp, ExplainsTheTransposedConvolution) {
  EXPECT_THAT(MessageOf("tf.nn.conv2d_transpose"),
              HasSubstr("conv2d_backprop_input with --input-sizes"));
}

TEST(EditDistance, CountsSingleEdits) {
  EXPECT_EQ(EditDistance("", ""), 0u);
  EXPECT_EQ(EditDistance("abc", "abc"), 0u);
  EXPECT_EQ(EditDistance("abc", ""), 3u);
  EXPECT_EQ(EditDistance("abc", "ABC"), 0u);
  EXPECT_EQ(EditDistance("abc", "abd"), 1u);
  EXPECT_EQ(EditDistance("abc", "acb"), 1u);
  EXPECT_EQ(EditDistance("kitten", "sitting"), 3u);
  EXPECT_EQ(EditDistance("stride", "strides"), 1u);
}

TEST(Nearest, IsNoneWhenNothingIsNear) {
  constexpr std::string_view kNames[] = {"strides", "padding"};
  EXPECT_EQ(Nearest("stride", kNames), "strides");
  EXPECT_EQ(Nearest("pading", kNames), "padding");
  EXPECT_EQ(Nearest("threads_of_work", kNames), std::nullopt);
  EXPECT_EQ(Nearest("x", {}), std::nullopt);
  constexpr std::string_view kShort[] = {"ci", "no"};
  EXPECT_EQ(Nearest("on", kShort), "no");
  EXPECT_EQ(Nearest("v", kShort), std::nullopt);
  constexpr std::string_view kShape[] = {"shape"};
  EXPECT_EQ(Nearest("shp", kShape), "shape");  // two letters, however short
  EXPECT_EQ(Nearest("shxyz", kShape), std::nullopt);
}

}  // namespace
}  // namespace convgrad
