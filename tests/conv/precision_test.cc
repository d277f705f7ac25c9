// The precisions `double` and `exact` over operations, types, layouts, instruction sets and
// threads: their bits, and what they promise.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/checked.h"
#include "conv/compute.h"
#include "support/from_environment.h"
#include "support/operands.h"
#include "support/random_problem.h"
#include "support/special_values.h"
#include "verify/compare/compare.h"

namespace convgrad {
namespace {

using testing::Operands;
using testing::RandomOperands;
using testing::RandomTensor;
using testing::TensorOf;
using testing::Values;

using testing::kInfinity;
constexpr DType kTypes[] = {DType::kFloat16, DType::kBFloat16, DType::kFloat32, DType::kFloat64};

Execution ExecutionAt(Precision precision, int num_threads = 1) {
  Execution execution;
  execution.precision = precision;
  execution.num_threads = num_threads;
  return execution;
}

uint64_t NumProblems() {
  return FromEnvironment("CONVGRAD_TEST_PROBLEMS", 70);
}

bool SameBits(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() &&
         std::memcmp(a.raw(), b.raw(), static_cast<size_t>(a.num_bytes())) == 0;
}

std::vector<double> ValuesOf(const Tensor& tensor) {
  std::vector<double> values;
  VisitFloat(tensor.dtype(), [&](auto tag) {
    const auto* data = tensor.data<typename decltype(tag)::Type>();
    for (int64_t i = 0; i < tensor.num_elements(); ++i) values.push_back(Widen(data[i]));
  });
  return values;
}

// Both operands by draw(random), as many numbers as they have, rounded to the type.
template <class Draw>
Operands DrawnOperands(const Problem& problem, uint64_t seed, Draw draw) {
  std::mt19937_64 random(seed);
  const auto tensor = [&](Role role) {
    std::vector<double> values(static_cast<size_t>(problem.NumElements(role)));
    for (double& value : values) value = draw(random);
    return TensorOf(problem.dtype, problem.ShapeOf(role), values);
  };
  const auto& operands = InfoOf(problem.op).operands;
  Tensor first = tensor(operands[0]);
  return {std::move(first), tensor(operands[1])};
}

// A few numbers decide each sum.
Operands LognormalOperands(const Problem& problem, uint64_t seed) {
  return DrawnOperands(
      problem, seed,
      [normal = std::normal_distribution<double>()](std::mt19937_64& random) mutable {
        return std::exp(6 * normal(random)) * (random() % 2 == 0 ? 1 : -1);
      });
}

// Equal numbers of both signs, but for the last bits: sums that all but vanish.
Operands CancellingOperands(const Problem& problem, uint64_t seed) {
  const double ulp = std::ldexp(1.0, -InfoOf(problem.dtype).fraction_bits);
  return DrawnOperands(problem, seed, [ulp](std::mt19937_64& random) {
    return (1 + static_cast<double>(random() % 3) * ulp) * (random() % 2 == 0 ? 1 : -1);
  });
}

// Small integers: sums of exact ties of the 16-bit types, and of cancellation to zero.
Operands IntegerOperands(const Problem& problem, uint64_t seed) {
  return DrawnOperands(problem, seed, [](std::mt19937_64& random) {
    return static_cast<double>(random() % 41) - 20;
  });
}

// Numbers of all sizes, so that most of a sum cancels or underflows.
Operands WideOperands(const Problem& problem, uint64_t seed) {
  const int range = InfoOf(problem.dtype).max_exponent;
  return DrawnOperands(problem, seed, [&](std::mt19937_64& random) {
    const int exponent = static_cast<int>(random() % static_cast<uint64_t>(2 * range)) - range;
    return std::ldexp(testing::DrawValue(random, Values::kOrdinary, problem.dtype), exponent);
  });
}

// Any finite float, or what it is as a 16-bit number.
Operands AnyBitsOperands(const Problem& problem, uint64_t seed) {
  return DrawnOperands(problem, seed, [](std::mt19937_64& random) {
    const auto number = std::bit_cast<float>(static_cast<uint32_t>(random()));
    return std::isfinite(number) ? static_cast<double>(number) : 1.0;
  });
}

std::vector<Operands> KindsOfOperands(const Problem& problem, uint64_t seed) {
  std::vector<Operands> kinds;
  kinds.push_back(LognormalOperands(problem, seed));
  kinds.push_back(CancellingOperands(problem, seed));
  kinds.push_back(AnyBitsOperands(problem, seed));
  kinds.push_back(RandomOperands(problem, seed, Values::kOrdinary));
  kinds.push_back(RandomOperands(problem, seed, Values::kSpecial));
  kinds.push_back(IntegerOperands(problem, seed));
  kinds.push_back(WideOperands(problem, seed));
  return kinds;
}

// Every algorithm, instruction set and number of threads gives the bits of the reference.
void ExpectOneSetOfBits(const Problem& problem, const Operands& operands, Precision precision) {
  Execution execution = ExecutionAt(precision);
  execution.algorithm = "reference";
  const Tensor expected = Compute(problem, operands.first, operands.second, execution);
  for (const Algorithm& algorithm : AlgorithmsOf(problem.op, precision)) {
    execution.algorithm = algorithm.name;
    for (const KernelTable& kernels : SupportedKernels()) {
      if (!algorithm.can(problem, kernels)) continue;
      for (const int threads : {1, 3}) {
        execution.isa = kernels.isa;
        execution.num_threads = threads;
        const Tensor actual = Compute(problem, operands.first, operands.second, execution);
        if (SameBits(actual, expected)) continue;
        const auto a = ValuesOf(actual), e = ValuesOf(expected);
        for (size_t i = 0; i < a.size(); ++i) {
          ASSERT_TRUE(a[i] == e[i] || (std::isnan(a[i]) && std::isnan(e[i])))
              << algorithm.name << " " << NameOf(kernels.isa) << " " << threads
              << " threads, element " << i << ": " << a[i] << " for " << e[i];
        }
        FAIL() << algorithm.name << ": the sign of a zero or a NaN's bits";
      }
    }
  }
}

class PrecisionTest : public ::testing::TestWithParam<Precision> {};

INSTANTIATE_TEST_SUITE_P(All, PrecisionTest,
                         ::testing::Values(Precision::kDouble, Precision::kExact),
                         [](const auto& row) { return std::string(NameOf(row.param)); });

TEST_P(PrecisionTest, OneSetOfBits) {
  RandomProblemOptions options;
  options.max_terms = 30'000;
  RandomProblems problems(2026, options);
  for (uint64_t i = 0; i < NumProblems(); ++i) {
    const Problem problem = problems.Next();
    SCOPED_TRACE(ReproLine(problem) + " --precision " + NameOf(GetParam()));
    for (const Operands& operands : KindsOfOperands(problem, i)) {
      ExpectOneSetOfBits(problem, operands, GetParam());
      if (HasFatalFailure()) return;
    }
  }
}

// The promise of the error holds against the oracle, element by element.
TEST_P(PrecisionTest, KeepsItsPromise) {
  RandomProblemOptions options;
  options.max_terms = 30'000;
  options.allow_empty = false;
  RandomProblems problems(77, options);
  const Parallel parallel(2);
  for (uint64_t i = 0; i < NumProblems(); ++i) {
    const Problem problem = problems.Next();
    SCOPED_TRACE(ReproLine(problem) + " --precision " + NameOf(GetParam()));
    for (const Operands& operands : KindsOfOperands(problem, i)) {
      const Tensor actual =
          Compute(problem, operands.first, operands.second, ExecutionAt(GetParam(), 2));
      CompareOptions compare;
      compare.precision = GetParam();
      const CheckResult check =
          CompareToReference(problem, operands.first, operands.second, actual, compare, parallel);
      ASSERT_NE(check.status, Verdict::kFailed) << check.reason;
      if (GetParam() == Precision::kExact) {
        ASSERT_EQ(check.counts.differ, 0);
      }
    }
  }
}

// Images of this size are widened one at a time, or some rows at a time, and a filter gradient adds
// up their sums.
TEST_P(PrecisionTest, ImagesBySlabs) {
  const bool is_exact = GetParam() == Precision::kExact;
  for (const auto& [line, slabs] :
       {std::pair("depthwise_conv2d_backprop_filter float32 NHWC in=2,2896,1448,2 filter=3,3,2,1 "
                  "strides=64,64 dilations=1,1 pads=0,0,0,0 padding=VALID",
                  is_exact ? "of 46 rows" : "1 of 2 images"),
        std::pair("depthwise_conv2d bfloat16 NCHW in=2,2,2896,1448 filter=3,3,2,1 strides=64,64 "
                  "dilations=1,1 pads=0,0,0,0 padding=VALID",
                  "1 of 2 images")}) {
    const Problem problem = ParseProblem(line);
    const Operands operands = RandomOperands(problem, 4, Values::kOrdinary);
    EXPECT_THAT(PlanRun(problem, ExecutionAt(GetParam())).tiles, ::testing::HasSubstr(slabs));
    const Tensor actual =
        Compute(problem, operands.first, operands.second, ExecutionAt(GetParam(), 2));
    CompareOptions compare;
    compare.precision = GetParam();
    const CheckResult check =
        CompareToReference(problem, operands.first, operands.second, actual, compare, Parallel(2));
    EXPECT_EQ(check.status, Verdict::kPassed) << check.reason;
    EXPECT_TRUE(!is_exact || check.counts.differ == 0);
  }
}

// Images so large that rows of them are taken at a time, by windows of every kind.
TEST(ExactTest, BandsOfRows) {
  std::mt19937_64 random(8);
  const auto draw = [&](int64_t least, int64_t most) {
    return least + static_cast<int64_t>(random() % static_cast<uint64_t>(most - least + 1));
  };
  int num_cut = 0;
  const uint64_t count = NumProblems() / 6;
  for (uint64_t i = 0; i < count; ++i) {
    const char* ops[] = {"depthwise_conv2d", "depthwise_conv2d_backprop_input",
                         "depthwise_conv2d_backprop_filter"};
    const int64_t channels = draw(15, 24), stride = draw(1, 3);
    const std::string line = fmt::format(
        "{} {} NHWC in={},{},{},{} filter={},{},{},{} strides={},{} dilations={},{} "
        "pads={},{},{},{} padding=EXPLICIT",
        ops[i % 3], InfoOf(kTypes[draw(0, 2)]).name, draw(1, 2), draw(250, 500), draw(25, 50),
        channels, draw(1, 7), draw(1, 3), channels, draw(1, 2), stride, stride, draw(1, 3), 1,
        draw(0, 4), draw(0, 4), draw(0, 2), draw(0, 2));
    const Problem problem = ParseProblem(line);
    SCOPED_TRACE(line);
    num_cut +=
        PlanRun(problem, ExecutionAt(Precision::kExact)).tiles.find("rows") != std::string::npos;
    const std::vector<Operands> kinds = KindsOfOperands(problem, i);
    const Operands& operands = kinds[i % kinds.size()];
    Execution execution = ExecutionAt(Precision::kExact, 2);
    const Tensor actual = Compute(problem, operands.first, operands.second, execution);
    execution.algorithm = "reference";
    EXPECT_TRUE(SameBits(actual, Compute(problem, operands.first, operands.second, execution)));
  }
  EXPECT_GT(num_cut, static_cast<int>(count / 2));
}

Tensor Transposed(const Tensor& nhwc) {
  const Shape& s = nhwc.shape();
  const std::vector<double> values = ValuesOf(nhwc);
  std::vector<double> turned(values.size());
  for (int64_t n = 0; n < s[0]; ++n) {
    for (int64_t pixel = 0; pixel < s[1] * s[2]; ++pixel) {
      for (int64_t c = 0; c < s[3]; ++c) {
        turned[(n * s[3] + c) * s[1] * s[2] + pixel] = values[(n * s[1] * s[2] + pixel) * s[3] + c];
      }
    }
  }
  return TensorOf(nhwc.dtype(), {s[0], s[3], s[1], s[2]}, turned);
}

TEST_P(PrecisionTest, LayoutChangesNoBit) {
  RandomProblemOptions options;
  options.max_terms = 30'000;
  options.allow_empty = false;
  options.data_format = DataFormat::kNHWC;
  RandomProblems problems(31, options);
  for (uint64_t i = 0; i < 60; ++i) {
    const Problem nhwc = problems.Next();
    SCOPED_TRACE(ReproLine(nhwc) + " --precision " + NameOf(GetParam()));
    const Operands operands = RandomOperands(nhwc, i, Values::kOrdinary);
    Problem nchw = nhwc;
    nchw.data_format = DataFormat::kNCHW;
    const OpInfo& op = InfoOf(nhwc.op);
    const auto in_nchw = [&](const Tensor& tensor, bool is_filter) {
      return is_filter ? tensor : Transposed(tensor);
    };
    const Tensor expected = Compute(nhwc, operands.first, operands.second, ExecutionAt(GetParam()));
    const Tensor actual =
        Compute(nchw, in_nchw(operands.first, op.operands[0] == Role::kFilter),
                in_nchw(operands.second, op.operands[1] == Role::kFilter), ExecutionAt(GetParam()));
    EXPECT_TRUE(SameBits(actual, in_nchw(expected, op.direction == Direction::kBackpropFilter)));
  }
}

// A 1x1 convolution of one pixel: one sum of as many terms as there are channels.
Problem DotProduct(DType dtype, int64_t terms) {
  ConvSpec spec;
  spec.op = Op::kConv2D;
  spec.dtype = dtype;
  spec.input = Shape{1, 1, 1, terms};
  spec.filter = Shape{1, 1, terms, 1};
  return MakeProblem(spec);
}

double Dot(DType dtype, Precision precision, const std::vector<double>& x,
           const std::vector<double>& y) {
  const auto terms = static_cast<int64_t>(x.size());
  const Tensor result = Compute(DotProduct(dtype, terms), TensorOf(dtype, {1, 1, 1, terms}, x),
                                TensorOf(dtype, {1, 1, terms, 1}, y), ExecutionAt(precision));
  return ValuesOf(result).front();
}

// Sums that only exact arithmetic gets right.
TEST(ExactTest, HardSums) {
  const auto exact = [](DType dtype, const std::vector<double>& x, const std::vector<double>& y) {
    return Dot(dtype, Precision::kExact, x, y);
  };
  for (const DType dtype : kTypes) {
    SCOPED_TRACE(InfoOf(dtype).name);
    const double ulp = std::ldexp(1.0, -InfoOf(dtype).fraction_bits);
    const double tiny = std::ldexp(1.0, 1 - InfoOf(dtype).max_exponent);
    EXPECT_EQ(exact(dtype, {1, ulp / 2}, {1, 1}), 1);
    EXPECT_EQ(exact(dtype, {1, ulp / 2, tiny}, {1, 1, tiny}), 1 + ulp);
    EXPECT_EQ(exact(dtype, {1, ulp / 2, -tiny}, {1, 1, tiny}), 1);
    EXPECT_EQ(exact(dtype, {1, ulp, ulp / 2, -tiny}, {1, 1, 1, tiny}), 1 + ulp);
    EXPECT_EQ(exact(dtype, {1, tiny, -1}, {1, 1, 1}), tiny);
    EXPECT_FALSE(std::signbit(exact(dtype, {1, -1}, {1, 1})));
    EXPECT_FALSE(std::signbit(exact(dtype, {-0.0}, {1})));
    EXPECT_TRUE(std::signbit(exact(dtype, {-tiny}, {tiny})));
    const double largest = std::ldexp(2 - ulp, InfoOf(dtype).max_exponent);
    EXPECT_EQ(exact(dtype, {largest, largest, -largest}, {1, 1, 1}), largest);
    EXPECT_EQ(exact(dtype, {largest, 1, -largest}, {largest, 1, largest}), 1);
    EXPECT_EQ(exact(dtype, {largest, largest}, {1, 1}), kInfinity);
    EXPECT_EQ(exact(dtype, {kInfinity, 1}, {1, 1}), kInfinity);
    EXPECT_TRUE(std::isnan(exact(dtype, {kInfinity, -kInfinity}, {1, 1})));
    EXPECT_TRUE(std::isnan(exact(dtype, {kInfinity, 1}, {0, 1})));
  }
  // Products below double's least number that add up to one; a tie of its last bit.
  EXPECT_EQ(exact(DType::kFloat64, {0x1p-600, 0x1p-600}, {0x1p-475, 0x1p-475}), 0x1p-1074);
  EXPECT_EQ(exact(DType::kFloat64, {0x1p-600}, {0x1p-475}), 0);
  EXPECT_EQ(exact(DType::kFloat64, {0x1p-600, 0x1p-1000}, {0x1p-475, 0x1p-1000}), 0x1p-1074);
  EXPECT_EQ(exact(DType::kFloat64, {0x1.8p-537}, {0x1.8p-537}), 0x1p-1073);
}

// The same channels in another order are the same sums.
TEST(ExactTest, OrderOfTermsChangesNoBit) {
  const int64_t channels = 300, pixels = 40;
  for (const DType dtype : kTypes) {
    ConvSpec spec;
    spec.op = Op::kConv2D;
    spec.dtype = dtype;
    spec.input = Shape{1, 1, pixels, channels};
    spec.filter = Shape{1, 1, channels, 3};
    const Problem problem = MakeProblem(spec);
    const Operands operands = WideOperands(problem, 5);
    const Tensor expected =
        Compute(problem, operands.first, operands.second, ExecutionAt(Precision::kExact));
    std::vector<int64_t> order(channels);
    std::iota(order.begin(), order.end(), 0);
    std::mt19937_64 random(3);
    const auto x = ValuesOf(operands.first), w = ValuesOf(operands.second);
    for (int round = 0; round < 5; ++round) {
      std::shuffle(order.begin(), order.end(), random);
      auto mixed_x = x, mixed_w = w;
      for (int64_t c = 0; c < channels; ++c) {
        for (int64_t p = 0; p < pixels; ++p) mixed_x[p * channels + c] = x[p * channels + order[c]];
        for (int64_t o = 0; o < 3; ++o) mixed_w[c * 3 + o] = w[order[c] * 3 + o];
      }
      EXPECT_TRUE(SameBits(expected, Compute(problem, TensorOf(dtype, *spec.input, mixed_x),
                                             TensorOf(dtype, *spec.filter, mixed_w),
                                             ExecutionAt(Precision::kExact))))
          << InfoOf(dtype).name;
    }
  }
}

TEST(PrecisionErrors, AlgorithmOfAnotherPrecision) {
  const Problem problem = DotProduct(DType::kFloat32, 4);
  Execution execution = ExecutionAt(Precision::kExact);
  for (const auto& [name, code] : {std::pair("channel-lanes", "algorithm/refused"),
                                   std::pair("winograd", "algorithm/unknown")}) {
    execution.algorithm = name;
    try {
      PlanRun(problem, execution);
      ADD_FAILURE() << name;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), code);
    }
  }
}

}  // namespace
}  // namespace convgrad
