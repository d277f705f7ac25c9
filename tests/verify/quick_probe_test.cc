// The probe before a measurement: right kernels pass in each direction and type, wrong results of
// large problems are seen wherever they are.
#include "verify/probe/quick_probe.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <string>

namespace convgrad {
namespace {

// More terms than are checked one by one, cheap in any direction.
constexpr const char* kConv2D =
    "NHWC in=2,40,41,40 filter=3,3,40,72 strides=1,1 dilations=1,1 pads=1,1,1,1 padding=SAME";
constexpr const char* kDepthwise =
    "NCHW in=4,128,64,64 filter=5,5,128,1 strides=1,1 dilations=1,1 pads=2,2,2,2 padding=SAME";

TEST(QuickProbeTest, LargeProblemsPassInEveryDirectionAndType) {
  for (const OpInfo& op : AllOps()) {
    for (const char* dtype : {"float32", "bfloat16"}) {
      const Problem problem = ParseProblem(std::string(op.name) + " " + dtype + " " +
                                           (op.depthwise ? kDepthwise : kConv2D));
      ASSERT_GT(problem.ValidTerms(), kMaxProbedTerms);
      const CheckResult result = QuickProbe(problem, Execution{}, 1);
      EXPECT_EQ(result.status, Verdict::kPassed) << problem.ToLine() << ": " << result.reason;
      EXPECT_NE(result.reason.find("adjoint identity holds"), std::string::npos) << result.reason;
      EXPECT_GT(result.counts.elements, 60);
    }
  }
}

// One wrong element of hundreds of thousands: too small, NaN, or left as it was.
TEST(QuickProbeTest, OneWrongElementIsSeen) {
  std::mt19937_64 random(5);
  for (const char* op : {"depthwise_conv2d", "depthwise_conv2d_backprop_filter",
                         "depthwise_conv2d_backprop_input"}) {
    const Problem problem = ParseProblem(std::string(op) + " float32 " + kDepthwise);
    for (const float wrong : {0.0f, 1.0f, std::numeric_limits<float>::quiet_NaN()}) {
      const auto compute = [&](const Problem& p, const Tensor& first, const Tensor& second) {
        Tensor result = Compute(p, first, second, Execution{});
        float& element =
            result.mutable_data<float>()[random() % static_cast<uint64_t>(result.num_elements())];
        element = wrong == 1 ? element - 1 : wrong == element ? 7 : wrong;
        return result;
      };
      const CheckResult result = QuickProbe(problem, Execution{}, 1, compute);
      EXPECT_EQ(result.status, Verdict::kFailed) << op << " " << wrong << ": " << result.reason;
    }
  }
}

TEST(QuickProbeTest, SmallProblemsAreProbedWhole) {
  const Problem problem = ParseProblem(
      "conv2d float32 NHWC in=1,9,9,3 filter=3,3,3,5 strides=1,1 dilations=1,1 pads=1,1,1,1 "
      "padding=SAME");
  const CheckResult result = QuickProbe(problem, Execution{}, 1);
  EXPECT_EQ(result.status, Verdict::kPassed);
  EXPECT_EQ(result.counts.elements, 9 * 9 * 5);
}

TEST(QuickProbeTest, WithoutMemoryForAllItSaysSo) {
  const Problem problem = ParseProblem(std::string("conv2d float32 ") + kConv2D);
  Execution execution;
  execution.max_memory_bytes = problem.OperandBytes() + problem.ResultBytes() +
                               PlanRun(problem, execution).scratch_bytes + 1000;
  const CheckResult result = QuickProbe(problem, execution, 1);
  EXPECT_EQ(result.status, Verdict::kPassed);
  EXPECT_NE(result.reason.find("too much memory"), std::string::npos) << result.reason;
  execution.max_memory_bytes -= 2000;
  const CheckResult fewer = QuickProbe(problem, execution, 1);
  EXPECT_EQ(fewer.status, Verdict::kPassed);
  EXPECT_NE(fewer.reason.find("of 2 images only 1"), std::string::npos) << fewer.reason;
  execution.max_memory_bytes = 1000;
  EXPECT_THROW(QuickProbe(problem, execution, 1), Error);
}

}  // namespace
}  // namespace convgrad
