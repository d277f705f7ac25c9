// The algorithm "few-pixels" against the reference, bit for bit: all directions, layouts, all
// types and every target; one pixel to as many as it takes, padding, strides, dilations, groups,
// blocks of several taps and parts of one, strips that are not full; how it is cut, and when it is
// chosen.
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "base/checked.h"
#include "conv/conv2d/few/few_pixels_cut.h"
#include "support/algorithm_testing.h"

namespace convgrad::testing {
namespace {

struct Layer {
  int64_t batch, h, w, in_c, out_c;
  int64_t kernel = 1;
  int64_t pad = 0;
};

std::string LineOf(const std::string& op, const std::string& type, const std::string& format,
                   const Layer& layer, int64_t stride = 1, int64_t dilation = 1,
                   int64_t groups = 1) {
  const std::string in = format == "NHWC" ? ListOf({layer.batch, layer.h, layer.w, layer.in_c})
                                          : ListOf({layer.batch, layer.in_c, layer.h, layer.w});
  return op + " " + type + " " + format + " in=" + in +
         " filter=" + ListOf({layer.kernel, layer.kernel, layer.in_c / groups, layer.out_c}) +
         " strides=" + ListOf({stride, stride}) + " dilations=" + ListOf({dilation, dilation}) +
         " pads=" + ListOf({layer.pad, layer.pad, layer.pad, layer.pad}) + " padding=EXPLICIT";
}

Problem ForwardOf(const Layer& layer) {
  return ParseProblem(LineOf("conv2d", "float32", "NHWC", layer));
}
Problem InputGradientOf(const Layer& layer) {
  return ParseProblem(LineOf("conv2d_backprop_input", "float32", "NHWC", layer));
}

std::string DrawFormat(Draw& draw) {
  return draw(0, 1) == 0 ? "NHWC" : "NCHW";
}

std::string DrawData(Draw& draw) {
  const std::string op = draw(0, 1) == 0 ? "conv2d" : "conv2d_backprop_input";
  const int64_t h = draw(1, 4), w = draw(1, 4), kernel = draw(0, 1) == 0 ? 1 : draw(2, 3);
  const int64_t groups = draw(0, 4) == 0 ? draw(2, 3) : 1;
  const int64_t dilation = kernel > 1 && draw(0, 3) == 0 ? 2 : 1;
  const bool long_sums = draw(0, 3) == 0;
  return LineOf(
      op, DrawType(draw), DrawFormat(draw),
      {draw(1, 4), h, w, groups * (long_sums ? draw(250, 600) : draw(1, 70)),
       groups * (draw(0, 3) == 0 ? draw(250, 600) : draw(1, 70)), kernel, dilation * (kernel - 1)},
      draw(0, 3) == 0 ? 2 : 1, dilation, groups);
}

// Forward to one channel or two, or an input gradient to one.
std::string DrawFewChannels(Draw& draw) {
  const bool forward = draw(0, 1) == 0;
  const int64_t channels = draw(0, 3) == 0 ? draw(250, 600) : draw(1, 70);
  return LineOf(forward ? "conv2d" : "conv2d_backprop_input", DrawType(draw), "NHWC",
                {draw(1, 3), draw(7, 14), draw(4, 14), forward ? channels : 1,
                 forward ? draw(1, 2) : channels});
}

std::string DrawFilter(Draw& draw) {
  const int64_t groups = draw(0, 4) == 0 ? draw(2, 3) : 1;
  return LineOf("conv2d_backprop_filter", DrawType(draw), DrawFormat(draw),
                {draw(1, 4), draw(1, 4), draw(1, 4), groups * draw(1, 150), groups * draw(1, 150)},
                1, 1, groups);
}

// The channels of either side, or of both, let pixels crowd.
std::string DrawCrowdedFilter(Draw& draw) {
  const int64_t which = draw(0, 2), groups = draw(0, 2) == 0 ? 2 : 1;
  const auto channels = [&](bool crowd) { return crowd ? 256 * draw(1, 2) : groups * draw(1, 70); };
  return LineOf("conv2d_backprop_filter", DrawType(draw), DrawFormat(draw),
                {draw(1, 4), draw(2, 4), draw(2, 4), channels(which != 0), channels(which != 1)}, 1,
                1, groups);
}

class FewPixelsBits : public ::testing::TestWithParam<Values> {};

TEST_P(FewPixelsBits, OfRandomData) {
  CheckOnRandomProblems("few-pixels", 350, 23, DrawData, RandomOperands, GetParam());
}

TEST_P(FewPixelsBits, OfResultsOfFewChannels) {
  CheckOnRandomProblems("few-pixels", 150, 31, DrawFewChannels, RandomOperands, GetParam());
}

TEST_P(FewPixelsBits, OfRandomFilters) {
  CheckOnRandomProblems("few-pixels", 150, 29, DrawFilter, RandomOperands, GetParam());
  CheckOnRandomProblems("few-pixels", 40, 30, DrawCrowdedFilter, RandomOperands, GetParam());
}

INSTANTIATE_TEST_SUITE_P(AllValues, FewPixelsBits,
                         ::testing::Values(Values::kOrdinary, Values::kSpecial), NameOfValues);

// Strides over padding can leave a result as large as its source, some of whose pixels meet padding
// alone; groups fill no whole vectors.
TEST(FewPixels, OfGroupsWherePixelsMeetPaddingAlone) {
  for (const int64_t channels : {1, 3, 4, 8, 12, 17}) {
    for (const std::string type : {"float16", "bfloat16", "float32", "float64"}) {
      const int64_t groups = 4;
      const Problem problem = ParseProblem(
          "conv2d " + type + " NHWC in=1,8,4,8 filter=" + ListOf({1, 1, 2, groups * channels}) +
          " strides=2,2 dilations=1,1 pads=1,6,1,2 padding=EXPLICIT");
      CheckAlgorithm("few-pixels", problem, RandomOperands(problem, 6, Values::kOrdinary));
    }
  }
}

// The filter has 9 MB, whose lines are fetched ahead.
TEST(FewPixels, BeyondTheCaches) {
  for (const int64_t pixels : {1, 9}) {
    const Problem problem = InputGradientOf({pixels, 1, 1, 1500, 1530});
    for (const KernelTable& kernels : SupportedKernels()) {
      if (kernels.few_rows_f32.run == nullptr) continue;
      EXPECT_TRUE(FewPixelsCut<float>(problem, kernels, 1).fetches);
    }
    CheckAlgorithm("few-pixels", problem, RandomOperands(problem, 5, Values::kOrdinary));
  }
}

// Filter gradients of 15 MB and more: in rows of whole lines, which go around the caches from five
// terms on; in others; of several images in planes, whose sums are read again.
TEST(FewPixels, FilterGradientsAroundTheCaches) {
  const auto check = [](const std::string& format, const Layer& layer) {
    const Problem problem =
        ParseProblem(LineOf("conv2d_backprop_filter", "float32", format, layer));
    CheckAlgorithm("few-pixels", problem, RandomOperands(problem, 9, Values::kSpecial));
  };
  check("NHWC", {1, 2, 3, 1931, 1936});
  check("NCHW", {1, 2, 3, 1931, 1936});
  check("NHWC", {1, 2, 3, 1931, 1941});
  check("NHWC", {4, 1, 1, 1931, 1936});
  check("NCHW", {2, 2, 3, 1931, 1936});
}

TEST(FewPixels, TakesSoManyPixelsAndNoMore) {
  for (const char* op : {"conv2d", "conv2d_backprop_input", "conv2d_backprop_filter"}) {
    const auto can = [&](int64_t batch) {
      const Problem problem = ParseProblem(LineOf(op, "float32", "NHWC", {batch, 4, 4, 8, 8}));
      for (const Algorithm& algorithm : AlgorithmsOf(problem.op)) {
        if (std::string(algorithm.name) == "few-pixels") {
          return algorithm.can(problem, SupportedKernels().front());
        }
      }
      return false;
    };
    const bool has_vectors = SupportedKernels().front().isa != Isa::kScalar;
    EXPECT_EQ(can(4), has_vectors) << op;
    EXPECT_FALSE(can(5)) << op;
  }
}

// One channel of 1x1 filters in NHWC, or two forward; of few terms where the caches hold the
// source.
TEST(FewPixels, TakesResultsOfFewChannels) {
  const bool has_vectors = SupportedKernels().front().isa != Isa::kScalar;
  const auto takes = [](const Problem& problem) { return Takes("few-pixels", problem); };
  const auto nchw = [](const Layer& layer) {
    return ParseProblem(LineOf("conv2d", "float32", "NCHW", layer));
  };
  EXPECT_EQ(takes(ForwardOf({4, 90, 90, 100, 1})), has_vectors);
  EXPECT_EQ(takes(InputGradientOf({4, 90, 90, 1, 100})), has_vectors);
  EXPECT_EQ(takes(ForwardOf({130, 90, 90, 8, 1})), has_vectors);
  EXPECT_FALSE(takes(ForwardOf({130, 90, 90, 7, 1}))) << "over 14 MiB";
  EXPECT_EQ(takes(ForwardOf({20, 90, 90, 32, 2})), has_vectors);
  EXPECT_FALSE(takes(ForwardOf({20, 90, 90, 31, 2}))) << "over 14 MiB";
  EXPECT_EQ(takes(ForwardOf({4, 90, 90, 100, 2})), has_vectors);
  EXPECT_FALSE(takes(ForwardOf({4, 90, 90, 100, 3})));
  EXPECT_FALSE(takes(InputGradientOf({4, 90, 90, 2, 100})));
  EXPECT_FALSE(takes(ForwardOf({4, 90, 90, 100, 1, 3, 1})));
  EXPECT_FALSE(takes(nchw({4, 90, 90, 100, 1})));
  if (SupportedKernels().front().isa != Isa::kAvx2) return;
  EXPECT_EQ(PlanRun(ForwardOf({4, 90, 90, 50, 1}), {}).algorithm, "few-pixels");
  EXPECT_EQ(PlanRun(InputGradientOf({2, 28, 28, 1, 128}), {}).algorithm, "few-pixels");
  EXPECT_EQ(PlanRun(ForwardOf({2, 40, 40, 128, 2}), {}).algorithm, "few-pixels");
}

// Filters as large as the map: 16 bits of them are widened a few terms at a time.
TEST(FewPixels, ChosenForDenseMapsOf16Bits) {
  if (SupportedKernels().front().isa != Isa::kAvx512) GTEST_SKIP() << "no AVX-512";
  for (const std::string type : {"float16", "bfloat16"}) {
    const auto chosen = [&](const std::string& op, const Layer& layer) {
      Execution alone;
      alone.num_threads = 1;  // few channels are one task
      return PlanRun(ParseProblem(LineOf(op, type, "NHWC", layer)), alone).algorithm;
    };
    // Others take pairs where these are quicker.
    if (type == "bfloat16" && SupportedKernels().front().takes_bf16_pairs) continue;
    EXPECT_EQ(chosen("conv2d", {2, 8, 8, 320, 160, 8}), "few-pixels") << type;
    EXPECT_EQ(chosen("conv2d", {1, 13, 13, 101, 32, 13}), "few-pixels") << type;
    EXPECT_NE(chosen("conv2d_backprop_input", {1, 14, 14, 112, 64, 14}), "few-pixels") << type;
    EXPECT_EQ(chosen("conv2d_backprop_filter", {8, 1, 1, 640, 1536}), "few-pixels") << type;
  }
}

// Sums wait in the result where one block of one tap makes them; a copy of the filter is for more
// pixels than transposing tiles have rows.
TEST(FewPixels, CutByPixelsAndTerms) {
  for (const KernelTable& kernels : SupportedKernels()) {
    if (kernels.few_rows_f32.run == nullptr) continue;
    const auto cut = [&](const Problem& problem) {
      return FewPixelsCut<float>(problem, kernels, 1).Tiles();
    };
    EXPECT_EQ(cut(ForwardOf({1, 1, 1, 256, 960})),
              "1 pixels, 1 strips of 960 channels, 16 terms at a time, in place");
    EXPECT_EQ(cut(ForwardOf({1, 1, 1, 257, 960})),
              "1 pixels, 1 strips of 960 channels, 16 terms at a time");
    EXPECT_EQ(cut(ForwardOf({8, 1, 1, 64, 1024})),
              "8 pixels, 2 strips of 512 channels, 16 terms at a time, in place");
    if (kernels.vector_bytes >= 32) {
      EXPECT_EQ(cut(InputGradientOf({1, 1, 1, 2016, 960})),
                "1 pixels, 42 strips of 48 channels, 256 terms at a time");
      EXPECT_EQ(cut(InputGradientOf({20, 1, 1, 1024, 256})),
                "20 pixels, 11 strips of 96 channels, 80 terms at a time, in place");
      const int64_t even = RoundUp(1020 / 10, kernels.few_rows_f32.lanes);
      EXPECT_EQ(
          cut(InputGradientOf({20, 1, 1, 1020, 256})),
          "20 pixels, 10 strips of " + std::to_string(even) + " channels, 64 terms at a time");
    }
    const auto copies = [&](int64_t pixels) {
      return FewPixelsCut<float>(InputGradientOf({pixels, 1, 1, 64, 64}), kernels, 1).copies_filter;
    };
    EXPECT_FALSE(copies(6));
    EXPECT_TRUE(copies(7));
  }
}

std::unique_ptr<Plan> FilterPlanOf(const Layer& layer, const KernelTable& kernels) {
  const Problem problem = ParseProblem(LineOf("conv2d_backprop_filter", "float32", "NHWC", layer));
  for (const Algorithm& algorithm : AlgorithmsOf(problem.op)) {
    if (std::string(algorithm.name) == "few-pixels") return algorithm.plan(problem, kernels, 1);
  }
  return nullptr;
}

// Rows that make 32 KiB of the filter's gradient, 32 at least, and columns of which the first cache
// holds all pixels' output gradients.
TEST(FewPixels, CutsFilterGradientsByRows) {
  for (const KernelTable& kernels : SupportedKernels()) {
    if (kernels.few_rows_f32.run == nullptr) continue;
    const auto tiles = [&](const Layer& layer) { return FilterPlanOf(layer, kernels)->Tiles(); };
    EXPECT_EQ(tiles({4, 1, 1, 96, 480}),
              "4 pixels, 3 parts of 32 input channels, strips of 480 output channels");
    EXPECT_EQ(tiles({1, 8, 8, 1024, 480}),
              "64 pixels, 32 parts of 32 input channels, strips of 64 output channels");
    EXPECT_EQ(tiles({4, 1, 1, 1024, 16}),
              "4 pixels, 2 parts of 512 input channels, strips of 16 output channels");
  }
}

// Pixels crowd if they are more than a set of a cache has lines, and a multiple of 1 KiB apart.
// Their copies are not: out_backprop's are a line further apart, the input's have a task's channels
// alone.
TEST(FewPixels, CopiesPixelsOfFilterGradientsThatCrowd) {
  for (const KernelTable& kernels : SupportedKernels()) {
    if (kernels.few_rows_f32.run == nullptr) continue;
    const auto copied = [&](const Layer& layer) {
      return FilterPlanOf(layer, kernels)->ScratchBytes() / 4;
    };
    EXPECT_EQ(copied({1, 3, 3, 200, 512}), 9 * (512 + 16));
    EXPECT_EQ(copied({1, 3, 3, 512, 400}), 9 * 32);
    EXPECT_EQ(copied({1, 3, 3, 512, 4}), 9 * (512 + 16)) << "a task of all channels";
    EXPECT_EQ(copied({1, 3, 3, 512, 512}), 9 * (512 + 16) + 9 * 32);
    EXPECT_EQ(copied({1, 3, 3, 200, 400}), 0);
    EXPECT_EQ(copied({8, 1, 1, 512, 512}), 0);
  }
}

TEST(FewPixels, FetchesWhatLeavesTheCaches) {
  for (const KernelTable& kernels : SupportedKernels()) {
    if (kernels.few_rows_f32.run == nullptr) continue;
    EXPECT_FALSE(FewPixelsCut<float>(InputGradientOf({1, 1, 1, 1280, 1280}), kernels, 1).fetches);
  }
}

TEST(FewPixels, SharesChannelsAmongThreads) {
  for (const KernelTable& kernels : SupportedKernels()) {
    if (kernels.few_rows_f32.run == nullptr) continue;
    EXPECT_EQ(FewPixelsCut<float>(ForwardOf({1, 1, 1, 512, 1024}), kernels, 4).NumTasks(), 4);
    EXPECT_EQ(FewPixelsCut<float>(ForwardOf({1, 1, 1, 512, 128}), kernels, 4).NumTasks(), 2);
  }
}

TEST(FewPixels, CountsEveryTerm) {
  for (const KernelTable& kernels : SupportedKernels()) {
    if (kernels.few_rows_f32.run == nullptr) continue;
    for (const Problem& problem :
         {ForwardOf({12, 1, 1, 300, 960}), InputGradientOf({12, 1, 1, 960, 300}),
          InputGradientOf({6, 1, 1, 960, 300})}) {
      const Work work = FewPixelsCut<float>(problem, kernels, 1).CountWork();
      const double terms = Product(problem.geometry.batch, 300, 960);
      EXPECT_GE(work.Of(WorkKind::kGemmFma) * kernels.vector_bytes / 4, terms);
      EXPECT_LE(work.Of(WorkKind::kGemmFma) * kernels.vector_bytes / 4, 2 * terms);
    }
  }
}

// All taps but one of a filter around single pixels meet padding alone.
TEST(FewPixels, CountsNothingOfTapsWithoutPixels) {
  for (const KernelTable& kernels : SupportedKernels()) {
    if (kernels.few_rows_f32.run == nullptr) continue;
    for (const std::string op : {"conv2d", "conv2d_backprop_input"}) {
      const auto work_of = [&](const std::string& filter, const std::string& pads) {
        const Problem problem =
            ParseProblem(op + " float32 NHWC in=8,1,1,192 filter=" + filter +
                         ",192,320 strides=1,1 dilations=1,1 pads=" + pads + " padding=EXPLICIT");
        return FewPixelsCut<float>(problem, kernels, 1).CountWork();
      };
      const Work one = work_of("1,1", "0,0,0,0"), around = work_of("5,5", "2,2,2,2");
      for (const WorkKind kind : {WorkKind::kGemmFma, WorkKind::kCall, WorkKind::kTransposed}) {
        EXPECT_LE(around.Of(kind), one.Of(kind)) << op;
      }
    }
  }
}

// One or a few pixels of any channels; not maps that fill large tiles.
TEST(FewPixels, ChosenForFewPixels) {
  const Isa isa = SupportedKernels().front().isa;
  if (isa != Isa::kAvx512 && isa != Isa::kAvx2) GTEST_SKIP() << "coefficients are of x86-64";
  for (const char* op : {"conv2d", "conv2d_backprop_input", "conv2d_backprop_filter"}) {
    const auto chosen = [&](const Layer& layer) {
      return PlanRun(ParseProblem(LineOf(op, "float32", "NHWC", layer)), {}).algorithm;
    };
    EXPECT_EQ(chosen({1, 1, 1, 96, 480}), "few-pixels") << op;
    EXPECT_EQ(chosen({1, 1, 1, 1280, 1000}), "few-pixels") << op;
    EXPECT_EQ(chosen({4, 1, 1, 512, 384}), "few-pixels") << op;
    if (isa == Isa::kAvx512) {
      EXPECT_EQ(chosen({32, 1, 1, 512, 120}), "few-pixels") << op;
    }
    EXPECT_NE(chosen({1, 14, 14, 96, 480}), "few-pixels") << op;
  }
}

}  // namespace
}  // namespace convgrad::testing
