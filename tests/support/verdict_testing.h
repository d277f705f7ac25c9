// What the tests of verdicts share: operands of integers, how a golden is judged that was summed in
// nothing narrower, and the largest term of an element.
#pragma once

#include <cmath>
#include <cstdint>

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

// Of the terms of a result's element the one of the largest magnitude, 0 if there are none.
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

}  // namespace convgrad::testing
