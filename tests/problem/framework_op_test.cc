// Names of convolutions in other frameworks.
#include "problem/framework_op.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace convgrad {
namespace {

using ::testing::HasSubstr;

TEST(FrameworkOp, ThatSaysOneThingImpliesItsOrders) {
  const auto expect = [](std::string_view name, Op op) {
    const std::optional<FrameworkOp> found = FindFrameworkOp(name);
    ASSERT_TRUE(found) << name;
    EXPECT_EQ(found->op, op) << name;
    EXPECT_EQ(found->data_format, DataFormat::kNCHW);
    EXPECT_EQ(found->filter_format, FilterFormat::kOIHW);
    EXPECT_EQ(AdviceOnFrameworkOp(name), "");
  };
  expect("torch.nn.functional.conv2d", Op::kConv2D);
  expect("aten::conv2d", Op::kConv2D);
  expect("Conv", Op::kConv2D);
  expect("torch.nn.grad.conv2d_weight", Op::kConv2DBackpropFilter);
  expect("torch.nn.grad.conv2d_input", Op::kConv2DBackpropInput);
}

TEST(FrameworkOp, ThatSaysSeveralIsAnswered) {
  for (const char* name :
       {"aten::convolution", "torch.ops.aten.convolution.default", "aten::convolution_backward",
        "convolution_backward", "lax.conv_general_dilated", "jax.lax.conv_general_dilated",
        "F.conv_transpose2d", "ConvTranspose"}) {
    EXPECT_FALSE(FindFrameworkOp(name)) << name;
    EXPECT_THAT(AdviceOnFrameworkOp(name), HasSubstr("conv2d")) << name;
    EXPECT_THAT(AdviceOnFrameworkOp(name), HasSubstr("--filter")) << name;
  }
}

// TensorFlow's own names stay TensorFlow's.
TEST(FrameworkOp, IsNoneOfOurs) {
  for (const OpInfo& info : AllOps()) {
    EXPECT_FALSE(FindFrameworkOp(info.name));
    EXPECT_EQ(AdviceOnFrameworkOp(info.name), "");
    for (const char* alias : info.aliases) EXPECT_FALSE(FindFrameworkOp(alias));
  }
  EXPECT_EQ(AdviceOnFrameworkOp("tf.nn.conv2d_transpose"), "");
}

}  // namespace
}  // namespace convgrad
