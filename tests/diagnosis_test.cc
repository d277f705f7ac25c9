// The diagnosis of wrong goldens: each usual mistake, made by a kernel of the test's own, must be
// named; what no one makes by mistake must not.
#include "verify/diagnosis.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "conv/compute.h"
#include "mistaken_kernel.h"
#include "operands.h"
#include "random_problem.h"
#include "verify/compare.h"
#include "verify/fill.h"

namespace convgrad {
namespace {

using testing::Index4;
using testing::MakeMistake;
using testing::Mistake;
using testing::Operands;
using testing::RandomOperands;
using testing::Values;

constexpr DType kDTypes[] = {DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kBFloat16};

Operands IntegerOperands(const Problem& problem, uint64_t seed) {
  const auto make = [&](Role role) {
    return MakeFill(ParseFill("integer"), problem.dtype, problem.ShapeOf(role), seed, role,
                    Parallel(1));
  };
  const OpInfo& op = InfoOf(problem.op);
  return {make(op.operands[0]), make(op.operands[1])};
}

CompareOptions WideSums(DType dtype) {
  CompareOptions options;
  options.golden_accumulator = dtype == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
  return options;
}

// The verdict on a golden and, unless it passes, the diagnosis.
struct Outcome {
  Verdict verdict = Verdict::kPassed;
  std::optional<Diagnosis> diagnosis;

  bool Names(const std::string& name) const {
    if (!diagnosis) return false;
    const auto& also = diagnosis->also;
    return diagnosis->hypothesis == name || std::find(also.begin(), also.end(), name) != also.end();
  }
};

Outcome Judge(const Problem& problem, const Operands& operands, const Tensor& golden,
              const CompareOptions& options) {
  const Parallel parallel(1);
  Execution execution;
  execution.num_threads = 1;
  const Tensor actual = Compute(problem, operands.first, operands.second, execution);
  Outcome outcome;
  outcome.verdict =
      CompareToGolden(problem, operands.first, operands.second, actual, golden, options, parallel)
          .status;
  if (outcome.verdict == Verdict::kPassed) return outcome;
  outcome.diagnosis = Diagnose(
      {problem, operands.first, operands.second, actual, golden, options.golden_accumulator},
      parallel);
  return outcome;
}

// --- the mistakes ---

struct Mishap {
  std::string name;  // of the hypothesis that must be named
  // False where the mistake can't be made on this problem.
  std::function<bool(const Problem&, Mistake&)> make;
};

double Truncated(double value, int bits, int least_exponent) {
  if (value == 0 || !std::isfinite(value)) return value;
  const double unit = std::ldexp(1.0, std::max(std::ilogb(value), least_exponent) - bits);
  return std::trunc(value / unit) * unit;
}

// The tensor's number that a layout mix-up brings to `at`: its place in the order of axes `order`.
Index4 Reread(const Index4& at, const Index4& sizes, const std::array<size_t, 4>& ours,
              const std::array<size_t, 4>& order) {
  int64_t element = 0;
  for (const size_t axis : order) element = element * sizes[axis] + at[axis];
  Index4 from{};
  for (size_t k = 4; k-- > 0; element /= sizes[ours[k]]) from[ours[k]] = element % sizes[ours[k]];
  return from;
}

Index4 FilterSizes(const Problem& problem) {
  const Shape shape = problem.FilterShape();
  return {shape[0], shape[1], shape[2], shape[3]};
}

bool SwapPads(const Problem& problem, Mistake& mistake) {
  ConvGeometry& g = mistake.geometry;
  if (problem.padding == Padding::kValid) return false;
  std::swap(g.pad_top, g.pad_bottom);
  std::swap(g.pad_left, g.pad_right);
  return true;
}

bool Transpose(const Problem& problem, Mistake& mistake) {
  if (problem.geometry.kernel_h != problem.geometry.kernel_w) return false;
  mistake.filter = [](Index4 at) { return Index4{at[1], at[0], at[2], at[3]}; };
  return true;
}

bool ReadFilterAs(const Problem& problem, Mistake& mistake, std::array<size_t, 4> order) {
  const Index4 sizes = FilterSizes(problem);
  mistake.filter = [=](Index4 at) { return Reread(at, sizes, {0, 1, 2, 3}, order); };
  return true;
}

bool ReadInputAsOther(const Problem& problem, Mistake& mistake) {
  const ConvGeometry& g = problem.geometry;
  const Index4 sizes = {g.batch, g.in_h, g.in_w, g.in_c};
  const std::array<size_t, 4> nhwc = {0, 1, 2, 3}, nchw = {0, 3, 1, 2};
  const bool is_nhwc = problem.data_format == DataFormat::kNHWC;
  mistake.input = [=](Index4 at) {
    return is_nhwc ? Reread(at, sizes, nhwc, nchw) : Reread(at, sizes, nchw, nhwc);
  };
  return is_nhwc;
}

bool Interleave(const Problem& problem, Mistake& mistake) {
  const int64_t groups = problem.geometry.groups, members = problem.geometry.group_out_c;
  if (groups < 2 || members < 2) return false;
  mistake.output = [=](Index4 at) {
    at[3] = at[3] % members * groups + at[3] / members;
    return at;
  };
  return true;
}

bool ShiftRows(const Problem& problem, Mistake& mistake) {
  const int64_t rows = problem.geometry.in_h;
  mistake.input = [=](Index4 at) {
    at[1] = (at[1] + 1) % rows;
    return at;
  };
  return true;
}

bool IsFilterGradient(const Problem& problem) {
  return InfoOf(problem.op).direction == Direction::kBackpropFilter;
}

bool WeighImage(const Problem& problem, Mistake& mistake, double weight) {
  if (!IsFilterGradient(problem) || problem.geometry.batch < 2) return false;
  const int64_t last = problem.geometry.batch - 1;
  mistake.image_weight = [=](int64_t image) { return image == last ? weight : 1; };
  return true;
}

bool Scale(const Problem&, Mistake& mistake, double factor) {
  mistake.result = [=](double sum) { return factor * sum; };
  return true;
}

bool RoundOperands(const Problem& problem, Mistake& mistake) {
  if (problem.dtype == DType::kFloat32) {
    mistake.operand = [](double value) { return Widen(Narrow<BFloat16>(value)); };
  } else if (problem.dtype == DType::kFloat64) {
    mistake.operand = [](double value) { return Widen(Narrow<float>(value)); };
  } else {
    return false;
  }
  return true;
}

bool SumInBFloat16(const Problem& problem, Mistake& mistake) {
  if (problem.dtype == DType::kFloat64 || problem.dtype == DType::kFloat16) return false;
  mistake.sum = [](double sum) { return Widen(Narrow<BFloat16>(sum)); };
  return true;
}

bool SumInFloat16(const Problem& problem, Mistake& mistake) {
  if (problem.dtype == DType::kFloat64 || problem.dtype == DType::kBFloat16) return false;
  mistake.sum = [](double sum) { return Widen(Narrow<Float16>(sum)); };
  return true;
}

const Mishap kMishaps[] = {
    {"filter-flipped",
     [](const Problem& problem, Mistake& mistake) {
       const ConvGeometry g = problem.geometry;
       mistake.filter = [g](Index4 at) {
         return Index4{g.kernel_h - 1 - at[0], g.kernel_w - 1 - at[1], at[2], at[3]};
       };
       return true;
     }},
    {"taps-transposed", Transpose},
    {"channels-transposed",
     [](const Problem& problem, Mistake& mistake) {
       const Index4 sizes = FilterSizes(problem);
       if (InfoOf(problem.op).depthwise || sizes[2] != sizes[3]) return false;
       mistake.filter = [](Index4 at) { return Index4{at[0], at[1], at[3], at[2]}; };
       return true;
     }},
    {"filter-oihw",
     [](const Problem& problem, Mistake& mistake) {
       return ReadFilterAs(problem, mistake, {3, 2, 0, 1});
     }},
    {"filter-multiplier-order",
     [](const Problem& problem, Mistake& mistake) {
       return InfoOf(problem.op).depthwise && ReadFilterAs(problem, mistake, {0, 1, 3, 2});
     }},
    {"multiplier-order", Interleave},
    {"input-nchw", ReadInputAsOther},
    {"pads-swapped", SwapPads},
    {"padding-ignored",
     [](const Problem&, Mistake& mistake) {
       mistake.geometry.pad_top = mistake.geometry.pad_left = 0;
       return true;
     }},
    {"window-offset",
     [](const Problem&, Mistake& mistake) {
       ++mistake.geometry.pad_top;
       ++mistake.geometry.pad_left;
       return true;
     }},
    {"dilation-ignored",
     [](const Problem&, Mistake& mistake) {
       mistake.geometry.dilation_h = mistake.geometry.dilation_w = 1;
       return true;
     }},
    {"dilations-swapped",
     [](const Problem&, Mistake& mistake) {
       std::swap(mistake.geometry.dilation_h, mistake.geometry.dilation_w);
       return true;
     }},
    {"strides-swapped",
     [](const Problem&, Mistake& mistake) {
       std::swap(mistake.geometry.stride_h, mistake.geometry.stride_w);
       return true;
     }},
    {"shifted", ShiftRows},
    {"image-missing",
     [](const Problem& problem, Mistake& mistake) { return WeighImage(problem, mistake, 0); }},
    {"image-twice",
     [](const Problem& problem, Mistake& mistake) { return WeighImage(problem, mistake, 2); }},
    {"counted-twice",
     [](const Problem& problem, Mistake& mistake) { return Scale(problem, mistake, 2); }},
    {"sign-flipped",
     [](const Problem& problem, Mistake& mistake) { return Scale(problem, mistake, -1); }},
    {"batch-mean",
     [](const Problem& problem, Mistake& mistake) {
       return Scale(problem, mistake, 1 / static_cast<double>(problem.geometry.batch));
     }},
    {"rectified",
     [](const Problem& problem, Mistake& mistake) {
       mistake.result = [](double sum) { return std::max(sum, 0.0); };
       return InfoOf(problem.op).direction == Direction::kForward;
     }},
    {"operands-rounded", RoundOperands},
    {"result-rounded",
     [](const Problem& problem, Mistake& mistake) {
       mistake.result = [](double sum) { return Widen(Narrow<BFloat16>(sum)); };
       return problem.dtype == DType::kFloat32;
     }},
    {"result-truncated",
     [](const Problem& problem, Mistake& mistake) {
       const bool is_half = problem.dtype == DType::kFloat16;
       mistake.result = [=](double sum) {
         return is_half ? Truncated(sum, 10, -14) : Truncated(sum, 7, -126);
       };
       return problem.dtype == DType::kBFloat16 || is_half;
     }},
    {"narrow-sums", SumInBFloat16},
    {"narrow-sums", SumInFloat16},
};

struct Score {
  int64_t tried = 0;       // wrong by the verdict
  int64_t named = 0;       // by this name, or with it among those that explain it as well
  int64_t equivalent = 0;  // by another name only
};

// How many random problems for each mistake; more on a developer's wish.
int NumProblems() {
  const char* number = std::getenv("CONVGRAD_DIAGNOSES");
  return number != nullptr ? std::atoi(number) : 60;
}

// Of equal channels and odd sizes, so that every mistake can be made on some of them.
Problem SquareProblem(uint64_t number) {
  const OpInfo& op = AllOps()[number % AllOps().size()];
  ConvSpec spec;
  spec.op = op.depthwise ? Op::kDepthwiseConv2D : Op::kConv2D;
  spec.dtype = kDTypes[number / AllOps().size() % std::size(kDTypes)];
  spec.input = Shape{3, 8, 8, 4};
  spec.filter = Shape{3, 3, 4, op.depthwise ? 2 : 4};
  spec.strides = {2, 1};
  Problem problem = MakeProblem(spec);
  problem.op = op.op;
  return problem;
}

Score TryMishap(const Mishap& mishap, int num_problems, uint64_t seed) {
  RandomProblemOptions options;
  options.max_terms = 20'000;
  options.allow_empty = false;
  RandomProblems problems(seed, options);
  Score score;
  for (int i = 0; i < num_problems; ++i) {
    const auto number = static_cast<uint64_t>(i);
    const Problem problem = i % 3 == 2 ? SquareProblem(number / 3) : problems.Next();
    // Where a handful of numbers is all there is, nothing is certain.
    if (problem.ResultBytes() / InfoOf(problem.dtype).bytes < 24) continue;
    Mistake mistake(problem);
    if (!mishap.make(problem, mistake)) continue;
    const auto operands_seed = static_cast<uint64_t>(i);
    const Operands operands = i % 2 == 0 ? RandomOperands(problem, operands_seed, Values::kOrdinary)
                                         : IntegerOperands(problem, operands_seed);
    const Tensor golden = MakeMistake(problem, operands, mistake);
    const Outcome outcome = Judge(problem, operands, golden, WideSums(problem.dtype));
    if (outcome.verdict != Verdict::kFailed) continue;
    ++score.tried;
    score.named += outcome.Names(mishap.name);
    score.equivalent += outcome.diagnosis && !outcome.Names(mishap.name);
    if (!outcome.Names(mishap.name) && std::getenv("CONVGRAD_DIAGNOSES") != nullptr) {
      std::printf("%s: %s on problem %d: %s\n", mishap.name.c_str(),
                  outcome.diagnosis ? outcome.diagnosis->hypothesis.c_str() : "nothing", i,
                  problem.ToLine().c_str());
    }
  }
  return score;
}

TEST(Diagnosis, NamesTheUsualMistakes) {
  Score all;
  for (const Mishap& mishap : kMishaps) {
    const Score score = TryMishap(mishap, NumProblems(), 20261121);
    std::printf("%-24s tried %3ld, named %3ld, by another name %3ld\n", mishap.name.c_str(),
                score.tried, score.named, score.equivalent);
    EXPECT_GT(score.tried, 0) << mishap.name;
    // Small tensors of few bits prove little, cut-off integers least of all.
    EXPECT_GE(10 * (score.named + score.equivalent), 6 * score.tried) << mishap.name;
    all.tried += score.tried;
    all.named += score.named;
    all.equivalent += score.equivalent;
  }
  std::printf("all: tried %ld, named %ld, by another name %ld\n", all.tried, all.named,
              all.equivalent);
  EXPECT_GE(100 * (all.named + all.equivalent), 97 * all.tried);
}

// --- what must not be named ---

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
      other.first =
          Changed(other.first, [&](int64_t i, double x) { return i % 5 == 0 ? x + 1 : x; });
      return MakeMistake(problem, other, Mistake(problem));
    }
    default: return Changed(right, [&](int64_t i, double x) { return i < at ? x : x + 1; });
  }
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
}  // namespace convgrad
