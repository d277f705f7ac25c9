#include "conv/precise/compensated.h"

#include <cmath>
#include <optional>
#include <span>

#include "conv/precise/compensated_runner.h"
#include "conv/precise/single_elements.h"

namespace convgrad {
namespace {

// finish(element, sum) for every element of the result.
template <class Finish>
void FinishElements(const ConvArgs& args, const Finish& finish) {
  const auto& operands = InfoOf(args.problem.op).operands;
  auto* result = static_cast<double*>(args.result);
  CompensatedRunner(args.problem, args.kernels)
      .ForEachPiece(args.OperandOf(operands[0]), args.OperandOf(operands[1]), args.parallel,
                    [&](int64_t begin, std::span<const ElementSum> sums) {
                      for (const ElementSum& sum : sums) {
                        result[begin] = finish(begin, sum);
                        ++begin;
                      }
                    });
}

}  // namespace

// The runner multiplies padding with what lies beside it, so that an infinity there may spoil a sum
// that it is no part of: such elements follow the chain by themselves.
void RunCompensated(const ConvArgs& args) {
  const SingleElements<double> elements(args);
  FinishElements(args, [&](int64_t element, const ElementSum& sum) {
    if (std::isfinite(sum.high) && std::isfinite(sum.low)) return sum.high + sum.low;
    return WithCanonicalNaN(elements.ResultOf<CompensatedChain>(element));
  });
}

void RunCertifiedCompensated(const ConvArgs& args) {
  const SingleElements<double> elements(args);
  const ProductUnit unit = elements.Unit();
  FinishElements(args, [&](int64_t element, const ElementSum& sum) {
    const std::optional<double> rounded = RoundCertified<double>(sum, unit);
    return rounded ? *rounded : elements.Exact(element);
  });
}

}  // namespace convgrad
