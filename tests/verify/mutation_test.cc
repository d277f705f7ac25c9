// The comparer, tested by mutation: results that are wrong in the ways kernels are wrong must fail,
// and right results must not, in whatever order they were summed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <string>

#include "conv/compute.h"
#include "conv/reference/reference.h"
#include "support/foreign_sums.h"
#include "support/random_problem.h"
#include "support/verdict_testing.h"
#include "verify/compare/compare.h"

namespace convgrad {
namespace {

using testing::IntegerOperands;
using testing::kOrders;
using testing::LargestTerm;
using testing::Operands;
using testing::Order;
using testing::RandomOperands;
using testing::SummedInOrder;
using testing::Values;
using testing::WideSums;

CheckResult Check(const Problem& problem, const Operands& operands, const Tensor& golden,
                  const CompareOptions& options = {}) {
  const Tensor actual = Compute(problem, operands.first, operands.second, Execution{});
  return CompareToGolden(problem, operands.first, operands.second, actual, golden, options,
                         Parallel(2));
}

std::string Describe(const CheckResult& result) {
  return std::string(NameOf(result.status)) + " by " + result.policy + ": " + result.reason + " (" +
         result.where + ")";
}

void ExpectRightInEveryOrder(Values values, int num_problems, int64_t max_suspects) {
  RandomProblemOptions options;
  options.max_terms = 20'000;
  RandomProblems problems(20240817, options);
  int64_t suspects = 0;
  for (int i = 0; i < num_problems; ++i) {
    const Problem problem = problems.Next();
    if (problem.MaxTerms() >= 7919) continue;
    const Operands operands = RandomOperands(problem, static_cast<uint64_t>(i), values);
    for (const Order order : kOrders) {
      const CheckResult result = Check(problem, operands, SummedInOrder(problem, operands, order));
      ASSERT_NE(result.status, Verdict::kFailed)
          << Describe(result) << "\nproblem " << i << " of seed 20240817, order "
          << static_cast<int>(order) << ": " << problem.ToLine();
      suspects += result.status == Verdict::kSuspect;
    }
  }
  EXPECT_LE(suspects, max_suspects);
  ::testing::Test::RecordProperty("suspects", static_cast<int>(suspects));
}

TEST(RightResults, PassInEveryOrder) {
  ExpectRightInEveryOrder(Values::kOrdinary, 150, /*max_suspects=*/1);
}

// Where sums overflow in one order and not in another, some can be no better than suspect.
TEST(RightResults, WithInfinitiesNaNsAndSubnormalsDoNotFail) {
  ExpectRightInEveryOrder(Values::kSpecial, 150, /*max_suspects=*/75);
}

// --- wrong results ---

Role ResultRole(Op op) {
  switch (InfoOf(op).direction) {
    case Direction::kForward: return Role::kOutBackprop;
    case Direction::kBackpropInput: return Role::kInput;
    case Direction::kBackpropFilter: return Role::kFilter;
  }
  ThrowInternal("unknown direction");
}

// `tensor` with elements taken from elsewhere in it: from(index) for each index.
Tensor Rearranged(const Tensor& tensor, const std::function<Shape(Shape)>& from) {
  const Shape& shape = tensor.shape();
  Tensor result(tensor.dtype(), shape);
  VisitFloat(tensor.dtype(), [&](auto tag) {
    using Stored = typename decltype(tag)::Type;
    for (int64_t i = 0; i < tensor.num_elements(); ++i) {
      Shape index(4);
      int64_t rest = i;
      for (size_t axis = 4; axis-- > 0; rest /= shape[axis]) index[axis] = rest % shape[axis];
      const Shape source = from(index);
      const int64_t at =
          ((source[0] * shape[1] + source[1]) * shape[2] + source[2]) * shape[3] + source[3];
      result.mutable_data<Stored>()[i] = tensor.data<Stored>()[at];
    }
  });
  return result;
}

struct Mutation {
  const char* name;
  Role role;  // of the tensor that is rearranged: the result, or an operand before the sums
  std::function<Shape(const Problem&, Shape)> from;
};

size_t ColumnAxis(const Problem& problem) {
  return problem.data_format == DataFormat::kNHWC ? 2 : 3;
}

const Mutation kMutations[] = {
    {"two taps swapped", Role::kFilter,
     [](const Problem&, Shape index) {
       if (index[1] == 0 && index[0] < 2) index[0] = 1 - index[0];
       return index;
     }},
    {"filter transposed", Role::kFilter,
     [](const Problem&, Shape index) {
       std::swap(index[0], index[1]);
       return index;
     }},
    {"column shifted", Role::kInput,
     [](const Problem& problem, Shape index) {
       int64_t& column = index[ColumnAxis(problem)];
       column = (column + 1) % problem.geometry.in_w;
       return index;
     }},
    {"output column shifted", Role::kOutBackprop,
     [](const Problem& problem, Shape index) {
       int64_t& column = index[ColumnAxis(problem)];
       column = (column + 1) % problem.geometry.out_w;
       return index;
     }},
    {"an image twice", Role::kInput,
     [](const Problem&, Shape index) {
       if (index[0] == 1) index[0] = 0;
       return index;
     }},
};

Problem SmallProblem(const OpInfo& op, DType dtype, DataFormat format) {
  ConvSpec spec;
  spec.op = op.depthwise ? Op::kDepthwiseConv2D : Op::kConv2D;
  spec.dtype = dtype;
  spec.data_format = format;
  spec.input = format == DataFormat::kNHWC ? Shape{3, 6, 7, 5} : Shape{3, 5, 6, 7};
  spec.filter = Shape{3, 3, 5, op.depthwise ? 2 : 4};
  Problem problem = MakeProblem(spec);
  problem.op = op.op;
  return problem;
}

// Every op, type and layout, on integers (the exact class) and on ordinary numbers (the bound).
void ForEveryCase(const std::function<void(const Problem&, const Operands&)>& body) {
  for (const OpInfo& op : AllOps()) {
    for (const DType dtype :
         {DType::kFloat16, DType::kBFloat16, DType::kFloat32, DType::kFloat64}) {
      for (const DataFormat format : {DataFormat::kNHWC, DataFormat::kNCHW}) {
        const Problem problem = SmallProblem(op, dtype, format);
        SCOPED_TRACE(problem.ToLine());
        body(problem, IntegerOperands(problem, 3));
        body(problem, RandomOperands(problem, 3, Values::kOrdinary));
      }
    }
  }
}

// The result that a kernel with the mutation's defect gives.
Tensor Mutated(const Problem& problem, const Operands& operands, const Mutation& mutation) {
  const auto rearrange = [&](const Tensor& tensor) {
    return Rearranged(tensor, [&](Shape index) { return mutation.from(problem, index); });
  };
  const OpInfo& op = InfoOf(problem.op);
  Operands seen = operands;
  if (op.operands[0] == mutation.role) seen.first = rearrange(operands.first);
  if (op.operands[1] == mutation.role) seen.second = rearrange(operands.second);
  const Tensor result = SummedInOrder(problem, seen, Order::kSequential);
  return ResultRole(problem.op) == mutation.role ? rearrange(result) : result;
}

TEST(WrongResults, MisplacedElementsFail) {
  ForEveryCase([](const Problem& problem, const Operands& operands) {
    const Tensor right = SummedInOrder(problem, operands, Order::kSequential);
    EXPECT_EQ(Check(problem, operands, right, WideSums(problem.dtype)).status, Verdict::kPassed);
    for (const Mutation& mutation : kMutations) {
      const CheckResult result =
          Check(problem, operands, Mutated(problem, operands, mutation), WideSums(problem.dtype));
      EXPECT_EQ(result.status, Verdict::kFailed) << mutation.name << ": " << Describe(result);
    }
  });
}

// `right` with one element replaced.
template <class Change>
Tensor WithElement(const Tensor& right, int64_t element, const Change& change) {
  Tensor golden = Rearranged(right, [](Shape index) { return index; });
  VisitFloat(right.dtype(), [&](auto tag) {
    using Stored = typename decltype(tag)::Type;
    Stored& stored = golden.mutable_data<Stored>()[element];
    stored = Narrow<Stored>(change(Widen(stored)));
  });
  return golden;
}

int64_t LargestElement(const Tensor& tensor) {
  int64_t largest = 0;
  VisitFloat(tensor.dtype(), [&](auto tag) {
    const auto* data = tensor.data<typename decltype(tag)::Type>();
    for (int64_t i = 0; i < tensor.num_elements(); ++i) {
      if (std::fabs(Widen(data[i])) > std::fabs(Widen(data[largest]))) largest = i;
    }
  });
  return largest;
}

void ExpectOneFailure(const CheckResult& result, const Tensor& tensor, int64_t element) {
  EXPECT_EQ(result.status, Verdict::kFailed) << Describe(result);
  EXPECT_EQ(result.counts.fail, 1);
  ASSERT_TRUE(result.worst.abs.has_value());
  int64_t at = 0;
  for (size_t axis = 0; axis < 4; ++axis) {
    at = at * tensor.shape()[axis] + result.worst.abs->index[axis];
  }
  EXPECT_EQ(at, element);
  EXPECT_THAT(result.where, ::testing::HasSubstr("one element"));
}

TEST(WrongResults, AFlippedSignFails) {
  ForEveryCase([](const Problem& problem, const Operands& operands) {
    const Tensor right = SummedInOrder(problem, operands, Order::kPairwise);
    const int64_t element = LargestElement(right);
    const Tensor golden = WithElement(right, element, [](double value) { return -value; });
    ExpectOneFailure(Check(problem, operands, golden, WideSums(problem.dtype)), golden, element);
  });
}

TEST(WrongResults, ADroppedTermFails) {
  ForEveryCase([](const Problem& problem, const Operands& operands) {
    const Tensor right = SummedInOrder(problem, operands, Order::kReversed);
    const int64_t element = right.num_elements() / 2;
    const double largest = LargestTerm(problem, operands, element);
    const Tensor golden =
        WithElement(right, element, [&](double value) { return value - largest; });
    const CheckResult result = Check(problem, operands, golden, WideSums(problem.dtype));
    ExpectOneFailure(result, golden, element);
    EXPECT_LE(result.power, std::fabs(largest));
  });
}

TEST(WrongResults, ZeroForNaNFailsAndNaNForNaNPasses) {
  ForEveryCase([](const Problem& problem, const Operands& operands) {
    Operands with_nan = operands;
    with_nan.first = WithElement(operands.first, 17, [](double) { return std::nan(""); });
    const Tensor right = SummedInOrder(problem, with_nan, Order::kFused);
    const CheckResult passed = Check(problem, with_nan, right);
    EXPECT_EQ(passed.status, Verdict::kPassed) << Describe(passed);
    ASSERT_GT(passed.counts.nan, 0);

    int64_t element = 0;
    VisitFloat(problem.dtype, [&](auto tag) {
      const auto* data = right.data<typename decltype(tag)::Type>();
      while (!std::isnan(Widen(data[element]))) ++element;
    });
    const Tensor golden = WithElement(right, element, [](double) { return 0.0; });
    ExpectOneFailure(Check(problem, with_nan, golden), golden, element);
  });
}

TEST(WrongResults, OneFlippedBitFailsByBits) {
  ForEveryCase([](const Problem& problem, const Operands& operands) {
    Tensor golden = Compute(problem, operands.first, operands.second, Execution{});
    CompareOptions options;
    options.golden_is_ours = true;
    EXPECT_EQ(Check(problem, operands, golden, options).status, Verdict::kPassed);
    const int64_t element = golden.num_elements() - 1;
    golden.mutable_data<uint8_t>()[element * InfoOf(problem.dtype).bytes] ^= 1;
    const CheckResult result = Check(problem, operands, golden, options);
    ExpectOneFailure(result, golden, element);
    EXPECT_EQ(result.policy, "bits");
    EXPECT_EQ(result.needs.ulp, 1);
  });
}

TEST(WrongResults, OfThisProgramFailToo) {
  ForEveryCase([](const Problem& problem, const Operands& operands) {
    const Tensor right = SummedInOrder(problem, operands, Order::kSequential);
    const int64_t element = LargestElement(right);
    const Tensor wrong = WithElement(right, element, [](double value) { return -value; });
    const Parallel parallel(1);
    ExpectOneFailure(CompareToReference(problem, operands.first, operands.second, wrong,
                                        CompareOptions{}, parallel),
                     wrong, element);
    const CheckResult result = CompareToGolden(problem, operands.first, operands.second, wrong,
                                               right, CompareOptions{}, parallel);
    ExpectOneFailure(result, wrong, element);
    EXPECT_THAT(result.detail, ::testing::HasSubstr("please report"));
  });
}

}  // namespace
}  // namespace convgrad
