// The algorithm "direct" of depthwise filter gradients against the reference, bit for bit: more
// channels than a vector has, runs that end inside an image, bands of an image, rows that are cut,
// strides, dilations, multipliers, every type, target and layout.
#include <gtest/gtest.h>

#include <string>

#include "conv/depthwise/filter/cut.h"
#include "support/algorithm_testing.h"

namespace convgrad::testing {
namespace {

// A problem line; not every one has an output.
std::string DrawFilterGradient(Draw& draw) {
  const bool nhwc = draw(0, 2) == 0, wide = draw(0, 5) == 0, many = draw(0, 2) == 0;
  const int64_t channels = draw(1, many ? 9 : 40), batch = many ? draw(16, 70) : draw(1, 6);
  const int64_t h = draw(1, many ? 15 : wide ? 9 : 34), w = wide ? draw(250, 600) : draw(1, 24);
  constexpr const char* kTypes[] = {"float32", "float64", "float16", "bfloat16"};
  return std::string("depthwise_conv2d_backprop_filter ") + kTypes[draw(0, 3)] +
         (nhwc ? " NHWC in=" : " NCHW in=") +
         (nhwc ? ListOf({wide ? 2 : batch, h, w, channels})
               : ListOf({wide ? 2 : batch, channels, h, w})) +
         " filter=" + ListOf({draw(1, 4), draw(0, 1) == 0 ? 3 : draw(1, 9), channels, draw(1, 3)}) +
         " strides=" + ListOf({draw(1, 3), draw(1, 3)}) +
         " dilations=" + ListOf({draw(1, 3), draw(1, 4)}) +
         " pads=" + ListOf({draw(0, 4), draw(0, 4), draw(0, 9), draw(0, 9)}) + " padding=EXPLICIT";
}

class DepthwiseFilter : public ::testing::TestWithParam<Values> {};

TEST_P(DepthwiseFilter, OfRandomProblems) {
  CheckOnRandomProblems("direct", 100, 23, DrawFilterGradient, RandomOperands, GetParam());
}

INSTANTIATE_TEST_SUITE_P(AllValues, DepthwiseFilter,
                         ::testing::Values(Values::kOrdinary, Values::kSpecial), NameOfValues);

// Bands that cover the same rows and columns of an image, but not the same parts of them: rows are
// cut in three, and runs end inside a row.
TEST(DepthwiseFilterOf, RowsThatRunsCut) {
  for (const char* format : {"NCHW in=6,17,5,600", "NHWC in=6,5,600,17"}) {
    const Problem problem =
        ParseProblem(std::string("depthwise_conv2d_backprop_filter float16 ") + format +
                     " filter=3,3,17,1 strides=1,1 dilations=1,1 pads=1,1,1,1 padding=EXPLICIT");
    CheckAlgorithm("direct", problem, RandomOperands(problem, 5, Values::kOrdinary));
  }
}

// Spans of so many blocks are not listed by the plan.
TEST(DepthwiseFilterOf, MoreBlocksThanArePlanned) {
  const Isa isa = SupportedKernels().front().isa;
  for (const char* format : {"NCHW in=1,1,66000,129", "NHWC in=1,66000,129,1"}) {
    const Problem problem =
        ParseProblem(std::string("depthwise_conv2d_backprop_filter float32 ") + format +
                     " filter=3,3,1,1 strides=1,1 dilations=1,1 pads=1,1,1,1 padding=EXPLICIT");
    const DepthwiseFilterCut cut(problem, SupportedKernels().front(), 3);
    ASSERT_TRUE(cut.passes.back().parts.back().spans.empty());
    const Operands operands = RandomOperands(problem, 5, Values::kOrdinary);
    const Tensor expected = RunOn(problem, operands, "block-lanes", isa, 1);
    for (const int threads : {1, 3}) {
      const Tensor actual = RunOn(problem, operands, "direct", isa, threads);
      EXPECT_EQ(std::memcmp(expected.raw(), actual.raw(), static_cast<size_t>(actual.num_bytes())),
                0)
          << problem.ToLine() << " threads=" << threads;
    }
  }
}

// Neighbouring pixels 4 KiB apart, which are not read in place, but for those met once.
TEST(DepthwiseFilterOf, PixelsThatShareSetsOfTheCache) {
  for (const char* operands : {"float32 NHWC in=3,5,9,1024 filter=3,3,1024,1",
                               "float64 NHWC in=3,5,9,512 filter=3,3,512,1"}) {
    for (const char* strides : {"1,1", "2,2", "3,3"}) {
      const Problem problem =
          ParseProblem(std::string("depthwise_conv2d_backprop_filter ") + operands +
                       " strides=" + strides + " dilations=1,1 pads=1,1,1,1 padding=EXPLICIT");
      CheckAlgorithm("direct", problem, RandomOperands(problem, 5, Values::kOrdinary));
    }
  }
}

// Five tasks take two threads as long as six.
TEST(DepthwiseFilterOf, AsManyTasksForEveryThread) {
  const Problem problem = ParseProblem(
      "depthwise_conv2d_backprop_filter float32 NHWC in=8,14,14,640 filter=5,5,640,1 strides=1,1 "
      "dilations=1,1 pads=2,2,2,2 padding=EXPLICIT");
  for (const KernelTable& kernels : SupportedKernels()) {
    for (const int num_threads : {2, 3}) {
      const DepthwiseFilterCut cut(problem, kernels, num_threads);
      EXPECT_EQ(cut.num_units() * cut.portion_parts % num_threads, 0) << NameOf(kernels.isa);
    }
  }
}

// Fewer runs than threads: 42 blocks of four rows, each with sums of its own, all in one pass.
TEST(DepthwiseFilterOf, BlocksForThreadsWithoutARun) {
  const Problem problem = ParseProblem(
      "depthwise_conv2d_backprop_filter float32 NHWC in=3,56,56,128 filter=3,3,128,1 strides=1,1 "
      "dilations=1,1 pads=1,1,1,1 padding=EXPLICIT");
  for (const KernelTable& kernels : SupportedKernels()) {
    const DepthwiseFilterCut one(problem, kernels, 1);
    const auto runs = static_cast<int>(one.num_units() * one.num_runs());
    EXPECT_EQ(DepthwiseFilterCut(problem, kernels, runs).portion_blocks, kRunBlocks);
    const DepthwiseFilterCut more(problem, kernels, runs + 1);
    EXPECT_EQ(more.portion_blocks, 1) << NameOf(kernels.isa);
    EXPECT_EQ(more.num_portions(), 42) << NameOf(kernels.isa);
    EXPECT_EQ(more.passes.size(), 1u) << NameOf(kernels.isa);
    EXPECT_GT(more.num_units() * more.portion_parts, 3 * runs) << NameOf(kernels.isa);
  }
}

// As many sums as operands: 11 x 11 taps.
TEST(DepthwiseFilterOf, NoBlocksWithManySums) {
  const Problem problem = ParseProblem(
      "depthwise_conv2d_backprop_filter float32 NHWC in=3,56,56,16 filter=11,11,16,1 strides=1,1 "
      "dilations=1,1 pads=5,5,5,5 padding=EXPLICIT");
  for (const KernelTable& kernels : SupportedKernels()) {
    EXPECT_EQ(DepthwiseFilterCut(problem, kernels, 8).portion_blocks, kRunBlocks);
  }
}

// Both operands together have 6.4 MB for two images, 9.6 MB for three.
TEST(DepthwiseFilterOf, TensorsThatLeaveTheCachesAreFetchedAhead) {
  const auto fetches = [](const std::string& images, const std::string& filter_and_stride,
                          const KernelTable& kernels, const std::string& type = "float32") {
    const Problem problem = ParseProblem(
        "depthwise_conv2d_backprop_filter " + type + " NHWC in=" + images +
        ",56,56,128 filter=" + filter_and_stride + " dilations=1,1 pads=1,1,1,1 padding=EXPLICIT");
    return DepthwiseFilterCut(problem, kernels, 1).fetches;
  };
  for (const KernelTable& kernels : SupportedKernels()) {
    const bool by_pairs_of_lines = kernels.vector_bytes == 64;
    EXPECT_FALSE(fetches("2", "3,3,128,1 strides=1,1", kernels)) << NameOf(kernels.isa);
    EXPECT_NE(fetches("3", "3,3,128,1 strides=1,1", kernels), by_pairs_of_lines)
        << NameOf(kernels.isa);
    EXPECT_TRUE(fetches("8", "3,3,128,1 strides=1,1", kernels)) << NameOf(kernels.isa);
    EXPECT_NE(fetches("8", "3,3,128,1 strides=2,2", kernels), by_pairs_of_lines)
        << NameOf(kernels.isa);
    EXPECT_TRUE(fetches("3", "5,5,128,1 strides=1,1", kernels)) << NameOf(kernels.isa);
    EXPECT_TRUE(fetches("16", "3,3,128,1 strides=2,2", kernels, "float16")) << NameOf(kernels.isa);
  }
}

// Lines of such pixels meet in one set of the first cache, which matters where the kernel comes
// back for them.
TEST(DepthwiseFilterOf, PixelsOfAPageArePackedUnlessStridesLeaveFewToComeBackFor) {
  const auto in_place = [](const std::string& strides, const KernelTable& kernels) {
    const Problem problem = ParseProblem(
        "depthwise_conv2d_backprop_filter float32 NHWC in=2,14,14,1024 filter=3,3,1024,1 strides=" +
        strides + " dilations=1,1 pads=1,1,1,1 padding=EXPLICIT");
    return DepthwiseFilterCut(problem, kernels, 1).input_in_place;
  };
  for (const KernelTable& kernels : SupportedKernels()) {
    const bool crowds = 4096 % (64 * kernels.vector_bytes) == 0;
    EXPECT_EQ(in_place("1,1", kernels), !crowds) << NameOf(kernels.isa);
    EXPECT_EQ(in_place("2,2", kernels), !crowds || kernels.vector_bytes == 64)
        << NameOf(kernels.isa);
    EXPECT_TRUE(in_place("3,3", kernels)) << NameOf(kernels.isa);
  }
}

// Pixels half as far apart lie in two sets, and from memory, which is read in order, are rather
// lost than copied by filters of three rows.
TEST(DepthwiseFilterOf, PixelsInTwoSetsFromMemoryAreReadInPlace) {
  const auto in_place = [](int64_t images, int64_t channels, int64_t kernel,
                           const KernelTable& kernels) {
    const Problem problem = ParseProblem(
        "depthwise_conv2d_backprop_filter float32 NHWC in=" + ListOf({images, 14, 14, channels}) +
        " filter=" + ListOf({kernel, kernel, channels, 1}) +
        " strides=1,1 dilations=1,1 pads=1,1,1,1 padding=EXPLICIT");
    return DepthwiseFilterCut(problem, kernels, 1).input_in_place;
  };
  for (const KernelTable& kernels : SupportedKernels()) {
    const bool long_vectors = kernels.vector_bytes == 64;
    EXPECT_TRUE(in_place(16, 512, 3, kernels)) << NameOf(kernels.isa);
    EXPECT_EQ(in_place(4, 512, 3, kernels), long_vectors) << NameOf(kernels.isa);
    EXPECT_EQ(in_place(16, 512, 5, kernels), long_vectors) << NameOf(kernels.isa);
    EXPECT_FALSE(in_place(16, 1024, 3, kernels)) << NameOf(kernels.isa);
    EXPECT_EQ(in_place(32, 256, 3, kernels), kernels.vector_bytes >= 32) << NameOf(kernels.isa);
  }
}

// Threads that share pixels of so few channels slow each other down, even where they get unequally
// many runs.
TEST(DepthwiseFilterOf, NoNarrowPartsOfPixelsForTwoThreads) {
  const Problem problem = ParseProblem(
      "depthwise_conv2d_backprop_filter float32 NHWC in=8,56,56,64 filter=3,3,64,2 strides=1,1 "
      "dilations=1,1 pads=1,1,1,1 padding=EXPLICIT");
  for (const KernelTable& kernels : SupportedKernels()) {
    EXPECT_EQ(DepthwiseFilterCut(problem, kernels, 2).chunks.count(), 1) << NameOf(kernels.isa);
  }
}

}  // namespace
}  // namespace convgrad::testing
