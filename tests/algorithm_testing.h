// One algorithm against the reference, bit for bit, on every target.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "conv/compute.h"
#include "operands.h"

namespace convgrad::testing {

inline bool Takes(const std::string& name, const Problem& problem) {
  for (const Algorithm& algorithm : AlgorithmsOf(problem.op)) {
    if (algorithm.name == name) return algorithm.accepts(problem);
  }
  return false;
}

inline Tensor RunOn(const Problem& problem, const Operands& operands, const std::string& algorithm,
                    Isa isa, int num_threads) {
  Execution execution;
  execution.algorithm = algorithm;
  execution.isa = isa;
  execution.num_threads = num_threads;
  return Compute(problem, operands.first, operands.second, execution);
}

inline void CheckAlgorithm(const std::string& name, const Problem& problem,
                           const Operands& operands) {
  ASSERT_TRUE(Takes(name, problem)) << problem.ToLine();
  const Tensor expected = RunOn(problem, operands, "reference", Isa::kScalar, 1);
  for (const KernelTable& kernels : SupportedKernels()) {
    for (const int threads : {1, 3}) {
      const Tensor actual = RunOn(problem, operands, name, kernels.isa, threads);
      ASSERT_EQ(std::memcmp(expected.raw(), actual.raw(), static_cast<size_t>(actual.num_bytes())),
                0)
          << problem.ToLine() << " isa=" << NameOf(kernels.isa) << " threads=" << threads;
    }
  }
}

}  // namespace convgrad::testing
