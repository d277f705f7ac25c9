// Products of bfloat16 pairs: the bits of the canonical order at the limits of what the instruction
// can do (subnormals count as zero there) and beyond them, and which forms take pairs.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <ostream>
#include <random>
#include <string>
#include <vector>

#include "conv/compute.h"
#include "kernels/kernel_table.h"
#include "support/algorithm_testing.h"
#include "support/forced_run.h"
#include "support/from_environment.h"

namespace convgrad {
namespace {

// Numbers of exponents in [low, high], a few of them zeros of both signs.
Tensor Numbers(const Shape& shape, int low, int high, uint64_t seed) {
  Tensor tensor(DType::kBFloat16, shape);
  std::mt19937_64 random(seed);
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    const uint64_t exponent =
        static_cast<uint64_t>(low + 127) + random() % static_cast<uint64_t>(high - low + 1);
    const uint64_t bits = (random() & 0x807F) | exponent << 7;
    tensor.mutable_data<BFloat16>()[i] = {
        static_cast<uint16_t>(random() % 16 == 0 ? bits & 0x8000 : bits)};
  }
  return tensor;
}

// Exponents of the two operands' numbers, and what they lead to.
struct Exponents {
  const char* name;
  int first_low, first_high, second_low, second_high;
};

std::ostream& operator<<(std::ostream& out, const Exponents& e) {
  return out << e.name;
}

class Pairs : public ::testing::TestWithParam<Exponents> {};

// As if pairs were quicker wherever the processor has them.
KernelTable TakingPairs(KernelTable kernels) {
  kernels.takes_bf16_pairs = kernels.has_bf16_pairs;
  return kernels;
}

Tensor RunOn(const KernelTable& kernels, const Algorithm& algorithm, const Problem& problem,
             const Tensor& first, const Tensor& second, int num_threads) {
  Tensor result(problem.dtype, problem.ResultShape());
  testing::RunForced(algorithm, problem, kernels, first.raw(), second.raw(), result.mutable_raw(),
                     num_threads);
  return result;
}

// With the instruction where there is one, and without it.
void ExpectBitsOfReference(const Problem& problem, const Tensor& first, const Tensor& second) {
  const std::string reference = "reference";
  Execution execution;
  if (testing::RunsTermByTerm(problem)) execution.algorithm = reference;
  const Tensor expected = Compute(problem, first, second, execution);
  for (const Algorithm& algorithm : AlgorithmsOf(problem.op)) {
    if (algorithm.name == reference) continue;
    for (const KernelTable& table : SupportedKernels()) {
      const KernelTable kernels = TakingPairs(table);
      if (!algorithm.can(problem, kernels)) continue;
      if (kernels.isa == Isa::kScalar && SupportedKernels().size() > 1) continue;
      const int num_threads = kernels.has_bf16_pairs ? 3 : 1;
      const Tensor actual = RunOn(kernels, algorithm, problem, first, second, num_threads);
      EXPECT_EQ(std::memcmp(actual.raw(), expected.raw(), static_cast<size_t>(actual.num_bytes())),
                0)
          << problem.ToLine() << " algorithm=" << algorithm.name << " isa=" << NameOf(kernels.isa);
    }
  }
}

// Odd channels, padding, several blocks, groups, both formats.
TEST_P(Pairs, GiveTheBitsOfTheReference) {
  const Exponents e = GetParam();
  for (const Op op : {Op::kConv2D, Op::kConv2DBackpropInput, Op::kConv2DBackpropFilter}) {
    for (const char* sizes : {"in=2,6,7,12 filter=3,3,12,20", "in=1,5,5,33 filter=3,3,33,35",
                              "in=1,4,4,600 filter=1,1,600,18", "in=2,6,6,6 filter=3,3,3,8"}) {
      const Problem problem =
          ParseProblem(std::string(InfoOf(op).name) + " bfloat16 NHWC " + sizes +
                       " strides=1,1 dilations=1,1 pads=1,1,1,1 padding=EXPLICIT");
      const auto& roles = InfoOf(op).operands;
      const Tensor first = Numbers(problem.ShapeOf(roles[0]), e.first_low, e.first_high, 1);
      const Tensor second = Numbers(problem.ShapeOf(roles[1]), e.second_low, e.second_high, 2);
      ExpectBitsOfReference(problem, first, second);
    }
  }
}

// Planes are paired where they lie: few and odd channels, groups, several bands, and padding, which
// takes another way.
TEST_P(Pairs, GiveTheBitsOfTheReferenceForPlanes) {
  const Exponents e = GetParam();
  for (const Op op : {Op::kConv2D, Op::kConv2DBackpropInput}) {
    for (const char* sizes :
         {"in=2,70,9,8 filter=1,1,70,20 strides=1,1 dilations=1,1 pads=0,0,0,0",
          "in=1,300,5,5 filter=1,1,300,33 strides=1,1 dilations=1,1 pads=0,0,0,0",
          "in=2,42,6,7 filter=1,1,21,26 strides=1,1 dilations=1,1 pads=0,0,0,0",
          "in=1,20,60,70 filter=1,1,20,12 strides=1,1 dilations=1,1 pads=0,0,0,0",
          "in=1,130,60,41 filter=1,1,130,12 strides=1,1 dilations=1,1 pads=0,0,0,0",
          "in=2,20,9,8 filter=1,1,20,17 strides=1,1 dilations=1,1 pads=1,0,0,1",
          "in=2,20,9,8 filter=1,1,20,17 strides=2,2 dilations=1,1 pads=0,0,0,0"}) {
      const Problem problem = ParseProblem(std::string(InfoOf(op).name) + " bfloat16 NCHW " +
                                           sizes + " padding=EXPLICIT");
      const auto& roles = InfoOf(op).operands;
      ExpectBitsOfReference(problem,
                            Numbers(problem.ShapeOf(roles[0]), e.first_low, e.first_high, 5),
                            Numbers(problem.ShapeOf(roles[1]), e.second_low, e.second_high, 6));
    }
  }
}

// Lanes along images: whole images and bands, padding, strides, groups, odd channels, several
// blocks, several column blocks.
TEST_P(Pairs, GiveTheBitsOfTheReferenceForFewChannels) {
  const Exponents e = GetParam();
  for (const Op op : {Op::kConv2D, Op::kConv2DBackpropInput}) {
    for (const char* sizes :
         {"in=17,4,9,8 filter=3,3,4,6 strides=1,1 dilations=1,1 pads=1,1,1,1",
          "in=2,2,40,30 filter=5,5,2,2 strides=1,1 dilations=1,1 pads=2,2,2,2",
          "in=3,3,33,31 filter=7,7,3,64 strides=2,2 dilations=1,1 pads=3,2,3,2",
          "in=16,12,6,7 filter=3,3,4,6 strides=1,1 dilations=1,1 pads=1,1,1,1",
          "in=16,5,6,7 filter=3,3,5,7 strides=1,2 dilations=1,1 pads=1,1,1,1"}) {
      Problem problem = ParseProblem(std::string(InfoOf(op).name) + " bfloat16 NCHW " + sizes +
                                     " padding=EXPLICIT");
      for (const DataFormat format : {DataFormat::kNHWC, DataFormat::kNCHW}) {
        problem.data_format = format;
        const auto& roles = InfoOf(op).operands;
        ExpectBitsOfReference(problem,
                              Numbers(problem.ShapeOf(roles[0]), e.first_low, e.first_high, 7),
                              Numbers(problem.ShapeOf(roles[1]), e.second_low, e.second_high, 8));
      }
    }
  }
}

// Output columns are the pairs here: even and odd widths, padding that parts pairs, strides,
// dilation, lone taps, rows of several blocks, groups, several runs, few and odd channels.
TEST_P(Pairs, GiveTheBitsOfTheReferenceForFilterGradients) {
  constexpr const char* kSizes[] = {
      "in=2,7,6,12 filter=3,3,12,20 strides=1,1 dilations=1,1 pads=1,1,1,1",
      "in=3,6,7,70 filter=3,3,70,65 strides=1,1 dilations=1,1 pads=1,1,1,1",
      "in=2,9,10,24 filter=3,3,24,40 strides=2,2 dilations=1,1 pads=0,1,0,1",
      "in=2,9,13,24 filter=3,4,24,40 strides=2,3 dilations=1,2 pads=2,1,4,3",
      "in=2,8,9,10 filter=1,3,10,33 strides=1,1 dilations=1,4 pads=0,0,4,4",
      "in=2,8,8,40 filter=1,1,40,36 strides=1,1 dilations=1,1 pads=0,0,0,0",
      "in=2,7,7,40 filter=1,1,40,36 strides=1,1 dilations=1,1 pads=0,0,0,0",
      "in=2,8,8,40 filter=3,1,40,36 strides=2,1 dilations=1,1 pads=1,1,0,2",
      "in=2,8,9,40 filter=1,1,40,36 strides=2,2 dilations=1,1 pads=0,0,1,0",
      "in=1,5,5,30 filter=1,2,30,30 strides=1,5 dilations=1,7 pads=0,0,5,6",
      "in=1,3,300,30 filter=2,3,30,34 strides=1,1 dilations=1,1 pads=0,1,1,1",
      "in=2,6,6,40 filter=3,3,20,64 strides=1,1 dilations=1,1 pads=1,1,1,1",
      "in=3,90,41,26 filter=1,3,26,34 strides=1,1 dilations=1,1 pads=0,0,1,1",
      "in=2,19,20,3 filter=7,7,3,40 strides=2,2 dilations=1,1 pads=3,2,3,2",
      "in=2,12,13,6 filter=3,3,3,64 strides=1,1 dilations=1,2 pads=1,1,1,1",
      "in=2,9,9,17 filter=3,3,17,23 strides=1,1 dilations=1,1 pads=1,1,1,1",
      "in=2,9,9,20 filter=3,3,20,3 strides=1,1 dilations=1,1 pads=1,1,1,1",
      "in=2,9,1,20 filter=3,1,20,30 strides=1,1 dilations=1,1 pads=1,1,0,0"};
  const Exponents e = GetParam();
  for (const char* sizes : kSizes) {
    Problem problem = ParseProblem(std::string("conv2d_backprop_filter bfloat16 NHWC ") + sizes +
                                   " padding=EXPLICIT");
    for (const DataFormat format : {DataFormat::kNHWC, DataFormat::kNCHW}) {
      problem.data_format = format;
      ExpectBitsOfReference(
          problem, Numbers(problem.ShapeOf(Role::kInput), e.first_low, e.first_high, 3),
          Numbers(problem.ShapeOf(Role::kOutBackprop), e.second_low, e.second_high, 4));
    }
  }
}

TEST(PairsPlans, AreMadeWherePairsAreQuicker) {
  KernelTable kernels = SupportedKernels().front();
  if (!kernels.has_bf16_pairs) GTEST_SKIP() << "this processor does not multiply bfloat16 pairs";
  const Problem problem = ParseProblem(
      "conv2d bfloat16 NHWC in=2,9,9,20 filter=3,3,20,32 strides=1,1 dilations=1,1 pads=1,1,1,1 "
      "padding=EXPLICIT");
  for (const bool quicker : {false, true}) {
    kernels.takes_bf16_pairs = quicker;
    EXPECT_EQ(Planned::Best(problem, kernels, 1).Tiles().ends_with(", in pairs"), quicker);
  }
}

// Results so large that they are written around the caches: of one block and of two, with rows that
// leave tiles unfilled and a panel that is narrower than the others.
TEST(PairsInLargeResults, HaveTheBitsOfOtherTargets) {
  const KernelTable kernels = TakingPairs(SupportedKernels().front());
  if (!kernels.has_bf16_pairs) GTEST_SKIP() << "this processor does not multiply bfloat16 pairs";
  for (const char* sizes : {"NHWC in=1,119,120,16 filter=1,1,16,160 strides=1,1",
                            "NHWC in=1,119,120,260 filter=1,1,260,160 strides=1,1",
                            "NCHW in=2,20,32,60 filter=1,1,20,1152 strides=1,1",
                            "NCHW in=2,260,32,60 filter=1,1,260,1152 strides=1,1"}) {
    const Problem problem = ParseProblem(std::string("conv2d bfloat16 ") + sizes +
                                         " dilations=1,1 pads=0,0,0,0 padding=EXPLICIT");
    const Tensor input = Numbers(problem.ShapeOf(Role::kInput), -8, 3, 9);
    const Tensor filter = Numbers(problem.ShapeOf(Role::kFilter), -8, 3, 10);
    Execution execution;
    const Isa narrow = FindKernels(Isa::kAvx2) != nullptr ? Isa::kAvx2 : Isa::kScalar;
    execution.isa = kSanitized ? Isa::kAvx512 : narrow;
    const Tensor expected = Compute(problem, input, filter, execution);
    const std::string form =
        problem.data_format == DataFormat::kNHWC ? "channel-lanes" : "pixel-lanes";
    const auto algorithm = std::ranges::find(AlgorithmsOf(problem.op), form, &Algorithm::name);
    for (const int threads : {1, 2}) {
      const Tensor actual = RunOn(kernels, *algorithm, problem, input, filter, threads);
      EXPECT_EQ(std::memcmp(actual.raw(), expected.raw(), static_cast<size_t>(actual.num_bytes())),
                0)
          << problem.ToLine() << " threads=" << threads;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Limits, Pairs,
                         ::testing::Values(Exponents{"Ordinary", -8, 3, -8, 3},
                                           Exponents{"LeastThatStayNormal", -56, -40, -56, -40},
                                           Exponents{"SumsBelowNormal", -60, -50, -56, -52},
                                           Exponents{"ProductsBelowNormal", -100, -60, -60, -50},
                                           Exponents{"SubnormalOperand", -127, -120, 0, 20},
                                           Exponents{"LargestInPairs", 50, 59, 50, 58},
                                           Exponents{"LargerThanPairs", 50, 60, 50, 58},
                                           Exponents{"LargeSumsOverflow", 50, 64, 50, 63},
                                           Exponents{"InfiniteOperand", 100, 128, -3, 3}),
                         [](const auto& instance) { return std::string(instance.param.name); });

}  // namespace
}  // namespace convgrad
