// The algorithm "few-channels" against the reference, bit for bit: planes of one pixel to several
// runs, rows longer than a block, images, few channels on either side, columns that fill no
// vectors, both types and every target; what it takes, its strips, and when it is chosen.
#include <gtest/gtest.h>

#include <string>

#include "conv/conv2d/filter/algorithms.h"
#include "support/algorithm_testing.h"

namespace convgrad::testing {
namespace {

struct PixelLayer {
  int64_t batch, h, w, in_c, out_c;
};

std::string LineOfPixels(const std::string& type, const PixelLayer& layer,
                         const std::string& format = "NHWC", int64_t stride = 1) {
  const bool nhwc = format == "NHWC";
  return "conv2d_backprop_filter " + type + " " + format + " in=" +
         (nhwc ? ListOf({layer.batch, layer.h, layer.w, layer.in_c})
               : ListOf({layer.batch, layer.in_c, layer.h, layer.w})) +
         " filter=" + ListOf({1, 1, layer.in_c, layer.out_c}) +
         " strides=" + ListOf({stride, stride}) + " dilations=1,1 pads=0,0,0,0 padding=VALID";
}

Problem ProblemOfPixels(const PixelLayer& layer) {
  return ParseProblem(LineOfPixels("float32", layer));
}

std::string DrawPixelLayer(Draw& draw) {
  const int64_t kind = draw(0, 3);
  const int64_t batch = kind == 0 ? draw(20, 60) : draw(1, 3);
  const int64_t h = kind == 0 ? draw(1, 9) : kind == 3 ? draw(1, 3) : draw(1, 60);
  const int64_t w = kind == 0 ? draw(1, 9) : kind == 3 ? draw(260, 600) : draw(1, 60);
  const int64_t few = draw(1, 4), many = draw(0, 5) == 0 ? draw(250, 600) : draw(1, 90);
  const bool few_inputs = draw(0, 1) == 0;
  return LineOfPixels(draw(0, 2) == 0 ? "float64" : "float32",
                      {batch, h, w, few_inputs ? few : many, few_inputs ? many : few});
}

class FewChannelsBits : public ::testing::TestWithParam<Values> {};

TEST_P(FewChannelsBits, OfRandomLayers) {
  CheckOnRandomProblems("few-channels", 250, 41, DrawPixelLayer, RandomOperands, GetParam());
}

INSTANTIATE_TEST_SUITE_P(AllValues, FewChannelsBits,
                         ::testing::Values(Values::kOrdinary, Values::kSpecial), NameOfValues);

// 67,200 pixels: 20 runs.
TEST(FewChannels, OfManyRuns) {
  for (const PixelLayer& layer : {PixelLayer{3, 140, 160, 2, 37}, PixelLayer{3, 140, 160, 37, 3}}) {
    const Problem problem = ProblemOfPixels(layer);
    CheckAlgorithm("few-channels", problem, RandomOperands(problem, 7, Values::kOrdinary));
  }
}

TEST(FewChannels, TakesUpToFourChannelsOnEitherSide) {
  const bool has_vectors = SupportedKernels().front().isa != Isa::kScalar;
  const auto takes = [](const Problem& problem) { return Takes("few-channels", problem); };
  EXPECT_EQ(takes(ProblemOfPixels({2, 20, 20, 64, 4})), has_vectors);
  EXPECT_EQ(takes(ProblemOfPixels({2, 20, 20, 4, 64})), has_vectors);
  EXPECT_FALSE(takes(ProblemOfPixels({2, 20, 20, 64, 5})));
  EXPECT_FALSE(takes(ParseProblem(LineOfPixels("float32", {2, 20, 20, 64, 4}, "NCHW"))));
  EXPECT_FALSE(takes(ParseProblem(LineOfPixels("float32", {2, 20, 20, 64, 4}, "NHWC", 2))));
  EXPECT_FALSE(takes(ParseProblem(LineOfPixels("float16", {2, 20, 20, 64, 4}))));
  // 16.6 MB of pixels: one channel's alone are taken from memory.
  EXPECT_FALSE(takes(ProblemOfPixels({4, 125, 125, 64, 2})));
  EXPECT_EQ(takes(ProblemOfPixels({4, 125, 125, 64, 1})), has_vectors);
}

// A run of 16 blocks, or two, for several threads: two strips each, no narrower than four vectors.
TEST(FewChannels, CutsStripsWhereThreadsHaveNoRunEach) {
  for (const KernelTable& kernels : SupportedKernels()) {
    if (kernels.vector_bytes != 32) continue;
    const auto strips = [&](const PixelLayer& layer, int num_threads) {
      return kConv2DFilterFewChannels.plan(ProblemOfPixels(layer), kernels, num_threads)->Tiles();
    };
    EXPECT_EQ(strips({1, 64, 64, 256, 1}, 1), "16 blocks of 1 x 256 channels, strips of 256");
    EXPECT_EQ(strips({1, 64, 64, 256, 1}, 2), "16 blocks of 1 x 256 channels, strips of 64");
    EXPECT_EQ(strips({2, 64, 64, 256, 1}, 2), "32 blocks of 1 x 256 channels, strips of 128");
    EXPECT_EQ(strips({4, 64, 64, 256, 1}, 2), "64 blocks of 1 x 256 channels, strips of 256");
    EXPECT_EQ(strips({1, 64, 64, 3, 60}, 2), "16 blocks of 3 x 60 channels, strips of 32");
  }
}

TEST(FewChannels, CountsEveryTermOfEveryImage) {
  for (const KernelTable& kernels : SupportedKernels()) {
    if (kernels.few_rows_f32.run == nullptr) continue;
    const auto work = [&](int64_t batch) {
      return kConv2DFilterFewChannels.plan(ProblemOfPixels({batch, 64, 64, 64, 4}), kernels, 1)
          ->CountWork();
    };
    const Work once = work(2), twice = work(4);
    const double terms = 2.0 * 64 * 64 * 64 * 4;
    EXPECT_GE(once.Of(WorkKind::kGemmFma) * kernels.vector_bytes / 4, terms);
    EXPECT_LE(once.Of(WorkKind::kGemmFma) * kernels.vector_bytes / 4, 4 * terms);
    for (const WorkKind kind : {WorkKind::kGemmFma, WorkKind::kGemmSingle, WorkKind::kFold,
                                WorkKind::kCall, WorkKind::kTask}) {
      EXPECT_DOUBLE_EQ(twice.Of(kind), 2 * once.Of(kind));
    }
  }
}

// 16 KiB of pixels with 64 channels are 64, with 1,000 four, where 16 are the fewest.
TEST(FewChannels, TakesPartsThatStayInTheFirstCache) {
  for (const KernelTable& kernels : SupportedKernels()) {
    if (kernels.few_rows_f32.run == nullptr) continue;
    const auto calls = [&](int64_t many) {
      const Problem problem = ProblemOfPixels({2, 64, 64, many, 4});
      return kConv2DFilterFewChannels.plan(problem, kernels, 1)->CountWork().Of(WorkKind::kCall);
    };
    EXPECT_EQ(calls(64), 2 * 64 * 64 / 64);
    EXPECT_EQ(calls(1000), 2 * 64 * 64 / 16);
  }
}

// A head of few classes, and what comes from few channels.
TEST(FewChannels, ChosenForFewChannels) {
  const auto chosen = [](const PixelLayer& layer) {
    return PlanRun(ProblemOfPixels(layer), {}).algorithm;
  };
  const Isa isa = SupportedKernels().front().isa;
  if (isa != Isa::kAvx512 && isa != Isa::kAvx2) GTEST_SKIP() << "coefficients are of x86-64";
  EXPECT_EQ(chosen({1, 64, 64, 64, 1}), "few-channels");
  EXPECT_EQ(chosen({4, 28, 28, 21, 4}), "few-channels");
  EXPECT_EQ(chosen({1, 64, 64, 3, 64}), "few-channels");
  EXPECT_EQ(chosen({8, 56, 56, 1, 128}), "few-channels");
}

}  // namespace
}  // namespace convgrad::testing
