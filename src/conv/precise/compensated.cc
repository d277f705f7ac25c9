#include "conv/precise/compensated.h"

#include <cmath>
#include <optional>

#include "conv/precise/compensated_engine.h"
#include "conv/precise/exact_elements.h"
#include "order/compensated_chain.h"

namespace convgrad {
namespace {

// finish(element, sum) for every element of the result.
template <class Finish>
void FinishElements(const ConvArgs& args, const Finish& finish) {
  const auto& operands = InfoOf(args.problem.op).operands;
  auto* result = static_cast<double*>(args.result);
  CompensatedEngine(args.problem, args.kernels)
      .ForEachPiece(args.OperandOf(operands[0]), args.OperandOf(operands[1]), args.parallel,
                    [&](int64_t begin, std::span<const ElementSum> sums) {
                      for (const ElementSum& sum : sums) {
                        result[begin] = finish(begin, sum);
                        ++begin;
                      }
                    });
}

}  // namespace

// The engine multiplies padding with what lies beside it, so that an infinity there may spoil a sum
// that it is no part of: such elements follow the chain by themselves.
void RunCompensated(const ConvArgs& args) {
  const TermWalk walk(args.problem);
  const auto& operands = InfoOf(args.problem.op).operands;
  const auto* first = static_cast<const double*>(args.OperandOf(operands[0]));
  const auto* second = static_cast<const double*>(args.OperandOf(operands[1]));
  FinishElements(args, [&](int64_t element, const ElementSum& sum) {
    if (std::isfinite(sum.high) && std::isfinite(sum.low)) return sum.high + sum.low;
    CompensatedChain chain(first, second);
    walk.Visit(element, chain);
    return WithCanonicalNaN(chain.Result());
  });
}

void RunCertifiedCompensated(const ConvArgs& args) {
  const ExactElements<double> exact(args);
  FinishElements(args, [&](int64_t element, const ElementSum& sum) {
    const std::optional<double> rounded = RoundCertified<double>(sum, exact);
    return rounded ? *rounded : exact.Sum(element);
  });
}

}  // namespace convgrad
