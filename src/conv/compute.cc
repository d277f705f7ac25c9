#include "conv/compute.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

#include "base/error.h"
#include "base/resources.h"
#include "conv/memory_limit.h"

namespace convgrad {
namespace {

const KernelTable& ChooseKernels(const std::optional<Isa>& isa) {
  if (!isa) return SupportedKernels().front();
  if (const KernelTable* table = FindKernels(*isa)) return *table;
  std::string supported;
  for (const KernelTable& table : SupportedKernels()) {
    supported += fmt::format("{}{}", supported.empty() ? "" : ", ", NameOf(table.isa));
  }
  ThrowUsage("isa/unsupported", fmt::format("--isa {}", NameOf(*isa)), "this machine can't run it",
             fmt::format("use one of: auto, {}", supported));
}

// One that the operation has, but not at this precision.
void CheckPrecision(Op op, const std::string& name, Precision precision, const std::string& names) {
  for (const Precision other : kAllPrecisions) {
    for (const Algorithm& algorithm : AlgorithmsOf(op, other)) {
      if (name != algorithm.name) continue;
      ThrowUsage(
          "algorithm/refused", "--algorithm " + name,
          fmt::format("it computes at precision {}, not {}", NameOf(other), NameOf(precision)),
          fmt::format("leave the flag out, or use one of: {}", names));
    }
  }
}

const Algorithm& ForceAlgorithm(const Problem& problem, const KernelTable& kernels,
                                const std::string& name, Precision precision) {
  std::string names;
  for (const Algorithm& algorithm : AlgorithmsOf(problem.op, precision)) {
    if (name == algorithm.name) {
      if (algorithm.can(problem, kernels)) return algorithm;
      ThrowUsage("algorithm/refused", "--algorithm " + name,
                 fmt::format("on {} it does not take this problem ({})", NameOf(kernels.isa),
                             problem.ToLine()),
                 "leave the flag out: the best one is chosen");
    }
    names += (names.empty() ? "" : ", ") + std::string(algorithm.name);
  }
  CheckPrecision(problem.op, name, precision, names);
  ThrowUsage("algorithm/unknown", "--algorithm " + name,
             fmt::format("{} has no such algorithm", InfoOf(problem.op).name),
             "use one of: " + names);
}

void CheckTensor(const Problem& problem, const char* name, const Shape& shape,
                 const Tensor& tensor) {
  if (tensor.dtype() == problem.dtype && tensor.shape() == shape) return;
  ThrowData("operand/mismatch", name,
            fmt::format("{} {} where the problem has {} {}", InfoOf(tensor.dtype()).name,
                        ToString(tensor.shape()), InfoOf(problem.dtype).name, ToString(shape)));
}

// Null where no measurement decides.
const Algorithm* TunedOf(const Problem& problem, const Execution& execution,
                         const KernelTable& kernels, int num_threads) {
  const bool may_choose = !execution.algorithm && execution.precision == Precision::kStandard;
  if (!execution.tuned || !may_choose || !problem.HasTerms()) return nullptr;
  const std::string name = execution.tuned(problem, kernels.isa, num_threads);
  for (const Algorithm& algorithm : AlgorithmsOf(problem.op)) {
    if (name == algorithm.name && algorithm.can(problem, kernels)) return &algorithm;
  }
  return nullptr;
}

// Finds the one that is asked for, or the first that can do the problem.
const Algorithm& FirstOf(const Problem& problem, const Execution& execution,
                         const KernelTable& kernels) {
  if (execution.algorithm) {
    return ForceAlgorithm(problem, kernels, *execution.algorithm, execution.precision);
  }
  const std::span<const Algorithm> algorithms = AlgorithmsOf(problem.op, execution.precision);
  return *std::ranges::find_if(
      algorithms, [&](const Algorithm& algorithm) { return algorithm.can(problem, kernels); });
}

struct Choice {
  std::optional<Planned> planned;  // none where there is nothing to add up
  bool is_tuned = false;           // a measurement decided
};

Choice Choose(const Problem& problem, const Execution& execution, const KernelTable& kernels,
              int num_threads) {
  if (!problem.HasTerms()) return {};
  if (const Algorithm* tuned = TunedOf(problem, execution, kernels, num_threads)) {
    return {Planned::Forced(*tuned, problem, kernels, num_threads), true};
  }
  if (!execution.algorithm) {
    return {Planned::Best(problem, kernels, num_threads, execution.precision)};
  }
  return {Planned::Forced(FirstOf(problem, execution, kernels), problem, kernels, num_threads)};
}

RunInfo InfoOf(const Problem& problem, const Execution& execution, const KernelTable& kernels,
               const Choice& choice, int num_threads) {
  const std::optional<Planned>& planned = choice.planned;
  const Algorithm& algorithm =
      planned ? planned->algorithm() : FirstOf(problem, execution, kernels);
  RunInfo info;
  info.algorithm = algorithm.name;
  info.is_tuned = choice.is_tuned;
  info.why = execution.algorithm ? "asked for"
             : info.is_tuned     ? "tuned: measured to be the quickest on this machine"
                                 : algorithm.summary;
  info.precision = execution.precision;
  info.isa = kernels.isa;
  info.num_threads = num_threads;
  if (planned) {
    info.tiles = planned->Tiles();
    info.scratch_bytes = planned->ScratchBytes();
  }
  info.memory_bytes = problem.OperandBytes() + problem.ResultBytes() + info.scratch_bytes;
  return info;
}

// Throws where operands, result and scratch are more than the limit.
void CheckNeed(MemoryLimit& limit, const Problem& problem, int64_t operand_bytes,
               int64_t scratch_bytes) {
  const int64_t result_bytes = problem.ResultBytes();
  const int64_t need = operand_bytes + result_bytes + scratch_bytes;
  if (limit.Allows(need)) return;
  limit.Refuse(need,
               fmt::format("operands {}, result {}, scratch {}", FormatBytes(operand_bytes),
                           FormatBytes(result_bytes), FormatBytes(scratch_bytes)),
               "raise --max-memory, use fewer threads, or split the batch");
}

}  // namespace

RunInfo PlanRun(const Problem& problem, const Execution& execution) {
  const KernelTable& kernels = ChooseKernels(execution.isa);
  const int num_threads = ThreadsOrAll(execution.num_threads);
  return InfoOf(problem, execution, kernels, Choose(problem, execution, kernels, num_threads),
                num_threads);
}

void CheckTensorMemory(const Problem& problem, const Execution& execution, int64_t operand_bytes,
                       bool operands_are_allocated) {
  MemoryLimit limit(execution.max_memory_bytes, operands_are_allocated ? operand_bytes : 0);
  CheckNeed(limit, problem, operand_bytes, 0);
}

void CheckMemory(const Problem& problem, const Execution& execution, int64_t operand_bytes,
                 bool operands_are_allocated) {
  MemoryLimit limit(execution.max_memory_bytes, operands_are_allocated ? operand_bytes : 0);
  // Before planning, whose own work grows with the tensors.
  CheckNeed(limit, problem, operand_bytes, 0);
  CheckNeed(limit, problem, operand_bytes, PlanRun(problem, execution).scratch_bytes);
}

Computation::Computation(const Problem& problem, const Execution& execution)
    : problem_(problem),
      kernels_(ChooseKernels(execution.isa)),
      parallel_(ThreadsOrAll(execution.num_threads)) {
  Choice choice = Choose(problem, execution, kernels_, parallel_.num_threads());
  info_ = InfoOf(problem, execution, kernels_, choice, parallel_.num_threads());
  planned_ = std::move(choice.planned);
}

void Computation::Run(const Tensor& first, const Tensor& second, Tensor& result) const {
  const OpInfo& op = InfoOf(problem_.op);
  CheckTensor(problem_, NameOf(op.operands[0]), problem_.ShapeOf(op.operands[0]), first);
  CheckTensor(problem_, NameOf(op.operands[1]), problem_.ShapeOf(op.operands[1]), second);
  CheckTensor(problem_, op.result, problem_.ResultShape(), result);
  if (result.mutable_raw() == nullptr) ThrowInternal("the result is a read-only tensor");
  if (!planned_) {
    std::memset(result.mutable_raw(), 0, static_cast<size_t>(result.num_bytes()));
    return;
  }
  const ScopedFpEnvironment environment;  // for what an algorithm does outside parallel loops
  const auto operand = [&](Role role) -> const void* {
    if (role == op.operands[0]) return first.raw();
    return role == op.operands[1] ? second.raw() : nullptr;
  };
  planned_->Run({problem_, operand(Role::kInput), operand(Role::kFilter),
                 operand(Role::kOutBackprop), result.mutable_raw(), kernels_, parallel_});
}

Tensor Compute(const Problem& problem, const Tensor& first, const Tensor& second,
               const Execution& execution, RunInfo* info) {
  const int64_t operand_bytes =
      (first.is_mapped() ? 0 : first.num_bytes()) + (second.is_mapped() ? 0 : second.num_bytes());
  MemoryLimit limit(execution.max_memory_bytes, operand_bytes);
  CheckNeed(limit, problem, operand_bytes, 0);
  const Computation computation(problem, execution);
  CheckNeed(limit, problem, operand_bytes, computation.info().scratch_bytes);
  if (info != nullptr) *info = computation.info();
  Tensor result(problem.dtype, problem.ResultShape());
  computation.Run(first, second, result);
  return result;
}

}  // namespace convgrad
