#include "verify/probe/probe.h"

#include "base/resources.h"
#include "verify/truth/fill.h"

namespace convgrad {
namespace {

Tensor IntegerFill(const Problem& problem, Role role, uint64_t seed, const Parallel& parallel) {
  return MakeFill(FillSpec{}, problem.dtype, problem.ShapeOf(role), seed, role, parallel);
}

}  // namespace

CheckResult Probe(const Problem& problem, const Execution& execution, uint64_t seed) {
  const Parallel parallel(ThreadsOrAll(execution.num_threads));
  const OpInfo& op = InfoOf(problem.op);
  const Tensor first = IntegerFill(problem, op.operands[0], seed, parallel);
  const Tensor second = IntegerFill(problem, op.operands[1], seed, parallel);
  const Tensor result = Compute(problem, first, second, execution);
  CompareOptions options;
  options.precision = execution.precision;
  return CompareToReference(problem, first, second, result, options, parallel);
}

}  // namespace convgrad
