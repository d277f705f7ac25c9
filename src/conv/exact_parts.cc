#include "conv/exact_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <utility>

#include "base/checked.h"
#include "base/error.h"
#include "base/resources.h"
#include "conv/memory_limit.h"
#include "conv/parts/exact_sums.h"

namespace convgrad {
namespace {

constexpr const char* kName = "slices";
constexpr int64_t kWordBytes = sizeof(uint64_t);

// That of a standard run, which knows threads and instruction sets.
RunInfo TargetOf(const Problem& problem, const Execution& execution) {
  if (execution.algorithm) {
    ThrowUsage("algorithm/refused", "--algorithm " + *execution.algorithm,
               "a part of a sum is computed in one way", "leave the flag out");
  }
  Execution standard = execution;
  standard.precision = Precision::kStandard;
  return PlanRun(problem, standard);
}

const KernelTable& KernelsOf(const RunInfo& info) {
  return *FindKernels(info.isa);
}

int64_t SumBytes(const Problem& problem) {
  return problem.NumResults() * kWordBytes;
}

// Returns what the limit leaves for the sums beside the operands and scratch.
int64_t SpareBytes(MemoryLimit limit, const Problem& problem, int64_t operand_bytes,
                   const ExactSums& exact) {
  const int64_t spare = limit.Bytes() - operand_bytes - exact.ScratchBytes();
  if (SumBytes(problem) <= spare) return spare;
  limit.Refuse(operand_bytes + exact.ScratchBytes() + SumBytes(problem),
               fmt::format("operands {}, scratch {}, sums {} or more", FormatBytes(operand_bytes),
                           FormatBytes(exact.ScratchBytes()), FormatBytes(SumBytes(problem))),
               "raise --max-memory, or use fewer threads");
}

const void* ImagesFrom(const Tensor& tensor, int64_t image, int64_t batch) {
  return static_cast<const std::byte*>(tensor.raw()) + tensor.num_bytes() / batch * image;
}

}  // namespace

RunInfo PlanExactSums(const Problem& problem, const Execution& execution) {
  RunInfo info = TargetOf(problem, execution);
  const ExactSums exact(problem, KernelsOf(info), info.num_threads, execution.max_memory_bytes);
  info.algorithm = kName;
  info.why = "exact sums, not rounded";
  info.precision = Precision::kExact;
  info.tiles = exact.Tiles();
  info.scratch_bytes = exact.ScratchBytes();
  info.memory_bytes = problem.OperandBytes() + SumBytes(problem) + info.scratch_bytes;
  return info;
}

void CheckExactSumsMemory(const Problem& problem, int64_t operand_bytes,
                          const Execution& execution) {
  const RunInfo info = TargetOf(problem, execution);
  SpareBytes({execution.max_memory_bytes, /*allocated_bytes=*/0}, problem, operand_bytes,
             ExactSums(problem, KernelsOf(info), info.num_threads, execution.max_memory_bytes));
}

FixedPointSums ComputeExactSums(const Problem& problem, const Tensor& input,
                                const Tensor& out_backprop, int64_t operand_bytes,
                                const Execution& execution,
                                const std::function<void(int64_t begin, int64_t end)>& seen) {
  const RunInfo info = TargetOf(problem, execution);
  const Parallel parallel(info.num_threads);
  const ScopedFpEnvironment environment;  // for what is done outside parallel loops
  ExactSums exact(problem, KernelsOf(info), parallel.num_threads(), execution.max_memory_bytes);
  exact.Begin(
      SpareBytes({execution.max_memory_bytes, operand_bytes}, problem, operand_bytes, exact));
  const int64_t batch = problem.geometry.batch;
  for (int64_t begin = 0; begin < batch;) {
    const int64_t end = std::min(batch, begin + exact.ImagesAtOnce());
    exact.Add(ImagesFrom(input, begin, batch), ImagesFrom(out_backprop, begin, batch), end - begin,
              parallel);
    seen(begin, end);
    begin = end;
  }
  exact.sums().Normalize(parallel);
  return std::move(exact.sums());
}

}  // namespace convgrad
