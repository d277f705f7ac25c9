// Which algorithm is chosen: of those that count cycles the one that counts fewest, and for layers
// that rules by the number of channels alone served badly, the right one.
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "conv/plan/algorithm.h"
#include "kernels/kernel_table.h"
#include "support/random_problem.h"

namespace convgrad::testing {
namespace {

std::string BestOf(const Problem& problem, const KernelTable& kernels) {
  return BestAlgorithm(problem, kernels).name;
}

TEST(BestAlgorithm, CountsFewestCycles) {
  int counted = 0;
  for (const Op op : {Op::kConv2D, Op::kConv2DBackpropInput, Op::kDepthwiseConv2D,
                      Op::kDepthwiseConv2DBackpropInput}) {
    RandomProblemOptions options;
    options.op = op;
    RandomProblems problems(5, options);
    for (int i = 0; i < 200; ++i) {
      const Problem problem = problems.Next();
      for (const KernelTable& kernels : SupportedKernels()) {
        const Algorithm& best = BestAlgorithm(problem, kernels);
        ASSERT_TRUE(best.can(problem, kernels));
        if (best.cycles == nullptr || !problem.HasTerms()) continue;
        const double least = best.cycles(problem, kernels);
        ASSERT_TRUE(std::isfinite(least) && least > 0) << problem.ToLine();
        for (const Algorithm& other : AlgorithmsOf(op)) {
          if (other.cycles == nullptr || !other.can(problem, kernels)) continue;
          if (other.wins != nullptr && !other.wins(problem, kernels)) continue;
          ASSERT_LE(least, other.cycles(problem, kernels)) << problem.ToLine() << other.name;
          counted += other.name != std::string(best.name) ? 1 : 0;
        }
      }
    }
  }
  EXPECT_GT(counted, 200);
}

TEST(BestAlgorithm, ServesKnownLayers) {
  const KernelTable* kernels = FindKernels(Isa::kAvx512);
  if (kernels == nullptr) GTEST_SKIP() << "the counts tested are of AVX-512";
  struct Layer {
    const char* shapes;
    const char* strides;
    const char* wanted;
  };
  constexpr Layer kLayers[] = {
      {"conv2d float32 NHWC in=8,56,56,64 filter=3,3,64,64 pads=1,1,1,1", "1,1", "channel-lanes"},
      {"conv2d float32 NCHW in=8,64,56,56 filter=3,3,64,64 pads=1,1,1,1", "1,1", "channel-lanes"},
      {"conv2d float32 NCHW in=8,64,56,56 filter=1,1,64,256 pads=0,0,0,0", "1,1", "pixel-lanes"},
      {"conv2d_backprop_input float32 NCHW in=8,64,56,56 filter=1,1,64,256 pads=0,0,0,0", "1,1",
       "pixel-lanes"},
      {"conv2d_backprop_input float32 NCHW in=4,3,224,224 filter=7,7,3,64 pads=3,3,3,3", "2,2",
       "image-lanes"},
      {"conv2d float32 NHWC in=16,28,28,1 filter=5,5,1,32 pads=2,2,2,2", "1,1", "channel-lanes"},
      {"conv2d_backprop_input float32 NHWC in=16,28,28,1 filter=5,5,1,32 pads=2,2,2,2", "1,1",
       "image-lanes"},
      {"conv2d_backprop_input float32 NCHW in=2,3,38,38 filter=1,1,3,249 pads=0,0,0,0", "1,1",
       "pixel-lanes"},
      {"conv2d float32 NHWC in=4,7,7,1024 filter=3,3,32,1024 pads=1,1,1,1", "1,1", "channel-lanes"},
      {"conv2d float32 NHWC in=4,56,56,128 filter=3,3,4,128 pads=1,1,1,1", "1,1", "image-lanes"},
      {"depthwise_conv2d float32 NHWC in=8,56,56,128 filter=3,3,128,1 pads=1,1,1,1", "1,1",
       "direct"},
      {"depthwise_conv2d float32 NHWC in=16,112,112,3 filter=3,3,3,8 pads=1,1,1,1", "1,1",
       "planes"},
      {"depthwise_conv2d float32 NHWC in=8,46,46,3 filter=11,11,3,1 pads=5,5,5,5", "1,1", "planes"},
      {"depthwise_conv2d float32 NCHW in=8,96,112,112 filter=3,3,96,1 pads=1,1,1,1", "2,2",
       "planes"},
      {"depthwise_conv2d_backprop_input float32 NHWC in=8,58,58,9 filter=7,7,9,3 pads=2,2,2,2",
       "3,3", "planes"},
      {"depthwise_conv2d_backprop_input float32 NHWC in=8,112,112,96 filter=3,3,96,1 pads=1,1,1,1",
       "2,2", "direct"},
      {"depthwise_conv2d_backprop_input float32 NCHW in=32,576,14,14 filter=3,3,576,1 pads=1,1,1,1",
       "2,2", "direct"},
      {"conv2d_backprop_filter float32 NHWC in=8,24,24,260 filter=1,1,26,340 pads=0,0,0,0", "1,1",
       "input-lanes"},
      {"conv2d_backprop_filter float32 NHWC in=1,64,64,126 filter=3,3,14,306 pads=1,1,1,1", "1,1",
       "joined-input-lanes"},
      {"conv2d_backprop_filter float32 NHWC in=8,28,28,240 filter=1,1,80,240 pads=0,0,0,0", "1,1",
       "taps-apart"}};
  for (const auto& [shapes, strides, wanted] : kLayers) {
    const Problem problem = ParseProblem(std::string(shapes) + " strides=" + strides +
                                         " dilations=1,1 padding=EXPLICIT");
    EXPECT_EQ(BestOf(problem, *kernels), wanted) << shapes;
  }
}

// Nothing to count.
TEST(BestAlgorithm, ServesProblemsWithoutTerms) {
  for (const char* line :
       {"conv2d float32 NHWC in=0,5,5,4 filter=3,3,2,4 pads=1,1,1,1",
        "conv2d_backprop_input float32 NCHW in=0,4,5,5 filter=3,3,2,4 pads=1,1,1,1"}) {
    const Problem problem =
        ParseProblem(std::string(line) + " strides=1,1 dilations=1,1 padding=EXPLICIT");
    for (const KernelTable& kernels : SupportedKernels()) {
      EXPECT_TRUE(BestAlgorithm(problem, kernels).can(problem, kernels)) << line;
    }
  }
}

}  // namespace
}  // namespace convgrad::testing
