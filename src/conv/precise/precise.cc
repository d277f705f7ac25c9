#include "conv/precise/precise.h"

#include <vector>

#include "conv/precise/compensated.h"
#include "conv/precise/compensated_engine.h"
#include "conv/precise/widened.h"
#include "conv/reference.h"
#include "order/compensated_chain.h"
#include "order/exact_sum.h"

namespace convgrad {
namespace {

// `double`: what its algorithms' bits are, element by element.
void RunDoubleReference(const ConvArgs& args) {
  if (TakesWidened(args.problem)) return RunWidenedReference(args);
  VisitElements<double, CompensatedChain>(args);
}

void RunExactReference(const ConvArgs& args) {
  VisitFloat(args.problem.dtype, [&](auto tag) {
    using Stored = typename decltype(tag)::Type;
    VisitElements<Stored, ExactSum<Stored>>(args);
  });
}

const Algorithm kWidened = {
    .name = "widened",
    .summary = "the standard algorithms of float64 on widened operands",
    .accepts = [](const Problem& problem, const KernelTable&) { return TakesWidened(problem); },
    .scratch_bytes =
        [](const Problem& problem, const KernelTable& kernels, int num_threads) {
          return WidenedScratchBytes(problem, kernels, num_threads, Precision::kDouble);
        },
    .tiles = DescribeWidened,
    .run = RunWidened,
};

const Algorithm kCompensated = {
    .name = "compensated",
    .summary = "sums of float64 in twice its precision",
    .accepts = [](const Problem& problem, const KernelTable&) { return !TakesWidened(problem); },
    .scratch_bytes = [](const Problem&, const KernelTable&,
                        int num_threads) { return CompensatedEngine::ScratchBytes(num_threads); },
    .tiles = [](const Problem& problem,
                const KernelTable&) { return CompensatedEngine::DescribeTiles(problem); },
    .run = RunCompensated,
};

const Algorithm kCertified = {
    .name = "certified",
    .summary =
        "sums in twice the data's precision with a bound on their error; once more, exactly, "
        "where that leaves a doubt",
    .accepts = [](const Problem&, const KernelTable&) { return true; },
    .scratch_bytes =
        [](const Problem& problem, const KernelTable& kernels, int num_threads) {
          return TakesWidened(problem)
                     ? WidenedScratchBytes(problem, kernels, num_threads, Precision::kExact)
                     : CompensatedEngine::ScratchBytes(num_threads);
        },
    .tiles =
        [](const Problem& problem, const KernelTable& kernels) {
          return TakesWidened(problem) ? DescribeWidened(problem, kernels)
                                       : CompensatedEngine::DescribeTiles(problem);
        },
    .run =
        [](const ConvArgs& args) {
          TakesWidened(args.problem) ? RunCertifiedWidened(args) : RunCertifiedCompensated(args);
        },
};

Algorithm DoubleReference() {
  Algorithm algorithm = kReferenceAlgorithm;
  algorithm.scratch_bytes = [](const Problem& problem, const KernelTable& kernels,
                               int num_threads) {
    if (!TakesWidened(problem)) return int64_t{0};
    return WidenedScratchBytes(problem, kernels, num_threads, Precision::kDouble);
  };
  algorithm.run = RunDoubleReference;
  return algorithm;
}

Algorithm ExactReference() {
  Algorithm algorithm = kReferenceAlgorithm;
  algorithm.run = RunExactReference;
  return algorithm;
}

}  // namespace

std::span<const Algorithm> PreciseAlgorithms(Precision precision) {
  static const std::vector<Algorithm> in_double = {kWidened, kCompensated, DoubleReference()};
  static const std::vector<Algorithm> exact = {kCertified, ExactReference()};
  return precision == Precision::kExact ? exact : in_double;
}

}  // namespace convgrad
