// One algorithm against the reference, bit for bit, on every target that it takes a problem on;
// also on random problems.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "conv/compute.h"
#include "support/draw.h"
#include "support/from_environment.h"
#include "support/operands.h"

namespace convgrad::testing {

inline bool Takes(const std::string& name, const Problem& problem, const KernelTable& kernels) {
  for (const Algorithm& algorithm : AlgorithmsOf(problem.op)) {
    if (algorithm.name == name) return algorithm.can(problem, kernels);
  }
  return false;
}

// On any target of this machine.
inline bool Takes(const std::string& name, const Problem& problem) {
  return std::ranges::any_of(SupportedKernels(), [&](const KernelTable& kernels) {
    return Takes(name, problem, kernels);
  });
}

inline Tensor RunOn(const Problem& problem, const Operands& operands, const std::string& algorithm,
                    Isa isa, int num_threads) {
  Execution execution;
  execution.algorithm = algorithm;
  execution.isa = isa;
  execution.num_threads = num_threads;
  return Compute(problem, operands.first, operands.second, execution);
}

// The reference and the scalar form take a call for each term, nearly all of the time of a test. A
// sanitizer, which has memory to look at and not bits, leaves them out of all but small problems.
inline bool RunsTermByTerm(const Problem& problem) {
  return !kSanitized || problem.ValidTerms() <= 300'000;
}

// A problem is run with so many threads on a target. The scalar form runs problems with one number
// of threads or the other.
inline std::vector<int> ThreadsOn(Isa isa, const Problem& problem) {
  if (isa != Isa::kScalar) return {1, 3};
  if (!RunsTermByTerm(problem)) return {};
  return {problem.MaxTerms() % 2 == 0 ? 1 : 3};
}

inline void CheckAlgorithm(const std::string& name, const Problem& problem,
                           const Operands& operands) {
  const auto first = std::ranges::find_if(SupportedKernels(), [&](const KernelTable& kernels) {
    return Takes(name, problem, kernels);
  });
  ASSERT_NE(first, SupportedKernels().end()) << problem.ToLine();
  const std::string other = RunsTermByTerm(problem) ? "reference" : name;
  const Tensor expected = RunOn(problem, operands, other, first->isa, 1);
  for (const KernelTable& kernels : SupportedKernels()) {
    if (!Takes(name, problem, kernels)) continue;
    for (const int threads : ThreadsOn(kernels.isa, problem)) {
      const Tensor actual = RunOn(problem, operands, name, kernels.isa, threads);
      ASSERT_EQ(std::memcmp(expected.raw(), actual.raw(), static_cast<size_t>(actual.num_bytes())),
                0)
          << problem.ToLine() << " isa=" << NameOf(kernels.isa) << " threads=" << threads;
    }
  }
}

// On `count` problems of draw_line(Draw&) that the algorithm takes, with the operands of
// make_operands(problem, seed, values). Lines that make no problem, for want of an output, are
// passed over, but not for ever.
template <class DrawLine, class MakeOperands>
void CheckOnRandomProblems(const std::string& name, int count, uint64_t seed, DrawLine draw_line,
                           MakeOperands make_operands, Values values) {
  Draw draw(seed);
  int taken = 0;
  const int enough = Rounds(count);
  for (uint64_t i = 0; taken < enough && !::testing::Test::HasFailure(); ++i) {
    ASSERT_LT(i, 10'000) << name << " takes " << taken << " of these problems";
    const std::string line = draw_line(draw);
    std::optional<Problem> problem;
    try {
      problem = ParseProblem(line);
    } catch (const Error&) {
      continue;
    }
    if (!Takes(name, *problem)) continue;
    CheckAlgorithm(name, *problem, make_operands(*problem, i, values));
    ++taken;
  }
}

// Operands of the kind asked for; every other time with an ordinary filter, since one that is not
// finite goes another way.
inline std::string DrawType(Draw& draw) {
  constexpr const char* kTypes[] = {"float16", "bfloat16", "float32", "float64"};
  return kTypes[draw(0, 3)];
}

inline Operands DrawOperands(const Problem& problem, uint64_t seed, Values values) {
  Operands operands = RandomOperands(problem, seed, values);
  if (seed % 2 == 0) return operands;
  Operands ordinary = RandomOperands(problem, seed, Values::kOrdinary);
  const bool filter_first = InfoOf(problem.op).operands[0] == Role::kFilter;
  return filter_first ? Operands{std::move(ordinary.first), std::move(operands.second)}
                      : Operands{std::move(operands.first), std::move(ordinary.second)};
}

inline std::string NameOfValues(const ::testing::TestParamInfo<Values>& instance) {
  return instance.param == Values::kOrdinary ? "Ordinary" : "Special";
}

}  // namespace convgrad::testing
