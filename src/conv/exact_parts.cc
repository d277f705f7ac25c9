#include "conv/exact_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <utility>

#include "base/checked.h"
#include "base/resources.h"
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

// Returns what is left for the sums.
int64_t SpareBytes(const Problem& problem, int64_t operand_bytes, const ExactSums& exact,
                   const Execution& execution) {
  const int64_t limit =
      execution.max_memory_bytes > 0 ? execution.max_memory_bytes : AvailableMemory() / 5 * 4;
  const int64_t others = operand_bytes + exact.ScratchBytes();
  if (others + SumBytes(problem) <= limit) return limit - others;
  ThrowIo("memory/limit", "memory",
          fmt::format("{} are needed (operands {}, scratch {}, sums {} or more), the limit is {}",
                      FormatExactBytes(others + SumBytes(problem)), FormatBytes(operand_bytes),
                      FormatBytes(exact.ScratchBytes()), FormatBytes(SumBytes(problem)),
                      FormatExactBytes(limit)),
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
  SpareBytes(problem, operand_bytes,
             ExactSums(problem, KernelsOf(info), info.num_threads, execution.max_memory_bytes),
             execution);
}

FixedPointSums ComputeExactSums(const Problem& problem, const Tensor& input,
                                const Tensor& out_backprop, int64_t operand_bytes,
                                const Execution& execution,
                                const std::function<void(int64_t begin, int64_t end)>& seen) {
  const RunInfo info = TargetOf(problem, execution);
  const Parallel parallel(info.num_threads);
  const ScopedFpEnvironment environment;  // for what is done outside parallel loops
  ExactSums exact(problem, KernelsOf(info), parallel.num_threads(), execution.max_memory_bytes);
  exact.Begin(SpareBytes(problem, operand_bytes, exact, execution));
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
