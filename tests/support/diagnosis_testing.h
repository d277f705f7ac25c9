// The tests of the diagnosis share this: a golden judged as the tool does it, and problems on which
// every mistake can be made.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <iterator>
#include <optional>
#include <span>
#include <string>

#include "conv/compute.h"
#include "support/from_environment.h"
#include "support/mistaken_kernel.h"
#include "support/random_problem.h"
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
  std::optional<DType> accumulator;
  if (options.golden_accumulator) accumulator = options.golden_accumulator->dtype;
  outcome.diagnosis =
      Diagnose({problem, operands.first, operands.second, actual, golden, accumulator}, parallel);
  return outcome;
}

// How many random problems for each mistake; more on a developer's wish.
inline int NumProblems() {
  return static_cast<int>(FromEnvironment("CONVGRAD_DIAGNOSES", 60));
}

// The problems have equal channels and odd sizes, so that every mistake can be made on some of
// them.
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

// A mistake that a kernel of the tests' own can make.
struct Mishap {
  std::string name;  // of the hypothesis that must be named
  // False where the mistake can't be made on this problem.
  std::function<bool(const Problem&, Mistake&)> make;
};

// How often the mistake was named.
struct Score {
  int64_t tried = 0;       // wrong by the verdict
  int64_t named = 0;       // by this name, or with it among those that explain it as well
  int64_t equivalent = 0;  // by another name only
};

inline Score TryMishap(const Mishap& mishap, int num_problems, uint64_t seed) {
  RandomProblemOptions options;
  options.max_terms = 20'000;
  options.allow_empty = false;
  RandomProblems problems(seed, options);
  Score score;
  for (int i = 0; i < num_problems; ++i) {
    const auto number = static_cast<uint64_t>(i);
    const Problem problem = i % 3 == 2 ? SquareProblem(number / 3) : problems.Next();
    // Where a handful of numbers is all there is, nothing is certain.
    if (problem.ResultBytes() / InfoOf(problem.dtype).bytes < 24) continue;
    Mistake mistake(problem);
    if (!mishap.make(problem, mistake)) continue;
    const auto operands_seed = static_cast<uint64_t>(i);
    const Operands operands = i % 2 == 0 ? RandomOperands(problem, operands_seed, Values::kOrdinary)
                                         : IntegerOperands(problem, operands_seed);
    const Tensor golden = MakeMistake(problem, operands, mistake);
    const Outcome outcome = Judge(problem, operands, golden, WideSums(problem.dtype));
    if (outcome.verdict != Verdict::kFailed) continue;
    ++score.tried;
    score.named += outcome.Names(mishap.name);
    score.equivalent += outcome.diagnosis && !outcome.Names(mishap.name);
    if (!outcome.Names(mishap.name) && std::getenv("CONVGRAD_DIAGNOSES") != nullptr) {
      std::printf("%s: %s on problem %d: %s\n", mishap.name.c_str(),
                  outcome.diagnosis ? outcome.diagnosis->hypothesis.c_str() : "nothing", i,
                  problem.ToLine().c_str());
    }
  }
  return score;
}

// Makes each of `mishaps` on random problems and expects nearly all to be named.
inline void ExpectNamed(std::span<const Mishap> mishaps, uint64_t seed) {
  Score all;
  for (const Mishap& mishap : mishaps) {
    const Score score = TryMishap(mishap, NumProblems(), seed);
    std::printf("%-28s tried %3ld, named %3ld, by another name %3ld\n", mishap.name.c_str(),
                score.tried, score.named, score.equivalent);
    EXPECT_GT(score.tried, 0) << mishap.name;
    // Small tensors of few bits prove little, cut-off integers least of all.
    EXPECT_GE(10 * (score.named + score.equivalent), 6 * score.tried) << mishap.name;
    all.tried += score.tried;
    all.named += score.named;
    all.equivalent += score.equivalent;
  }
  std::printf("all: tried %ld, named %ld, by another name %ld\n", all.tried, all.named,
              all.equivalent);
  EXPECT_GE(100 * (all.named + all.equivalent), 97 * all.tried);
}

}  // namespace convgrad::testing
