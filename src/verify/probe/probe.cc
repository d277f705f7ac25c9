#include "verify/probe/probe.h"

#include "base/checked.h"
#include "base/resources.h"
#include "verify/truth/fill.h"

namespace convgrad {
namespace {

Parallel ParallelOf(const Execution& execution) {
  return Parallel(execution.num_threads > 0 ? execution.num_threads : UsableCpus());
}

Tensor IntegerFill(const Problem& problem, Role role, uint64_t seed, const Parallel& parallel) {
  return MakeFill(FillSpec{}, problem.dtype, problem.ShapeOf(role), seed, role, parallel);
}

// Sum of products of elements; exact on integers that stay below 2^53.
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

}  // namespace

CheckResult Probe(const Problem& problem, const Execution& execution, uint64_t seed) {
  const Parallel parallel = ParallelOf(execution);
  const OpInfo& op = InfoOf(problem.op);
  const Tensor first = IntegerFill(problem, op.operands[0], seed, parallel);
  const Tensor second = IntegerFill(problem, op.operands[1], seed, parallel);
  const Tensor result = Compute(problem, first, second, execution);
  CompareOptions options;
  options.precision = execution.precision;
  return CompareToReference(problem, first, second, result, options, parallel);
}

AdjointSides AdjointIdentity(const Problem& problem, const Execution& execution, uint64_t seed) {
  const Parallel parallel = ParallelOf(execution);
  const bool depthwise = InfoOf(problem.op).depthwise;
  const Tensor input = IntegerFill(problem, Role::kInput, seed, parallel);
  const Tensor filter = IntegerFill(problem, Role::kFilter, seed, parallel);
  const Tensor out_backprop = IntegerFill(problem, Role::kOutBackprop, seed, parallel);
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

}  // namespace convgrad
