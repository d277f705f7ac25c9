// The algorithm "space-to-depth" against the reference, bit for bit: all directions, both types and
// layouts, groups, maps of one window, windows of few and of many columns, rows that are split
// together and alone; what it takes, and when it is chosen.
#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "support/algorithm_testing.h"

namespace convgrad::testing {
namespace {

constexpr const char* kOps[] = {"conv2d", "conv2d_backprop_input", "conv2d_backprop_filter"};

// Problem lines of windows side by side; forward sums of some are cut otherwise than a product's.
std::string DrawWindows(Draw& draw) {
  const bool nhwc = draw(0, 3) == 0, wide = draw(0, 5) == 0;
  const int64_t kernel_h = draw(1, 5), kernel_w = draw(1, draw(0, 2) == 0 ? 17 : 5);
  const int64_t out_h = draw(1, 4), out_w = wide ? draw(100, 150) : draw(1, 9);
  const int64_t groups = !nhwc && draw(0, 3) == 0 ? draw(2, 3) : 1;
  const int64_t in_c = draw(1, wide ? 3 : 9), out_c = draw(1, 20), batch = draw(1, 3);
  const int64_t h = kernel_h * out_h, w = kernel_w * out_w;
  return std::string(kOps[draw(0, 2)]) + (draw(0, 2) == 0 ? " float64" : " float32") +
         (nhwc ? " NHWC in=" + ListOf({batch, h, w, in_c})
               : " NCHW in=" + ListOf({batch, groups * in_c, h, w})) +
         " filter=" + ListOf({kernel_h, kernel_w, in_c, groups * out_c}) +
         " strides=" + ListOf({kernel_h, kernel_w}) +
         " dilations=1,1 pads=0,0,0,0 padding=EXPLICIT";
}

class SpaceToDepthBits : public ::testing::TestWithParam<Values> {};

TEST_P(SpaceToDepthBits, OfRandomWindows) {
  CheckOnRandomProblems("space-to-depth", 200, 53, DrawWindows, DrawOperands, GetParam());
}

INSTANTIATE_TEST_SUITE_P(AllValues, SpaceToDepthBits,
                         ::testing::Values(Values::kOrdinary, Values::kSpecial), NameOfValues);

Problem Layer(const std::string& op, const std::string& sizes) {
  return ParseProblem(op + " " + sizes + " dilations=1,1 padding=EXPLICIT");
}

// Windows that meet or leave gaps, padding, 1x1 filters, 16 bits and groups in NHWC are left to
// others. Five taps of 60 channels are cut after two taps, 300 channels in two halves.
TEST(SpaceToDepth, TakesWindowsSideBySide) {
  const auto takes = [](const std::string& op, const std::string& sizes) {
    return Takes("space-to-depth", Layer(op, sizes));
  };
  const std::string in = "NCHW in=2,6,12,16 filter=4,4,";
  for (const std::string op : kOps) {
    EXPECT_TRUE(takes(op, "float32 " + in + "6,8 strides=4,4 pads=0,0,0,0")) << op;
    EXPECT_TRUE(takes(op, "float64 " + in + "3,8 strides=4,4 pads=0,0,0,0")) << op;
    EXPECT_FALSE(takes(op, "bfloat16 " + in + "6,8 strides=4,4 pads=0,0,0,0")) << op;
    EXPECT_FALSE(takes(op, "float32 " + in + "6,8 strides=2,4 pads=0,0,0,0")) << op;
    EXPECT_FALSE(takes(op, "float32 " + in + "6,8 strides=5,4 pads=0,0,0,0")) << op;
    EXPECT_FALSE(takes(op, "float32 " + in + "6,8 strides=4,4 pads=0,0,2,2")) << op;
    EXPECT_TRUE(takes(op, "float32 NHWC in=2,12,16,6 filter=4,4,6,8 strides=4,4 pads=0,0,0,0"));
    EXPECT_FALSE(takes(op, "float32 NHWC in=2,12,16,6 filter=4,4,3,8 strides=4,4 pads=0,0,0,0"));
    EXPECT_FALSE(takes(op, "float32 NCHW in=2,6,12,16 filter=1,1,6,8 strides=1,1 pads=0,0,0,0"));
    EXPECT_EQ(takes(op, "float32 NCHW in=2,60,3,10 filter=1,5,60,8 strides=1,5 pads=0,0,0,0"),
              op != "conv2d");
  }
}

TEST(SpaceToDepth, SaysHowTheProductIsComputed) {
  Execution execution;
  execution.algorithm = "space-to-depth";
  const Problem windows =
      Layer("conv2d_backprop_input",
            "float32 NCHW in=4,3,64,64 filter=8,8,3,96 strides=8,8 pads=0,0,0,0");
  const Problem product =
      Layer("conv2d_backprop_input",
            "float32 NCHW in=4,192,8,8 filter=1,1,192,96 strides=1,1 pads=0,0,0,0");
  const auto of_product = PlanRun(product, {});
  EXPECT_EQ(PlanRun(windows, execution).tiles, of_product.algorithm + ": " + of_product.tiles);
}

// Besides what the product needs: the moved input, and for each thread, where the input in NCHW is
// split, the rows of windows that fill 128 pixels, if they are several.
TEST(SpaceToDepth, NeedsTheMovedInputAndNarrowRows) {
  const auto scratch = [](const std::optional<std::string>& algorithm, const std::string& sizes) {
    Execution execution;
    execution.algorithm = algorithm;
    execution.num_threads = 2;
    return PlanRun(Layer("conv2d_backprop_filter", sizes + " pads=0,0,0,0"), execution)
        .scratch_bytes;
  };
  const auto more = [&](const std::string& sizes, const std::string& product_sizes) {
    return scratch("space-to-depth", sizes) - scratch(std::nullopt, product_sizes);
  };
  EXPECT_EQ(more("float32 NCHW in=2,3,32,240 filter=4,4,3,64 strides=4,4",
                 "float32 NCHW in=2,48,8,60 filter=1,1,48,64 strides=1,1"),
            4 * (2 * 3 * 32 * 240 + 2 * 2 * 240));
  EXPECT_EQ(more("float64 NCHW in=2,3,32,260 filter=4,4,3,64 strides=4,4",
                 "float64 NCHW in=2,48,8,65 filter=1,1,48,64 strides=1,1"),
            8 * 2 * 3 * 32 * 260);
  EXPECT_EQ(more("float32 NCHW in=2,3,32,32 filter=32,32,3,64 strides=1,1",
                 "float32 NCHW in=2,3072,1,1 filter=1,1,3072,64 strides=1,1"),
            4 * 2 * 3 * 32 * 32);
}

TEST(SpaceToDepth, ChosenForPatchesAndDenseMapsInPlanes) {
  if (SupportedKernels().front().isa != Isa::kAvx2) {
    GTEST_SKIP() << "the counts are compared on AVX2";
  }
  const auto chosen = [](const std::string& op, const std::string& sizes) {
    return PlanRun(Layer(op, sizes + " pads=0,0,0,0"), {}).algorithm;
  };
  const std::string patches = "float32 NCHW in=1,3,224,224 filter=16,16,3,768 strides=16,16";
  const std::string dense = "float32 NCHW in=32,256,7,7 filter=7,7,256,128 strides=1,1";
  for (const std::string op : {"conv2d_backprop_input", "conv2d_backprop_filter"}) {
    EXPECT_EQ(chosen(op, patches), "space-to-depth") << op;
    EXPECT_EQ(chosen(op, dense), "space-to-depth") << op;
  }
  EXPECT_NE(chosen("conv2d", "float32 NHWC in=8,56,56,96 filter=2,2,96,192 strides=2,2"),
            "space-to-depth");
}

}  // namespace
}  // namespace convgrad::testing
