// Screening is a short cut: where it says something, it says what going over every element says, to
// the last bit, of data of every kind.
#include "verify/compare/screen.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "conv/compute.h"
#include "support/from_environment.h"
#include "support/operands.h"
#include "support/random_problem.h"

namespace convgrad {
namespace {

using testing::Operands;

// What makes screening hard: numbers that are all alike, sums that cancel, ties, zeros, products
// that leave float32's range.
enum class Kind {
  kUniform,
  kIntegers,
  kOnes,
  kFewZeros,
  kOneSign,
  kHeavyTailed,
  kPowers,
  kTiny,
  kHuge,
  kSpecial,
};
constexpr int kKinds = 10;

double Draw(std::mt19937_64& random, Kind kind, DType dtype) {
  const double number = std::uniform_real_distribution<double>(-1, 1)(random);
  const auto below = [&](uint64_t end) { return static_cast<int>(random() % end); };
  const bool is_short = dtype == DType::kFloat16;
  switch (kind) {
    case Kind::kUniform: return number;
    case Kind::kIntegers: return below(9) - 4;
    case Kind::kOnes: return 1;
    case Kind::kFewZeros: return below(4) == 0 ? number : 0;
    case Kind::kOneSign: return std::fabs(number);
    case Kind::kHeavyTailed: return number * std::exp2(8 * number * (below(3) - 1));
    case Kind::kPowers: return std::ldexp(below(2) == 0 ? 1 : -1, below(is_short ? 10 : 40) - 5);
    case Kind::kTiny: return std::ldexp(number, is_short ? -13 : -70 - below(60));
    case Kind::kHuge: return std::ldexp(number, is_short ? 7 : 61 + below(4));
    case Kind::kSpecial: return testing::DrawValue(random, testing::Values::kSpecial, dtype);
  }
  return 0;
}

Tensor Filled(DType dtype, const Shape& shape, uint64_t seed, Kind kind) {
  Tensor tensor(dtype, shape);
  std::mt19937_64 random(seed);
  VisitFloat(dtype, [&](auto tag) {
    using Stored = typename decltype(tag)::Type;
    Stored* numbers = tensor.mutable_data<Stored>();
    for (int64_t i = 0; i < tensor.num_elements(); ++i) {
      numbers[i] = Narrow<Stored>(Draw(random, kind, dtype));
    }
  });
  return tensor;
}

// Some numbers one unit in the last place farther from zero.
Tensor Nudged(const Tensor& tensor, uint64_t seed) {
  Tensor nudged(tensor.dtype(), tensor.shape());
  std::mt19937_64 random(seed);
  VisitFloat(tensor.dtype(), [&](auto tag) {
    using Stored = typename decltype(tag)::Type;
    const double ulp = std::ldexp(1.0, -InfoOf(tensor.dtype()).fraction_bits);
    for (int64_t i = 0; i < tensor.num_elements(); ++i) {
      const double number = Widen(tensor.data<Stored>()[i]);
      nudged.mutable_data<Stored>()[i] =
          Narrow<Stored>(random() % 16 == 0 ? number * (1 + ulp) : number);
    }
  });
  return nudged;
}

void ExpectSame(const WorstSoFar& a, const WorstSoFar& b) {
  EXPECT_EQ(a.value, b.value);
  EXPECT_EQ(a.element, b.element);
}

// True if it was screened.
bool CheckScreened(const DataQuestion& question, const CompareOptions& options, int num_threads) {
  const Parallel parallel(num_threads);
  const Oracle oracle(question.problem, question.first, question.second, parallel);
  const std::optional<Tally> screened = TallyScreened(question, oracle, options, parallel);
  if (!screened) return false;
  ErrorSink errors(question.actual.shape(), false, false, false);
  const Tally all = TallyByData(question, oracle, options, errors);
  EXPECT_EQ(screened->elements, all.elements);
  EXPECT_EQ(screened->differ, all.differ);
  EXPECT_EQ(screened->nan, all.nan);
  EXPECT_EQ(screened->inf, all.inf);
  EXPECT_EQ(screened->actual.subnormal, all.actual.subnormal);
  EXPECT_EQ(screened->expected.subnormal, all.expected.subnormal);
  EXPECT_EQ(screened->exact_class, all.exact_class);
  EXPECT_EQ(all.suspect.count() + all.fail.count(), 0);
  ExpectSame(screened->bound, all.bound);
  ExpectSame(screened->abs, all.abs);
  ExpectSame(screened->rel, all.rel);
  ExpectSame(screened->ulp, all.ulp);
  EXPECT_EQ(screened->least_seen, all.least_seen);
  EXPECT_EQ(screened->hidden_terms, all.hidden_terms);
  const OddsVerdict odds = OddsByData(question, oracle, all, options, parallel);
  EXPECT_EQ(odds.verdict, Verdict::kPassed);
  EXPECT_EQ(odds.odds, 1);
  EXPECT_FALSE(odds.is_excused);
  return true;
}

TEST(Screen, SaysWhatEveryElementSays) {
  const auto rounds =
      static_cast<int>(FromEnvironment("CONVGRAD_SCREENS", static_cast<uint64_t>(Rounds(300))));
  std::vector<RandomProblems> problems;
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    RandomProblemOptions options;
    options.dtype = dtype;
    options.max_terms = 60'000;
    problems.emplace_back(91, options);
  }
  int screened = 0, of_uniform = 0, uniform = 0;
  for (int i = 0; i < rounds; ++i) {
    const Problem problem = problems[static_cast<size_t>(i) % problems.size()].Next();
    const auto kind = static_cast<Kind>(i % kKinds);
    const auto& roles = InfoOf(problem.op).operands;
    const auto seed = static_cast<uint64_t>(i);
    const Tensor first = Filled(problem.dtype, problem.ShapeOf(roles[0]), 2 * seed, kind);
    const Tensor second = Filled(problem.dtype, problem.ShapeOf(roles[1]), 2 * seed + 1, kind);
    CompareOptions compare;
    constexpr Precision kPrecisions[] = {Precision::kStandard, Precision::kStandard,
                                         Precision::kDouble, Precision::kExact};
    compare.precision = kPrecisions[i / kKinds % 4];
    Execution execution;
    execution.num_threads = 1;
    execution.precision = compare.precision;
    const Tensor actual = Compute(problem, first, second, execution);
    const Tensor other = Nudged(actual, seed);
    const int num_threads = 1 + i % 3;
    SCOPED_TRACE(problem.ToLine() + " kind " + std::to_string(i % kKinds));
    const bool own =
        CheckScreened({problem, first, second, actual, nullptr, false}, compare, num_threads);
    screened += own;
    screened += CheckScreened({problem, first, second, other, nullptr, true}, compare, num_threads);
    screened +=
        CheckScreened({problem, first, second, actual, &other, false}, compare, num_threads);
    if (::testing::Test::HasFailure()) return;
    if (kind != Kind::kUniform || !problem.HasTerms()) continue;
    ++uniform;
    of_uniform += own;
  }
  EXPECT_GT(screened, rounds / 2);
  EXPECT_GT(of_uniform, uniform * 9 / 10);
}

TEST(Screen, TakesNoMoreMemoryThanItMay) {
  const Problem problem = ParseProblem(
      "conv2d float32 NHWC in=2,9,9,8 filter=3,3,8,16 strides=1,1 dilations=1,1 pads=1,1,1,1 "
      "padding=EXPLICIT");
  const Tensor first = Filled(problem.dtype, problem.InputShape(), 1, Kind::kUniform);
  const Tensor second = Filled(problem.dtype, problem.FilterShape(), 2, Kind::kUniform);
  const Tensor actual = Compute(problem, first, second, Execution{});
  const DataQuestion question = {problem, first, second, actual, nullptr, false};
  CompareOptions options;
  EXPECT_TRUE(CheckScreened(question, options, 2));
  for (const int64_t most : {-1, 0, 1000}) {
    options.most_scratch_bytes = most;
    EXPECT_FALSE(CheckScreened(question, options, 2));
  }
}

}  // namespace
}  // namespace convgrad
