// The oracle against arithmetic that can't be wrong: 128-bit integers; and its account of
// infinities, NaNs and sums outside double's range.
#include "verify/truth/oracle.h"

#include <gtest/gtest.h>

#include <cmath>
#include <mutex>
#include <vector>

#include "conv/reference/reference.h"
#include "support/operands.h"
#include "support/random_problem.h"
#include "support/special_values.h"

namespace convgrad {
namespace {

using testing::TensorOf;

using testing::kInfinity;
using testing::kNaN;

std::vector<Truth> AllTruths(const Problem& problem, const Tensor& first, const Tensor& second) {
  const Parallel parallel(2);
  const Oracle oracle(problem, first, second, parallel);
  std::vector<Truth> all(
      static_cast<size_t>(Tensor(problem.dtype, problem.ResultShape()).num_elements()));
  std::mutex mutex;
  oracle.ForEachPiece([&](int64_t begin, std::span<const Truth> truths) {
    const std::lock_guard lock(mutex);
    for (size_t i = 0; i < truths.size(); ++i) all[static_cast<size_t>(begin) + i] = truths[i];
  });
  return all;
}

// Numbers of 20 bits over 20 binades, times 2^exponent.
Tensor WideIntegers(const Shape& shape, uint64_t seed, int exponent) {
  Tensor tensor(DType::kFloat64, shape);
  std::mt19937_64 random(seed);
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    const auto integer =
        static_cast<double>(static_cast<int64_t>(random() % (1 << 20)) - (1 << 19));
    const int shift = static_cast<int>(random() % 20) + exponent;
    tensor.mutable_data<double>()[i] = std::ldexp(integer, shift);
  }
  return tensor;
}

__extension__ typedef __int128 Int128;

// Sums in 128 bits of products of at most 80.
struct IntegerSum {
  const double* first;
  const double* second;
  int exponent;  // of both operands together
  Int128 sum = 0;
  Int128 magnitude = 0;
  int64_t terms = 0;
  void Term(int64_t i, int64_t j) {
    const auto x = static_cast<Int128>(std::ldexp(first[i], -exponent / 2));
    const auto y = static_cast<Int128>(std::ldexp(second[j], -exponent / 2));
    sum += x * y;
    magnitude += x * y < 0 ? -x * y : x * y;
    ++terms;
  }
  void EndBlock() {}
  void EndRun() {}
};

void ExpectAgreesWithIntegers(const Problem& problem, uint64_t seed, int exponent) {
  const auto& operands = InfoOf(problem.op).operands;
  const Tensor first = WideIntegers(problem.ShapeOf(operands[0]), seed, exponent / 2);
  const Tensor second = WideIntegers(problem.ShapeOf(operands[1]), seed + 1, exponent / 2);
  const auto truths = AllTruths(problem, first, second);
  const TermWalk walk(problem);
  for (size_t i = 0; i < truths.size(); ++i) {
    IntegerSum exact{first.data<double>(), second.data<double>(), exponent};
    walk.Visit(static_cast<int64_t>(i), exact);
    const Truth& truth = truths[i];
    const int shift = truth.exponent - exponent;
    ASSERT_EQ(std::ldexp(truth.high, shift), static_cast<double>(exact.sum)) << i;
    const auto low =
        static_cast<double>(exact.sum - static_cast<Int128>(std::ldexp(truth.high, shift)));
    const auto magnitude = static_cast<double>(exact.magnitude);
    const double k = static_cast<double>(exact.terms);
    ASSERT_NEAR(std::ldexp(truth.low, shift), low, k * k * 0x1p-106 * magnitude) << i;
    ASSERT_NEAR(std::ldexp(truth.magnitude, shift), magnitude, k * 0x1p-53 * magnitude) << i;
    ASSERT_EQ(truth.terms, exact.terms);
  }
}

TEST(Oracle, AgreesWithIntegerArithmetic) {
  RandomProblemOptions options;
  options.dtype = DType::kFloat64;
  options.max_terms = 20'000;
  RandomProblems problems(71, options);
  for (uint64_t i = 0; i < 100; ++i) {
    const Problem problem = problems.Next();
    SCOPED_TRACE(problem.ToLine());
    ExpectAgreesWithIntegers(problem, i, 0);
    ExpectAgreesWithIntegers(problem, i, 1900);   // squares, products and sums overflow double
    ExpectAgreesWithIntegers(problem, i, -2000);  // and underflow it
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

Truth DotTruth(DType dtype, const std::vector<double>& x, const std::vector<double>& y) {
  const auto terms = static_cast<int64_t>(x.size());
  const Problem problem = DotProduct(dtype, terms);
  return AllTruths(problem, TensorOf(dtype, {1, 1, 1, terms}, x),
                   TensorOf(dtype, {1, 1, terms, 1}, y))[0];
}

TEST(Oracle, ClassifiesSumsThatAreNotFinite) {
  for (const DType dtype : {DType::kFloat16, DType::kBFloat16, DType::kFloat32, DType::kFloat64}) {
    EXPECT_EQ(DotTruth(dtype, {1, kInfinity}, {1, 2}).high, kInfinity);
    EXPECT_EQ(DotTruth(dtype, {1, kInfinity}, {1, -2}).high, -kInfinity);
    EXPECT_TRUE(std::isnan(DotTruth(dtype, {1, kInfinity}, {1, 0}).high));
    EXPECT_TRUE(std::isnan(DotTruth(dtype, {kInfinity, kInfinity}, {1, -1}).high));
    EXPECT_TRUE(std::isnan(DotTruth(dtype, {kNaN, 1}, {0, 1}).high));
    EXPECT_EQ(DotTruth(dtype, {0, 0}, {kInfinity, kNaN}).magnitude, 0);
    const Truth truth = DotTruth(dtype, {3, kInfinity}, {2, 2});
    EXPECT_EQ(std::ldexp(truth.magnitude, truth.exponent), 6);
  }
}

TEST(Oracle, SumsThatOverflowOnTheWayComeBack) {
  const double huge = 1.5e308;
  const Truth truth = DotTruth(DType::kFloat64, {huge, huge, -huge, 1}, {1, 1, 1, 1});
  EXPECT_EQ(std::ldexp(truth.high, truth.exponent), huge);
  const Truth over = DotTruth(DType::kFloat64, {huge, huge}, {1, 1});
  EXPECT_TRUE(std::isfinite(over.high));
  EXPECT_EQ(over.rounded, kInfinity);
}

TEST(Oracle, EmptySumIsZero) {
  const Truth truth = DotTruth(DType::kFloat32, {0, 0}, {1, 2});
  EXPECT_EQ(truth.high, 0);
  EXPECT_EQ(truth.magnitude, 0);
  EXPECT_FALSE(std::signbit(truth.rounded));
}

TEST(Oracle, UnitIsTheLargestPowerOfTwoInEveryProduct) {
  const auto unit = [](DType dtype, const std::vector<double>& x, const std::vector<double>& y) {
    const auto terms = static_cast<int64_t>(x.size());
    const Tensor first = TensorOf(dtype, {1, 1, 1, terms}, x);
    const Tensor second = TensorOf(dtype, {1, 1, terms, 1}, y);
    const Parallel parallel(1);
    return Oracle(DotProduct(dtype, terms), first, second, parallel).unit_exponent();
  };
  EXPECT_EQ(unit(DType::kFloat32, {1, 2, 3}, {4, 8, 12}), 2);
  EXPECT_EQ(unit(DType::kFloat16, {0.5, 3}, {0.25, kInfinity}), -3);
  EXPECT_EQ(unit(DType::kFloat64, {5e-324}, {5e-324}), -2148);
  EXPECT_EQ(unit(DType::kBFloat16, {0, 0}, {1, 1}), 0);
}

// Where no bound on a sum's error says how it rounds.
TEST(Oracle, RoundsTiesAndSubnormalsOnce) {
  for (const DType dtype : {DType::kFloat16, DType::kBFloat16, DType::kFloat32, DType::kFloat64}) {
    SCOPED_TRACE(InfoOf(dtype).name);
    const double ulp = std::ldexp(1.0, -InfoOf(dtype).fraction_bits);
    const double tiny = std::ldexp(1.0, 1 - InfoOf(dtype).max_exponent);
    const auto rounded = [&](const std::vector<double>& x, const std::vector<double>& y) {
      return DotTruth(dtype, x, y).rounded;
    };
    EXPECT_EQ(rounded({1, ulp / 2}, {1, 1}), 1);
    EXPECT_EQ(rounded({1, ulp / 2, tiny}, {1, 1, tiny}), 1 + ulp);
    EXPECT_EQ(rounded({1, ulp, ulp / 2, -tiny}, {1, 1, 1, tiny}), 1 + ulp);
    EXPECT_EQ(rounded({-1, -ulp / 2, -tiny}, {1, 1, tiny}), -1 - ulp);
    const double least = tiny * ulp;
    EXPECT_EQ(rounded({tiny, least, least}, {0.5, 0.5, 0.25}), tiny / 2 + least);
    EXPECT_EQ(rounded({least}, {0.5}), 0);
    EXPECT_EQ(rounded({least, tiny}, {0.5, tiny}), least);
    EXPECT_EQ(rounded({kInfinity}, {1}), kInfinity);
    EXPECT_TRUE(std::isnan(rounded({kNaN}, {1})));
  }
  EXPECT_EQ(DotTruth(DType::kFloat64, {0x1.8p-537}, {0x1.8p-537}).rounded, 0x1p-1073);
}

// One element is asked for, or all: the same.
TEST(Oracle, OneElementIsAsInThePieces) {
  RandomProblemOptions options;
  options.max_terms = 20'000;
  RandomProblems problems(5, options);
  const Parallel parallel(2);
  for (uint64_t i = 0; i < 60; ++i) {
    const Problem problem = problems.Next();
    SCOPED_TRACE(problem.ToLine());
    for (const testing::Values values : {testing::Values::kOrdinary, testing::Values::kSpecial}) {
      const auto operands = testing::RandomOperands(problem, i, values);
      const auto truths = AllTruths(problem, operands.first, operands.second);
      const Oracle oracle(problem, operands.first, operands.second, parallel);
      for (size_t e = 0; e < truths.size(); e += 1 + truths.size() / 50) {
        const Truth one = oracle.At(static_cast<int64_t>(e));
        ASSERT_EQ(one.terms, truths[e].terms) << e;
        ASSERT_EQ(std::isnan(one.high), std::isnan(truths[e].high)) << e;
        ASSERT_TRUE(one.rounded == truths[e].rounded || std::isnan(one.rounded)) << e;
        // A sum beside infinities, which padding has met in the pieces, is scaled there.
        const int shift = truths[e].exponent - one.exponent;
        const double size = one.magnitude;
        ASSERT_NEAR(std::ldexp(truths[e].magnitude, shift), size, 1e-12 * size) << e;
        ASSERT_NEAR(std::ldexp(truths[e].norm, shift), one.norm, 1e-12 * one.norm) << e;
        if (!std::isfinite(one.high)) continue;
        ASSERT_NEAR(std::ldexp(truths[e].high, shift), one.high,
                    1e-28 * size + 1e-15 * std::fabs(one.high))
            << e;
      }
    }
  }
}

}  // namespace
}  // namespace convgrad
