// The diagnosis of goldens that are wrong in other ways than by a kernel's mistake
// (diagnosis_mistakes_test.cc): numbers misread, unwritten or flushed are named; what no one does
// by habit is not.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <random>

#include "support/diagnosis_testing.h"
#include "support/mistaken_kernel.h"
#include "support/random_problem.h"
#include "verify/diagnosis/hypotheses.h"

namespace convgrad::testing {
namespace {

// Numbers of a tensor changed one by one.
template <class Change>
Tensor Changed(const Tensor& tensor, const Change& change) {
  Tensor changed(tensor.dtype(), tensor.shape());
  VisitFloat(tensor.dtype(), [&](auto tag) {
    using Stored = typename decltype(tag)::Type;
    for (int64_t i = 0; i < tensor.num_elements(); ++i) {
      changed.mutable_data<Stored>()[i] =
          Narrow<Stored>(change(i, Widen(tensor.data<Stored>()[i])));
    }
  });
  return changed;
}

// Defects that are nobody's habit: single wrong numbers, noise, other data.
Tensor Spoilt(const Problem& problem, const Operands& operands, const Tensor& right, int kind,
              std::mt19937_64& random) {
  const int64_t size = right.num_elements();
  const int64_t at = static_cast<int64_t>(random() % static_cast<uint64_t>(size));
  std::normal_distribution<double> noise;
  switch (kind) {
    case 0: return Changed(right, [&](int64_t i, double x) { return i == at ? -x + 1 : x; });
    case 1: return Changed(right, [&](int64_t i, double x) { return i == at ? 2 * x + 3 : x; });
    case 2:
      return Changed(right,
                     [&](int64_t i, double x) { return i % 3 == at % 3 ? x + noise(random) : x; });
    case 3:
      return Changed(right, [&](int64_t, double x) { return x * (1 + 0.01 * noise(random)); });
    case 4: return Changed(right, [&](int64_t, double) { return noise(random); });
    case 5: return Changed(right, [&](int64_t, double x) { return x * 1.003; });
    case 6: {
      Operands other = operands;
      // In no step with the channels, where it would be a bias.
      other.first =
          Changed(other.first, [&](int64_t, double x) { return random() % 5 == 0 ? x + 1 : x; });
      return MakeMistake(problem, other, Mistake(problem));
    }
    default: return Changed(right, [&](int64_t i, double x) { return i < at ? x : x + 1; });
  }
}

// Words about a golden can be said to the maker of a result, whatever the mistake.
TEST(Diagnosis, SpeaksToTheMakerOfAResult) {
  RandomProblems problems(20261123, {});
  int64_t told = 0;
  for (int i = 0; i < 200; ++i) {
    for (const Hypothesis& hypothesis : AllHypotheses(problems.Next())) {
      std::string sentence = ToItsMaker(hypothesis.sentence);
      const size_t flag = sentence.find("--golden-accumulator");
      if (flag != std::string::npos) sentence.erase(flag, 20);
      EXPECT_EQ(sentence.find("golden"), std::string::npos) << sentence;
      told += sentence.find("your") != std::string::npos;
    }
  }
  EXPECT_GT(told, 1000);
}

TEST(Diagnosis, NamesNothingElse) {
  RandomProblemOptions options;
  options.max_terms = 20'000;
  RandomProblems problems(20261122, options);
  std::mt19937_64 random(7);
  int64_t tried = 0, named = 0;
  for (int i = 0; i < 4 * NumProblems(); ++i) {
    const auto number = static_cast<uint64_t>(i);
    const Problem problem = i % 3 == 2 ? SquareProblem(number / 3) : problems.Next();
    const Operands operands = i % 2 == 0 ? RandomOperands(problem, number, Values::kOrdinary)
                                         : IntegerOperands(problem, number);
    const Tensor right = MakeMistake(problem, operands, Mistake(problem));
    if (right.num_elements() == 0) continue;
    EXPECT_FALSE(Judge(problem, operands, right, WideSums(problem.dtype)).diagnosis)
        << problem.ToLine();
    const int kind = i % 8;
    const Tensor golden = Spoilt(problem, operands, right, kind, random);
    const Outcome outcome = Judge(problem, operands, golden, WideSums(problem.dtype));
    if (outcome.verdict != Verdict::kFailed) continue;
    ++tried;
    if (!outcome.diagnosis) continue;
    ++named;
    ADD_FAILURE() << outcome.diagnosis->hypothesis << " for spoilt golden " << kind
                  << " of problem " << i << ": " << problem.ToLine();
  }
  std::printf("spoilt goldens: tried %ld, named %ld\n", tried, named);
}

TEST(Diagnosis, KnowsAnotherSummationOrder) {
  const Problem problem = SquareProblem(0);
  const Operands operands = RandomOperands(problem, 1, Values::kOrdinary);
  CompareOptions bits;
  bits.tolerance.kind = Tolerance::Kind::kBits;
  const Tensor golden = MakeMistake(problem, operands, Mistake(problem));
  const Outcome outcome = Judge(problem, operands, golden, bits);
  ASSERT_EQ(outcome.verdict, Verdict::kFailed);
  EXPECT_TRUE(outcome.Names(kRightGolden));
}

// An image with a border of zeros, one pixel wide, in NHWC.
Tensor WithBorder(const Tensor& image) {
  const Shape& from = image.shape();
  Tensor padded(DType::kFloat32, {from[0], from[1] + 2, from[2] + 2, from[3]});
  const int64_t row = from[2] * from[3], padded_row = row + 2 * from[3];
  std::fill_n(padded.mutable_data<float>(), padded.num_elements(), 0.0F);
  for (int64_t i = 0; i < from[0] * from[1]; ++i) {
    const int64_t to = i / from[1] * (from[1] + 2) + i % from[1] + 1;
    std::copy_n(image.data<float>() + i * row, row,
                padded.mutable_data<float>() + to * padded_row + from[3]);
  }
  return padded;
}

// Kernels that multiply padding have NaN where it meets an infinity.
TEST(Diagnosis, KnowsMultipliedPadding) {
  for (const std::string op : {"conv2d", "conv2d_backprop_filter", "depthwise_conv2d",
                               "depthwise_conv2d_backprop_filter"}) {
    const std::string filter = op.starts_with("depthwise") ? "3,3,2,2" : "3,3,2,4";
    const std::string steps = " filter=" + filter + " strides=1,1 dilations=1,1 pads=";
    const Problem problem =
        ParseProblem(op + " float32 NHWC in=2,6,5,2" + steps + "1,1,1,1 padding=SAME");
    const Problem padded =
        ParseProblem(op + " float32 NHWC in=2,8,7,2" + steps + "0,0,0,0 padding=VALID");
    for (const float number : {1.0F, INFINITY, NAN}) {
      Operands operands = RandomOperands(problem, 3, Values::kOrdinary);
      std::fill_n(operands.second.mutable_data<float>(), 4, number);
      const Operands with_border = {WithBorder(operands.first), operands.second};
      const Tensor golden = MakeMistake(padded, with_border, Mistake(padded));
      const Outcome outcome = Judge(problem, operands, golden, WideSums(problem.dtype));
      EXPECT_EQ(outcome.verdict, std::isfinite(number) ? Verdict::kPassed : Verdict::kFailed) << op;
      EXPECT_EQ(outcome.Names("padding-multiplied"), !std::isfinite(number)) << op;
    }
  }
}

// One number everywhere says nothing of what was written.
TEST(Diagnosis, DoesNotTakeAConstantForForgotten) {
  const Problem problem = SquareProblem(0);
  const Operands operands = RandomOperands(problem, 4, Values::kOrdinary);
  const Tensor right = MakeMistake(problem, operands, Mistake(problem));
  const auto names = [&](const Tensor& golden) {
    return Judge(problem, operands, golden, WideSums(problem.dtype)).Names("unwritten-constant");
  };
  EXPECT_FALSE(names(Changed(right, [](int64_t, double) { return 3.0; })));
  EXPECT_TRUE(names(Changed(right, [](int64_t i, double x) { return i < 5 ? x : 3.0; })));
}

TEST(Diagnosis, KnowsNumbersReadInTheWrongType) {
  for (const DType dtype : kDTypes) {
    Problem problem = SquareProblem(4);
    problem.dtype = dtype;
    const Operands operands = RandomOperands(problem, 2, Values::kOrdinary);
    Tensor golden = MakeMistake(problem, operands, Mistake(problem));
    const int64_t bytes = InfoOf(dtype).bytes;
    for (int64_t i = 0; i < golden.num_elements(); ++i) {
      uint8_t* element = golden.mutable_data<uint8_t>() + i * bytes;
      std::reverse(element, element + bytes);
    }
    EXPECT_TRUE(Judge(problem, operands, golden, WideSums(dtype)).Names("byte-swapped"));
  }
}

TEST(Diagnosis, KnowsNumbersOfTheOtherSixteenBitType) {
  for (const DType dtype : {DType::kFloat16, DType::kBFloat16}) {
    Problem problem = SquareProblem(4);
    problem.dtype = dtype;
    const Operands operands = IntegerOperands(problem, 2);
    const Tensor right = MakeMistake(problem, operands, Mistake(problem));
    Tensor misread(dtype, right.shape());
    for (int64_t i = 0; i < right.num_elements(); ++i) {
      misread.mutable_data<uint16_t>()[i] =
          dtype == DType::kFloat16 ? Narrow<BFloat16>(Widen(right.data<Float16>()[i])).bits
                                   : Narrow<Float16>(Widen(right.data<BFloat16>()[i])).bits;
    }
    EXPECT_TRUE(Judge(problem, operands, misread, WideSums(dtype)).Names("other-16-bits"));
  }
}

TEST(Diagnosis, KnowsPartsThatWereNeverWritten) {
  const Problem problem = SquareProblem(0);
  const Operands operands = RandomOperands(problem, 5, Values::kOrdinary);
  const Tensor right = MakeMistake(problem, operands, Mistake(problem));
  const int64_t half = right.num_elements() / 2;
  for (const double blank : {0.0, std::nan("")}) {
    const char* name = blank == 0 ? "unwritten-zeros" : "unwritten-nan";
    const auto judge = [&](const auto& is_blank) {
      const Tensor golden =
          Changed(right, [&](int64_t i, double x) { return is_blank(i) ? blank : x; });
      return Judge(problem, operands, golden, WideSums(problem.dtype)).Names(name);
    };
    EXPECT_TRUE(judge([&](int64_t i) { return i > half; }));
    EXPECT_TRUE(judge([](int64_t i) { return i % 4 == 1; }));
    EXPECT_FALSE(judge([](int64_t i) { return i % 4 == 1 || i == 7; }));
    EXPECT_FALSE(judge([](int64_t i) { return i == 5; }));
  }
}

TEST(Diagnosis, KnowsGoldensOfOtherOperations) {
  ConvSpec spec;
  spec.op = Op::kConv2DBackpropInput;
  spec.filter = Shape{3, 3, 4, 4};
  spec.out_backprop = Shape{2, 8, 8, 4};
  spec.input_sizes = Sizes{{2, 8, 8, 4}};
  const Problem problem = MakeProblem(spec);
  Problem forward = problem;
  forward.op = Op::kConv2D;
  const Operands operands = RandomOperands(problem, 3, Values::kOrdinary);
  const Tensor golden = MakeMistake(forward, {operands.second, operands.first}, Mistake(forward));
  EXPECT_TRUE(Judge(problem, operands, golden, {}).Names("other-operation"));
}

TEST(Diagnosis, KnowsFlushedSubnormals) {
  const Problem problem = SquareProblem(0);
  Operands operands = RandomOperands(problem, 4, Values::kOrdinary);
  operands.first = Changed(operands.first, [](int64_t, double x) { return x * 0x1p-63; });
  operands.second = Changed(operands.second, [](int64_t, double x) { return x * 0x1p-63; });
  Mistake mistake(problem);
  mistake.result = [](double sum) { return std::fabs(sum) < 0x1p-126 ? 0.0 : sum; };
  mistake.sum = [](double sum) { return sum; };
  const Tensor golden = MakeMistake(problem, operands, mistake);
  EXPECT_TRUE(Judge(problem, operands, golden, {}).Names("subnormals-flushed"));
}

}  // namespace
}  // namespace convgrad::testing
