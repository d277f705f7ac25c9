// The tests of verdicts share this: operands of integers, single sums, how a golden is judged that
// was summed in nothing narrower, and the largest term of an element.
#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
#include <vector>

#include "conv/compute.h"
#include "support/foreign_sums.h"
#include "support/operands.h"
#include "verify/compare/compare.h"
#include "verify/truth/fill.h"

namespace convgrad::testing {

// Small enough that every order of summation gives the same value.
inline Operands IntegerOperands(const Problem& problem, uint64_t seed) {
  const auto make = [&](Role role) {
    return MakeFill(ParseFill("integer"), problem.dtype, problem.ShapeOf(role), seed, role,
                    Parallel(1));
  };
  const OpInfo& op = InfoOf(problem.op);
  return {make(op.operands[0]), make(op.operands[1])};
}

// The golden is summed in the compute type at least.
inline CompareOptions WideSums(DType dtype) {
  CompareOptions options;
  options.golden_accumulator = dtype == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
  return options;
}

// The term of a result's element of the largest magnitude, 0 if there are none.
inline double LargestTerm(const Problem& problem, const Operands& operands, int64_t element) {
  double largest = 0;
  VisitFloat(problem.dtype, [&](auto tag) {
    using Stored = typename decltype(tag)::Type;
    Products<Stored> products{
        operands.first.data<Stored>(), operands.second.data<Stored>(), {}, {}};
    TermWalk(problem).Visit(element, products);
    for (size_t i = 0; i < products.x.size(); ++i) {
      const double term = products.x[i] * products.y[i];
      if (std::fabs(term) > std::fabs(largest)) largest = term;
    }
  });
  return largest;
}

// A forward 1x1 convolution of one pixel: `terms` channels are the terms, in the order of the sum.
inline Problem DotProblem(DType dtype, size_t terms) {
  ConvSpec spec;
  spec.op = Op::kConv2D;
  spec.dtype = dtype;
  spec.input = Shape{1, 1, 1, static_cast<int64_t>(terms)};
  spec.filter = Shape{1, 1, static_cast<int64_t>(terms), 1};
  return MakeProblem(spec);
}

// The verdict on a golden that holds one sum of products.
inline CheckResult CheckDot(DType dtype, const std::vector<double>& x, const std::vector<double>& y,
                            double golden, std::optional<Accumulator> accumulator = std::nullopt) {
  const Problem problem = DotProblem(dtype, x.size());
  const Tensor first = TensorOf(dtype, problem.InputShape(), x);
  const Tensor second = TensorOf(dtype, problem.FilterShape(), y);
  const Tensor actual = Compute(problem, first, second, Execution{});
  CompareOptions options;
  options.golden_accumulator = accumulator;
  return CompareToGolden(problem, first, second, actual, TensorOf(dtype, {1, 1, 1, 1}, {golden}),
                         options, Parallel(1));
}

}  // namespace convgrad::testing
