// One problem, one set of bits: every algorithm on every instruction set, any number of threads and
// both data formats give what the reference gives.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>
#include <span>
#include <string>
#include <utility>

#include "conv/compute.h"
#include "support/algorithm_testing.h"
#include "support/from_environment.h"
#include "support/operands.h"
#include "support/random_problem.h"

namespace convgrad {
namespace {

using testing::Operands;
using testing::RandomOperands;
using testing::Takes;
using testing::Values;

// Index of the first element that differs, or -1.
int64_t FirstDifference(const Tensor& a, const Tensor& b) {
  const int64_t bytes = InfoOf(a.dtype()).bytes;
  for (int64_t i = 0; i < a.num_elements(); ++i) {
    if (std::memcmp(a.data<char>() + i * bytes, b.data<char>() + i * bytes,
                    static_cast<size_t>(bytes)) != 0) {
      return i;
    }
  }
  return -1;
}

Tensor RunReference(const Problem& problem, const Operands& operands) {
  Execution execution;
  execution.num_threads = 1;
  execution.algorithm = "reference";
  return Compute(problem, operands.first, operands.second, execution);
}

void ExpectSameBits(const Tensor& expected, const Tensor& actual, const std::string& what) {
  ASSERT_EQ(expected.shape(), actual.shape()) << what;
  const int64_t at = FirstDifference(expected, actual);
  if (at < 0) return;
  VisitFloat(expected.dtype(), [&](auto tag) {
    using Stored = typename decltype(tag)::Type;
    ADD_FAILURE() << what << ": element " << at << " is " << Widen(actual.data<Stored>()[at])
                  << ", the reference gives " << Widen(expected.data<Stored>()[at]);
  });
}

// The tensor with its axes in the order of the other data format.
Tensor Transposed(const Tensor& tensor, DataFormat from) {
  const Shape& s = tensor.shape();
  const bool nhwc = from == DataFormat::kNHWC;
  const int64_t h = nhwc ? s[1] : s[2], w = nhwc ? s[2] : s[3], c = nhwc ? s[3] : s[1];
  Tensor result(tensor.dtype(), nhwc ? Shape{s[0], c, h, w} : Shape{s[0], h, w, c});
  const int64_t rows = nhwc ? h * w : c, cols = nhwc ? c : h * w;
  const int64_t bytes = InfoOf(tensor.dtype()).bytes;
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    const int64_t image = i / (rows * cols), row = i / cols % rows, col = i % cols;
    std::memcpy(result.mutable_data<char>() + ((image * cols + col) * rows + row) * bytes,
                tensor.data<char>() + i * bytes, static_cast<size_t>(bytes));
  }
  return result;
}

// The same problem in the other data format.
Problem InOtherFormat(const Problem& problem) {
  Problem other = problem;
  other.data_format =
      problem.data_format == DataFormat::kNHWC ? DataFormat::kNCHW : DataFormat::kNHWC;
  return other;
}

Tensor InOtherFormat(const Tensor& tensor, Role role, DataFormat from) {
  return role == Role::kFilter ? tensor : Transposed(tensor, from);
}

Role ResultRole(const Problem& problem) {
  switch (InfoOf(problem.op).direction) {
    case Direction::kForward: return Role::kOutBackprop;
    case Direction::kBackpropInput: return Role::kInput;
    case Direction::kBackpropFilter: return Role::kFilter;
  }
  return Role::kInput;
}

int RunEverywhere(const Problem& problem, const Operands& operands, const Tensor& expected,
                  const std::string& where) {
  int combinations = 0;
  for (const Algorithm& algorithm : AlgorithmsOf(problem.op)) {
    const bool uses_kernels = std::string(algorithm.name) != "reference";
    for (const KernelTable& kernels : SupportedKernels()) {
      if (!uses_kernels && kernels.isa != Isa::kScalar) continue;
      if (!algorithm.can(problem, kernels)) continue;
      for (const int threads : testing::ThreadsOn(kernels.isa, problem)) {
        Execution execution;
        execution.num_threads = threads;
        execution.isa = kernels.isa;
        execution.algorithm = algorithm.name;
        const Tensor actual = Compute(problem, operands.first, operands.second, execution);
        ExpectSameBits(expected, actual,
                       where + " algorithm=" + algorithm.name + " isa=" + NameOf(kernels.isa) +
                           " threads=" + std::to_string(threads));
        ++combinations;
      }
    }
  }
  return combinations;
}

// Everything that may run `problem`, in both data formats, against the reference.
int CheckProblem(const Problem& problem, uint64_t seed, Values values) {
  const std::string where = "seed " + std::to_string(seed) + ": " + problem.ToLine() + "\n  " +
                            ReproLine(problem, "fill:normal") + "\n ";
  const Operands operands = RandomOperands(problem, seed, values);
  const Tensor expected = RunReference(problem, operands);
  int combinations = RunEverywhere(problem, operands, expected, where);

  const Problem other = InOtherFormat(problem);
  const auto& roles = InfoOf(problem.op).operands;
  const Operands turned = {InOtherFormat(operands.first, roles[0], problem.data_format),
                           InOtherFormat(operands.second, roles[1], problem.data_format)};
  combinations += RunEverywhere(other, turned,
                                InOtherFormat(expected, ResultRole(problem), problem.data_format),
                                where + " in the other data format,");
  return combinations;
}

class BitIdentity : public ::testing::TestWithParam<Values> {};

TEST_P(BitIdentity, OfRandomProblems) {
  const uint64_t num_problems = FromEnvironment("CONVGRAD_TEST_PROBLEMS", 300);
  const uint64_t seed = FromEnvironment("CONVGRAD_TEST_SEED", 1);
  RandomProblemOptions options;
  options.relates_sizes = true;
  options.max_terms = static_cast<int64_t>(FromEnvironment("CONVGRAD_TEST_TERMS", 200'000));
  RandomProblems problems(seed, options);
  int combinations = 0;
  for (uint64_t i = 0; i < num_problems && !HasFailure(); ++i) {
    combinations += CheckProblem(problems.Next(), seed + i, GetParam());
  }
  std::printf("%d problems from seed %d, %d combinations of algorithm, target, threads, format\n",
              static_cast<int>(num_problems), static_cast<int>(seed), combinations);
}

// Random small problems rarely reach these: several blocks over taps, over channels and over
// columns, several runs of blocks, long rows, many channels.
struct LongReduction {
  const char* input;
  const char* conv_filter;
  const char* depthwise_filter;
  const char* rest;
};
constexpr LongReduction kLongReductions[] = {
    {"1,6,7,300", "1,1,300,5", "1,1,300,2", "strides=1,1 dilations=1,1 pads=0,0,0,0"},
    {"1,5,5,513", "3,2,513,17", "3,2,513,1", "strides=1,1 dilations=1,1 pads=1,1,0,1"},
    {"2,9,8,40", "3,3,40,270", "3,3,40,7", "strides=1,1 dilations=2,1 pads=1,1,1,1"},
    {"1,6,6,260", "2,2,65,12", "2,2,260,1", "strides=2,1 dilations=1,1 pads=0,1,1,0"},
    {"1,21,22,3", "17,16,3,4", "17,16,3,2", "strides=1,1 dilations=1,1 pads=8,8,8,7"},
    {"1,21,22,2", "1,300,2,3", "3,300,2,5", "strides=1,3 dilations=1,1 pads=1,1,150,150"},
    {"1,4,12,2", "3,9,2,270", "3,9,2,260", "strides=1,1 dilations=1,1 pads=1,1,4,4"},
    {"1,3,600,4", "2,3,4,5", "2,3,4,1", "strides=1,1 dilations=1,1 pads=0,1,1,1"},
    {"3,40,41,3", "3,3,3,8", "3,3,3,8", "strides=1,1 dilations=1,1 pads=1,1,1,1"},
    {"40,9,9,6", "3,3,6,9", "3,3,6,1", "strides=2,2 dilations=1,1 pads=1,1,1,1"},
    {"300,3,3,5", "3,3,5,6", "3,3,5,2", "strides=1,1 dilations=1,1 pads=1,1,1,1"},
};

TEST_P(BitIdentity, OfLongReductions) {
  uint64_t seed = 1000;
  for (const OpInfo& op : AllOps()) {
    for (const LongReduction& shapes : kLongReductions) {
      for (const DType dtype : {DType::kFloat32, DType::kFloat64, DType::kBFloat16}) {
        const std::string line =
            std::string(op.name) + " " + InfoOf(dtype).name + " NHWC in=" + shapes.input +
            " filter=" + (op.depthwise ? shapes.depthwise_filter : shapes.conv_filter) + " " +
            shapes.rest + " padding=EXPLICIT";
        CheckProblem(ParseProblem(line), ++seed, GetParam());
        if (HasFailure()) return;
      }
    }
  }
}

// A depthwise convolution is a grouped one: the same terms in the same tree.
TEST_P(BitIdentity, OfDepthwiseAndGrouped) {
  constexpr std::pair<Op, Op> kPairs[] = {
      {Op::kDepthwiseConv2D, Op::kConv2D},
      {Op::kDepthwiseConv2DBackpropInput, Op::kConv2DBackpropInput},
      {Op::kDepthwiseConv2DBackpropFilter, Op::kConv2DBackpropFilter}};
  for (const auto& [depthwise, grouped] : kPairs) {
    RandomProblemOptions options;
    options.op = depthwise;
    RandomProblems problems(7, options);
    for (uint64_t seed = 0; seed < 20; ++seed) {
      const Problem problem = problems.Next();
      Problem same = problem;
      same.op = grouped;
      const Operands a = RandomOperands(problem, seed, GetParam());
      const Operands b = RandomOperands(same, seed, GetParam());
      const Tensor expected = Compute(problem, a.first, a.second, {});
      const Tensor actual = Compute(same, b.first, b.second, {});
      EXPECT_EQ(std::memcmp(expected.raw(), actual.raw(), static_cast<size_t>(actual.num_bytes())),
                0)
          << ReproLine(problem, "fill:normal");
    }
  }
}

// Checks shapes that an algorithm is made for, and that it takes at least `wanted` of them on the
// best target.
void CheckShapesOf(const char* algorithm, std::span<const char* const> ops,
                   std::span<const char* const> shapes, Values values, int wanted) {
  uint64_t seed = 2000;
  int accepted = 0;
  for (const char* op : ops) {
    for (const char* shape : shapes) {
      for (const DType dtype :
           {DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kBFloat16}) {
        const Problem problem = ParseProblem(std::string(op) + " " + InfoOf(dtype).name + " " +
                                             shape + " padding=EXPLICIT");
        CheckProblem(problem, ++seed, values);
        if (::testing::Test::HasFailure()) return;
        accepted += Takes(algorithm, problem, SupportedKernels().front()) ? 1 : 0;
      }
    }
  }
  EXPECT_GE(accepted, wanted);  // else this tests little
}

constexpr const char* kForwardAndInput[] = {"conv2d", "conv2d_backprop_input"};
constexpr const char* kFilter[] = {"conv2d_backprop_filter"};

// Lanes along images: whole images and bands of them, surplus lanes, several blocks of columns and
// chunks of groups, strides, dilation, taps that no pixel of a class meets.
TEST_P(BitIdentity, OfLanesAlongImages) {
  constexpr const char* kShapes[] = {
      "NHWC in=20,7,6,5 filter=3,3,5,7 strides=1,1 dilations=1,1 pads=1,1,1,1",
      "NHWC in=16,9,9,6 filter=3,4,6,5 strides=2,3 dilations=1,1 pads=1,1,2,0",
      "NHWC in=3,33,9,6 filter=5,3,6,19 strides=1,1 dilations=2,1 pads=4,4,1,1",
      "NHWC in=1,40,140,24 filter=3,3,24,3 strides=1,1 dilations=1,1 pads=1,1,1,1",
      "NHWC in=2,96,20,36 filter=3,3,4,36 strides=2,2 dilations=1,1 pads=1,0,1,0",
      "NHWC in=32,5,5,140 filter=3,3,4,175 strides=1,2 dilations=1,2 pads=1,1,0,0",
      "NHWC in=1,50,13,70 filter=4,4,70,3 strides=3,1 dilations=1,1 pads=2,1,3,0",
      "NHWC in=1,96,13,18 filter=4,4,18,20 strides=3,1 dilations=1,1 pads=2,1,3,0"};
  CheckShapesOf("image-lanes", kForwardAndInput, kShapes, GetParam(), 24);
}

// Lanes along images whose sums slide down the rows, in one direction of two: two to five rows of
// taps, blocks that end anywhere in a row, whole images and bands, several strips and blocks of
// columns, groups, taps that no pixel of a class meets.
TEST_P(BitIdentity, OfSlidingRows) {
  constexpr const char* kShapes[] = {
      "NHWC in=20,7,6,5 filter=3,3,5,1 strides=1,1 dilations=1,1 pads=1,1,1,1",
      "NHWC in=16,30,9,40 filter=5,5,40,1 strides=1,1 dilations=1,1 pads=2,2,2,2",
      "NHWC in=16,30,19,1 filter=5,5,1,40 strides=1,1 dilations=1,1 pads=2,2,2,2",
      "NHWC in=1,70,11,36 filter=4,3,36,1 strides=1,1 dilations=1,1 pads=2,1,1,1",
      "NHWC in=1,60,21,1 filter=4,5,1,36 strides=1,3 dilations=1,1 pads=2,1,1,1",
      "NHWC in=1,20,9,300 filter=2,2,300,1 strides=1,2 dilations=1,1 pads=0,1,1,0",
      "NHWC in=17,13,9,12 filter=3,3,4,3 strides=1,1 dilations=1,1 pads=1,1,1,1",
      "NHWC in=17,13,9,3 filter=3,3,1,12 strides=1,1 dilations=1,1 pads=1,1,1,1",
      "NHWC in=1,40,90,24 filter=3,5,24,1 strides=1,1 dilations=1,2 pads=2,2,8,0",
      "NHWC in=16,9,4,1 filter=2,9,1,31 strides=1,1 dilations=1,1 pads=1,0,4,4"};
  CheckShapesOf("image-lanes", kForwardAndInput, kShapes, GetParam(), 36);
}

// Lanes along inputs: whole panels where they lie, surplus columns, taps apart and side by side
// with columns shared or not, groups, strides, dilation, several runs of blocks.
TEST_P(BitIdentity, OfLanesAlongInputs) {
  constexpr const char* kShapes[] = {
      "NHWC in=3,12,13,70 filter=3,3,70,5 strides=1,1 dilations=1,1 pads=1,1,1,1",
      "NHWC in=2,11,12,64 filter=2,2,64,3 strides=2,1 dilations=1,2 pads=0,1,1,0",
      "NHWC in=4,13,14,40 filter=1,1,40,4 strides=3,2 dilations=1,1 pads=0,2,1,0",
      "NHWC in=2,9,9,96 filter=1,1,48,4 strides=1,1 dilations=1,1 pads=0,0,0,0",
      "NHWC in=2,9,8,16 filter=3,3,4,16 strides=1,1 dilations=1,1 pads=1,1,1,1",
      "NHWC in=5,10,11,11 filter=3,3,11,5 strides=2,1 dilations=1,1 pads=1,0,0,1",
      "NHWC in=2,14,13,10 filter=3,2,10,3 strides=1,1 dilations=2,2 pads=1,1,0,1",
      "NHWC in=3,13,13,17 filter=3,3,17,23 strides=1,1 dilations=1,1 pads=1,1,1,1",
      "NHWC in=3,12,13,20 filter=2,3,20,3 strides=1,3 dilations=1,1 pads=0,0,1,1",
      "NHWC in=20,17,17,9 filter=3,3,9,2 strides=1,1 dilations=1,1 pads=1,1,1,1"};
  CheckShapesOf("joined-input-lanes", kFilter, kShapes, GetParam(), 40);
}

// 1x1 filters on planes: used where they lie, or not for their sizes; bands, groups, many channels.
TEST_P(BitIdentity, OfPlanesAsTheyLie) {
  constexpr const char* kShapes[] = {
      "NCHW in=2,70,16,8 filter=1,1,70,20 strides=1,1 dilations=1,1 pads=0,0,0,0",
      "NCHW in=1,300,12,12 filter=1,1,300,9 strides=1,1 dilations=1,1 pads=0,0,0,0",
      "NCHW in=2,36,8,24 filter=1,1,18,20 strides=1,1 dilations=1,1 pads=0,0,0,0",
      "NCHW in=1,30,56,10 filter=1,1,30,70 strides=1,1 dilations=1,1 pads=0,0,0,0",
      "NCHW in=1,66,32,32 filter=1,1,66,8 strides=1,1 dilations=1,1 pads=0,0,0,0",
      "NCHW in=2,20,9,13 filter=1,1,20,17 strides=1,1 dilations=1,1 pads=0,0,0,0",
      "NCHW in=1,20,16,16 filter=1,1,20,17 strides=1,1 dilations=1,1 pads=1,0,0,0"};
  CheckShapesOf("pixel-lanes", kForwardAndInput, kShapes, GetParam(), 36);
}

// These forms are able to do this and never quick at it: more padding than terms, pairs that are
// not of whole planes, rows of the source beyond any cache.
TEST_P(BitIdentity, OfPlanesOfPadding) {
  constexpr const char* kShapes[] = {
      "NHWC in=2,5,6,7 filter=3,3,7,12 strides=1,1 dilations=2,2 pads=4,4,4,4",
      "NCHW in=2,12,9,8 filter=3,2,6,20 strides=2,1 dilations=1,3 pads=2,3,3,3",
      "NHWC in=1,4,19,24 filter=5,3,24,10 strides=1,3 dilations=1,1 pads=4,4,5,5",
      "NCHW in=2,18,11,7 filter=2,2,18,9 strides=1,2 dilations=1,1 pads=0,1,0,0"};
  CheckShapesOf("pixel-lanes", kForwardAndInput, kShapes, GetParam(), 32);
}

TEST_P(BitIdentity, OfLanesAlongImagesBeyondCaches) {
  constexpr const char* kShapes[] = {
      "NHWC in=1,11,12,260 filter=7,7,260,2 strides=1,1 dilations=1,1 pads=3,3,3,3",
      "NCHW in=2,2,12,13 filter=5,6,2,340 strides=1,1 dilations=2,1 pads=4,4,2,3"};
  CheckShapesOf("image-lanes", kForwardAndInput, kShapes, GetParam(), 16);
}

// It takes this for conv2d's work to fall into several parts: panels longer than the cache, more
// packed filter, staged pixels, sums or results to be rounded than are held at a time, results too
// large for the caches.
// The best target only.
TEST(BitIdentityOfLarge, Conv2D) {
  constexpr const char* kLines[] = {
      "conv2d float32 NHWC in=2,6,6,512 filter=3,3,512,70 strides=1,1 dilations=1,1 pads=1,1,1,1",
      "conv2d_backprop_input float32 NHWC in=2,6,6,70 filter=3,3,70,512 strides=1,1 dilations=1,1 "
      "pads=1,1,1,1",
      "conv2d_backprop_input float64 NHWC in=1,9,9,20 filter=4,4,20,600 strides=2,2 dilations=1,1 "
      "pads=1,1,1,1",
      "conv2d float32 NCHW in=1,2600,2,2 filter=1,1,2600,2600 strides=1,1 dilations=1,1 "
      "pads=0,0,0,0",
      "conv2d float32 NHWC in=1,2,2,2600 filter=1,1,2600,2600 strides=1,1 dilations=1,1 "
      "pads=0,0,0,0",
      "conv2d float32 NHWC in=3,80,80,3 filter=1,2,3,64 strides=1,1 dilations=1,1 pads=0,0,1,0",
      "conv2d_backprop_input float32 NHWC in=3,81,80,64 filter=2,1,32,6 strides=2,1 dilations=1,1 "
      "pads=0,1,0,0",
      "conv2d float32 NCHW in=3,6,80,80 filter=1,1,6,60 strides=1,1 dilations=1,1 pads=0,0,0,0",
      "conv2d bfloat16 NCHW in=8,24,64,64 filter=2,1,24,24 strides=1,1 dilations=1,1 pads=1,0,0,0",
      "conv2d_backprop_input float32 NCHW in=1,20,300,300 filter=2,1,20,12 strides=2,1 "
      "dilations=1,1 "
      "pads=1,1,0,0",
      "conv2d_backprop_filter float32 NHWC in=8,30,30,64 filter=1,1,64,64 strides=1,1 "
      "dilations=1,1 "
      "pads=0,0,0,0",
      "conv2d_backprop_filter float64 NCHW in=8,40,30,30 filter=2,2,40,20 strides=2,2 "
      "dilations=1,1 "
      "pads=1,0,0,1",
      "conv2d_backprop_filter float32 NHWC in=2,3,3,600 filter=3,3,600,600 strides=1,1 "
      "dilations=1,1 "
      "pads=1,1,1,1",
      "conv2d_backprop_filter float32 NHWC in=2,130,130,600 filter=3,3,600,600 strides=128,128 "
      "dilations=1,1 "
      "pads=0,0,0,0",
      "conv2d_backprop_filter float16 NHWC in=2,130,130,600 filter=3,3,600,600 strides=128,128 "
      "dilations=1,1 "
      "pads=0,0,0,0",
      "conv2d_backprop_filter float16 NHWC in=2,3,3,1600 filter=3,3,1600,600 strides=1,1 "
      "dilations=1,1 "
      "pads=0,0,0,0",
      "conv2d_backprop_filter float16 NHWC in=1,3,3,3200 filter=3,3,800,1600 strides=1,1 "
      "dilations=1,1 "
      "pads=0,0,0,0",
      "conv2d_backprop_filter float32 NHWC in=3,40,40,20 filter=3,3,10,256 strides=2,1 "
      "dilations=1,1 "
      "pads=1,1,1,1",
      "conv2d_backprop_filter float32 NCHW in=30,40,31,30 filter=1,1,20,140 strides=2,2 "
      "dilations=1,1 "
      "pads=0,1,1,0",
      "conv2d_backprop_filter bfloat16 NCHW in=3,50,60,61 filter=3,3,25,40 strides=1,2 "
      "dilations=2,1 "
      "pads=2,1,1,1",
      "conv2d_backprop_filter float32 NHWC in=2,300,300,3 filter=3,3,3,8 strides=1,1 dilations=1,1 "
      "pads=1,1,1,1"};
  uint64_t seed = 0;
  for (const char* line : kLines) {
    const Problem problem = ParseProblem(std::string(line) + " padding=EXPLICIT");
    const Operands operands = RandomOperands(problem, ++seed, Values::kOrdinary);
    const Tensor expected = RunReference(problem, operands);
    for (const Algorithm& algorithm : AlgorithmsOf(problem.op)) {
      if (algorithm.name == std::string("reference")) continue;
      if (!algorithm.can(problem, SupportedKernels().front())) continue;
      for (const int threads : {1, 3}) {
        Execution execution;
        execution.num_threads = threads;
        execution.algorithm = algorithm.name;
        ExpectSameBits(expected, Compute(problem, operands.first, operands.second, execution),
                       problem.ToLine() + " algorithm=" + algorithm.name +
                           " threads=" + std::to_string(threads));
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(AllValues, BitIdentity,
                         ::testing::Values(Values::kOrdinary, Values::kSpecial),
                         testing::NameOfValues);

}  // namespace
}  // namespace convgrad
