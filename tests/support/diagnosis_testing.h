// What the tests of the diagnosis share: a golden judged as the tool does it, and problems on which
// every mistake can be made.
#pragma once

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>

#include "conv/compute.h"
#include "support/from_environment.h"
#include "support/verdict_testing.h"
#include "verify/compare/compare.h"
#include "verify/diagnosis/diagnosis.h"

namespace convgrad::testing {

inline constexpr DType kDTypes[] = {DType::kFloat32, DType::kFloat64, DType::kFloat16,
                                    DType::kBFloat16};

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

inline Outcome Judge(const Problem& problem, const Operands& operands, const Tensor& golden,
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

// How many random problems for each mistake; more on a developer's wish.
inline int NumProblems() {
  return static_cast<int>(FromEnvironment("CONVGRAD_DIAGNOSES", 60));
}

// Of equal channels and odd sizes, so that every mistake can be made on some of them.
inline Problem SquareProblem(uint64_t number) {
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

}  // namespace convgrad::testing
