// The public entry: choose an algorithm and run it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "conv/plan/algorithm.h"
#include "problem/geometry.h"
#include "tensor/tensor.h"

namespace convgrad {

// Names the algorithm that was measured to be the quickest for a problem at standard precision, on
// this instruction set with so many threads; empty where none was. A name that can't do the problem
// counts as none.
using TunedChoice = std::function<std::string(const Problem&, Isa, int num_threads)>;

struct Execution {
  int num_threads = 0;                   // 0: all usable CPUs
  std::optional<Isa> isa;                // none: the best this machine has
  std::optional<std::string> algorithm;  // none: the best (Planned::Best)
  TunedChoice tuned;                     // asked before Planned::Best; may be empty
  Precision precision = Precision::kStandard;
  int64_t max_memory_bytes = 0;  // 0: 80 % of what is available
};

// The choices of a run, to come or done.
struct RunInfo {
  std::string algorithm;
  std::string why;        // why this algorithm, in words
  bool is_tuned = false;  // it was Execution::tuned that chose it
  Precision precision = Precision::kStandard;
  Isa isa = Isa::kScalar;
  int num_threads = 1;
  std::string tiles;
  int64_t scratch_bytes = 0;
  int64_t memory_bytes = 0;  // operands + result + scratch
};

// Throws usage for an instruction set or algorithm that can't run this ("isa/unsupported",
// "algorithm/unknown", "algorithm/refused"); allocates nothing.
RunInfo PlanRun(const Problem& problem, const Execution& execution);

// A problem made ready to be computed any number of times: what can be chosen, planned, checked and
// started once is, so that a run costs its arithmetic alone.
class Computation {
 public:
  // Throws what PlanRun throws. Memory is not checked: CheckMemory does that.
  Computation(const Problem& problem, const Execution& execution);

  const Problem& problem() const { return problem_; }
  // The choices of every run: fewer threads than asked for where no more are to be had.
  const RunInfo& info() const { return info_; }
  const Parallel& parallel() const { return parallel_; }

  // Operands of InfoOf(problem.op).operands, in that order, and a writable result, all of the
  // problem's type and shapes; every element of the result is written. Throws data
  // "operand/mismatch".
  void Run(const Tensor& first, const Tensor& second, Tensor& result) const;

 private:
  Problem problem_;
  const KernelTable& kernels_;
  Parallel parallel_;
  std::optional<Planned> planned_;  // none without terms
  RunInfo info_;
};

// Operands of InfoOf(problem.op).operands, in that order, of the problem's type and shapes. Throws
// I/O "memory/limit" before allocating when it needs more than it may.
Tensor Compute(const Problem& problem, const Tensor& first, const Tensor& second,
               const Execution& execution, RunInfo* info = nullptr);

// Throws I/O "memory/limit" where operands held in memory and the result alone exceed what
// `execution` allows: known before anything is planned.
void CheckTensorMemory(const Problem& problem, const Execution& execution, int64_t operand_bytes,
                       bool operands_are_allocated);

// Throws I/O "memory/limit", naming need and limit, when operands held in memory (mapped ones don't
// count), result and scratch exceed what `execution` allows. Compute calls it; call it earlier,
// with nothing allocated yet, to refuse sooner.
void CheckMemory(const Problem& problem, const Execution& execution, int64_t operand_bytes,
                 bool operands_are_allocated);

}  // namespace convgrad
