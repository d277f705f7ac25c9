// Properties that need no golden: the adjoint identity and the integer probe over random problems,
// and the error promise of standard precision.
#include <gtest/gtest.h>

#include <cmath>

#include "conv/compute.h"
#include "support/from_environment.h"
#include "support/random_problem.h"
#include "verify/compare/compare.h"
#include "verify/probe/probe.h"
#include "verify/truth/fill.h"
#include "verify/truth/oracle.h"

namespace convgrad {
namespace {

uint64_t Seed() {
  return FromEnvironment("CONVGRAD_TEST_SEED", 1);
}

Tensor IntegerFill(const Problem& problem, Role role, uint64_t seed) {
  return MakeFill(FillSpec{}, problem.dtype, problem.ShapeOf(role), seed, role, Parallel(2));
}

// The sum of products of elements, exact on integers while it stays below 2^53.
double InnerProduct(const Tensor& x, const Tensor& y) {
  return VisitFloat(x.dtype(), [&](auto tag) {
    using Stored = typename decltype(tag)::Type;
    double sum = 0;
    for (int64_t i = 0; i < x.num_elements(); ++i) {
      sum += Widen(x.data<Stored>()[i]) * Widen(y.data<Stored>()[i]);
    }
    return sum;
  });
}

// The three sides of <conv(x,w), g> = <x, backprop_input(w,g)> = <w, backprop_filter(x,g)> for the
// geometry of a problem, whatever its op; each is exact while no result is rounded.
struct AdjointSides {
  double forward, backprop_input, backprop_filter;
  bool holds() const { return forward == backprop_input && forward == backprop_filter; }
};

AdjointSides AdjointIdentity(const Problem& problem, const Execution& execution, uint64_t seed) {
  const bool depthwise = InfoOf(problem.op).depthwise;
  const Tensor input = IntegerFill(problem, Role::kInput, seed);
  const Tensor filter = IntegerFill(problem, Role::kFilter, seed);
  const Tensor out_backprop = IntegerFill(problem, Role::kOutBackprop, seed);
  const auto compute = [&](Op op, const Tensor& first, const Tensor& second) {
    Problem other = problem;
    other.op = op;
    return Compute(other, first, second, execution);
  };
  const Tensor output = compute(depthwise ? Op::kDepthwiseConv2D : Op::kConv2D, input, filter);
  const Tensor input_backprop =
      compute(depthwise ? Op::kDepthwiseConv2DBackpropInput : Op::kConv2DBackpropInput, filter,
              out_backprop);
  const Tensor filter_backprop =
      compute(depthwise ? Op::kDepthwiseConv2DBackpropFilter : Op::kConv2DBackpropFilter, input,
              out_backprop);
  return {InnerProduct(output, out_backprop), InnerProduct(input, input_backprop),
          InnerProduct(filter, filter_backprop)};
}

// In the wide types no result of small integers is rounded.
TEST(Adjoint, IdentityHoldsExactlyOnIntegers) {
  for (const DType dtype : {DType::kFloat32, DType::kFloat64}) {
    RandomProblemOptions options;
    options.dtype = dtype;
    RandomProblems problems(Seed(), options);
    for (int i = 0; i < 200; ++i) {
      const Problem problem = problems.Next();
      Execution execution;
      execution.num_threads = 1 + i % 3;
      const AdjointSides sides = AdjointIdentity(problem, execution, static_cast<uint64_t>(i));
      ASSERT_TRUE(sides.holds()) << sides.forward << ", " << sides.backprop_input << ", "
                                 << sides.backprop_filter << "\nproblem " << i << " of seed "
                                 << Seed() << ": " << problem.ToLine() << "\n"
                                 << ReproLine(problem);
    }
  }
}

TEST(Probe, FindsNothingWrongInRandomProblems) {
  RandomProblems problems(Seed() + 1);
  for (int i = 0; i < 400; ++i) {
    const Problem problem = problems.Next();
    Execution execution;
    execution.num_threads = 1 + i % 3;
    const CheckResult result = Probe(problem, execution, static_cast<uint64_t>(i));
    ASSERT_EQ(result.status, Verdict::kPassed)
        << result.reason << "; " << result.where << "\nproblem " << i << " of seed " << Seed() + 1
        << ": " << problem.ToLine() << "\n"
        << ReproLine(problem);
    ASSERT_EQ(result.policy, "exact class");
  }
}

Problem FilterGradient(DType dtype, const Shape& input, const Shape& filter) {
  ConvSpec spec;
  spec.op = Op::kConv2D;
  spec.dtype = dtype;
  spec.input = input;
  spec.filter = filter;
  Problem problem = MakeProblem(spec);
  problem.op = Op::kConv2DBackpropFilter;
  return problem;
}

// The largest error in units of u*S.
double LargestError(const Problem& problem, const Tensor& first, const Tensor& second) {
  const Tensor result = Compute(problem, first, second, Execution{});
  const Parallel parallel(2);
  const Oracle oracle(problem, first, second, parallel);
  double largest = 0;
  for (int64_t i = 0; i < result.num_elements(); ++i) {
    const Truth truth = oracle.At(i);
    const double error = std::fabs((result.data<float>()[i] - truth.high) - truth.low);
    largest = std::max(largest, error / (0x1p-24 * truth.magnitude));
  }
  return largest;
}

// Where one float32 chain would be off by thousands of u*S.
TEST(ErrorPromise, HoldsForAMillionTermsOfOneSign) {
  const Parallel parallel(2);
  const FillSpec same_sign = ParseFill("uniform:0.5:1");
  const auto fill = [&](const Problem& problem, Role role) {
    return MakeFill(same_sign, problem.dtype, problem.ShapeOf(role), 7, role, parallel);
  };
  const Problem gradient = FilterGradient(DType::kFloat32, {4, 512, 512, 1}, {1, 1, 1, 1});
  ASSERT_GE(gradient.MaxTerms(), 1'000'000);
  EXPECT_LT(
      LargestError(gradient, fill(gradient, Role::kInput), fill(gradient, Role::kOutBackprop)), 16);

  ConvSpec spec;
  spec.op = Op::kConv2D;
  spec.padding = Padding::kValid;
  spec.input = Shape{1, 8, 8, 1 << 14};
  spec.filter = Shape{8, 8, 1 << 14, 1};
  const Problem forward = MakeProblem(spec);
  ASSERT_GE(forward.MaxTerms(), 1'000'000);
  EXPECT_LT(LargestError(forward, fill(forward, Role::kInput), fill(forward, Role::kFilter)), 16);
}

}  // namespace
}  // namespace convgrad
