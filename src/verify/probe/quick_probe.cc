#include "verify/probe/quick_probe.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <mutex>
#include <optional>
#include <random>
#include <vector>

#include "base/checked.h"
#include "base/resources.h"
#include "verify/truth/distance.h"
#include "verify/truth/fill.h"
#include "verify/truth/oracle.h"
#include "verify/where/where.h"

namespace convgrad {
namespace {

// A problem on integer data with its result.
struct IntegerRun {
  Problem problem;
  Tensor first, second;
  Tensor result;
};

// Sums of more products than this of integers up to 2 might not stay below 2^24.
constexpr int64_t kMaxDenseTerms = int64_t{1} << 22;

// -2, -1, 1 or 2 for every element: no zeros, which the fill has from element 2^20 on, so that no
// operand hides from the result and no result from the identity.
Tensor DenseIntegers(DType dtype, const Shape& shape, uint64_t seed, const Parallel& parallel) {
  constexpr double kValues[] = {-2, -1, 1, 2};
  constexpr int64_t kPiece = 1 << 16;
  Tensor tensor(dtype, shape);
  VisitFloat(dtype, [&](auto tag) {
    using Stored = typename decltype(tag)::Type;
    parallel.For(CeilDiv(tensor.num_elements(), kPiece), [&](int64_t piece) {
      std::mt19937_64 random(seed * 1000003 + static_cast<uint64_t>(piece));
      const int64_t end = std::min(tensor.num_elements(), (piece + 1) * kPiece);
      Stored* const data = tensor.mutable_data<Stored>();
      for (int64_t i = piece * kPiece; i < end; ++i) {
        data[i] = Narrow<Stored>(kValues[random() >> 62]);
      }
    });
  });
  return tensor;
}

Tensor Integers(const Problem& problem, Role role, uint64_t seed, const Parallel& parallel) {
  const Shape shape = problem.ShapeOf(role);
  if (problem.MaxTerms() > kMaxDenseTerms) {
    return MakeFill(FillSpec{}, problem.dtype, shape, seed, role, parallel);
  }
  return DenseIntegers(problem.dtype, shape, 3 * seed + static_cast<uint64_t>(role), parallel);
}

IntegerRun RunOnIntegers(const Problem& problem, const ComputeFunction& compute, uint64_t seed,
                         const Parallel& parallel) {
  const OpInfo& op = InfoOf(problem.op);
  IntegerRun run = {problem, Integers(problem, op.operands[0], seed, parallel),
                    Integers(problem, op.operands[1], seed, parallel), Tensor()};
  run.result = compute(problem, run.first, run.second);
  return run;
}

// Up to six positions of a dimension: the first and last two, and two random ones.
std::vector<int64_t> Positions(int64_t size, std::mt19937_64& random) {
  std::vector<int64_t> positions = {0, 1, size - 2, size - 1};
  for (int i = 0; i < 2; ++i) positions.push_back(static_cast<int64_t>(random() % size));
  std::erase_if(positions, [size](int64_t at) { return at < 0 || at >= size; });
  std::sort(positions.begin(), positions.end());
  positions.erase(std::unique(positions.begin(), positions.end()), positions.end());
  return positions;
}

// Elements of a tensor without empty dimensions: every combination of the positions above, then as
// many random ones as make up `count`.
std::vector<int64_t> ChooseElements(const Shape& shape, int64_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<int64_t> elements = {0};
  for (const int64_t size : shape) {
    std::vector<int64_t> longer;
    const std::vector<int64_t> positions = Positions(size, random);
    for (const int64_t element : elements) {
      for (const int64_t at : positions) longer.push_back(element * size + at);
    }
    elements = std::move(longer);
  }
  std::shuffle(elements.begin(), elements.end(), random);
  if (static_cast<int64_t>(elements.size()) > count / 2) elements.resize(count / 2);
  const int64_t num_elements = *CheckedProduct(shape);
  while (static_cast<int64_t>(elements.size()) < count) {
    elements.push_back(static_cast<int64_t>(random() % num_elements));
  }
  std::sort(elements.begin(), elements.end());
  elements.erase(std::unique(elements.begin(), elements.end()), elements.end());
  return elements;
}

WorstElement Describe(const IntegerRun& run, int64_t element, double expected) {
  WorstElement worst;
  worst.index = Layout(run.problem).IndexOf(element);
  worst.expected = expected;
  VisitFloat(run.problem.dtype, [&](auto tag) {
    using Stored = typename decltype(tag)::Type;
    const Stored actual = run.result.data<Stored>()[element];
    worst.actual = Widen(actual);
    worst.actual_bits = BitsOf(actual);
    worst.expected_bits = BitsOf(Narrow<Stored>(expected));
  });
  worst.value = std::fabs(worst.actual - expected);
  return worst;
}

// Some elements against their exact values.
CheckResult CheckElements(const IntegerRun& run, const std::vector<int64_t>& elements,
                          const Parallel& parallel) {
  const Oracle oracle(run.problem, run.first, run.second, parallel);
  CheckResult result;
  result.policy = "exact class";
  result.power = 1;
  result.counts.elements = static_cast<int64_t>(elements.size());
  std::mutex joining;
  parallel.For(result.counts.elements, [&](int64_t i) {
    const double expected = oracle.At(elements[i]).rounded;
    const WorstElement seen = Describe(run, elements[i], expected);
    if (seen.actual == expected) return;
    const std::lock_guard lock(joining);
    ++result.counts.fail;
    result.counts.nan += std::isnan(seen.actual);
    result.counts.inf += std::isinf(seen.actual);
    if (!result.worst.abs || !(seen.value <= result.worst.abs->value)) result.worst.abs = seen;
  });
  result.counts.differ = result.counts.fail;
  if (result.worst.abs) result.needs.abs = result.worst.abs->value;
  return result;
}

// Sum of products of elements of two tensors; none if one is no integer of at most 2^30.
std::optional<int64_t> IntegerInnerProduct(const Tensor& x, const Tensor& y) {
  constexpr double kMost = 0x1p30;
  return VisitFloat(x.dtype(), [&](auto tag) -> std::optional<int64_t> {
    using Stored = typename decltype(tag)::Type;
    int64_t sum = 0;
    for (int64_t i = 0; i < x.num_elements(); ++i) {
      const double a = Widen(x.data<Stored>()[i]), b = Widen(y.data<Stored>()[i]);
      if (!(std::fabs(a) <= kMost && std::fabs(b) <= kMost)) return std::nullopt;
      if (a != std::trunc(a) || b != std::trunc(b)) return std::nullopt;
      // Wraps around, as the sum of the other side does: equal sums stay equal.
      __builtin_add_overflow(sum, static_cast<int64_t>(a) * static_cast<int64_t>(b), &sum);
    }
    return sum;
  });
}

Role ResultRole(const OpInfo& op) {
  switch (op.direction) {
    case Direction::kForward: return Role::kOutBackprop;
    case Direction::kBackpropInput: return Role::kInput;
    case Direction::kBackpropFilter: return Role::kFilter;
  }
  ThrowInternal("unknown direction");
}

// All elements of a float32 or float64 run together. The other side is the forward pass, or for
// the forward pass the input gradient, run as the library chooses: its sums are over channels and
// taps, never long.
bool AdjointHolds(const IntegerRun& run, int num_threads, uint64_t seed, const Parallel& parallel) {
  const OpInfo& op = InfoOf(run.problem.op);
  const Role role = ResultRole(op);
  const Tensor third = DenseIntegers(run.problem.dtype, run.problem.ShapeOf(role), seed, parallel);
  Problem other = run.problem;
  other.op = op.depthwise ? Op::kDepthwiseConv2D : Op::kConv2D;
  // The operands that remain: `shared` goes into the other side's computation, `rest` is held
  // against its result.
  const Tensor* shared = &run.first;
  const Tensor* rest = &run.second;
  const bool third_is_first = op.direction == Direction::kBackpropInput;
  if (op.direction == Direction::kForward) {
    other.op = op.depthwise ? Op::kDepthwiseConv2DBackpropInput : Op::kConv2DBackpropInput;
    std::swap(shared, rest);
  }
  Execution execution;
  execution.num_threads = num_threads;
  const Tensor result = third_is_first ? Compute(other, third, *shared, execution)
                                       : Compute(other, *shared, third, execution);
  const std::optional<int64_t> own_side = IntegerInnerProduct(run.result, third);
  return own_side && own_side == IntegerInnerProduct(result, *rest);
}

// True if a 16-bit result is the float32 one, rounded.
bool IsRounded(const Tensor& narrow, const Tensor& wide) {
  return VisitFloat(narrow.dtype(), [&](auto tag) {
    using Stored = typename decltype(tag)::Type;
    for (int64_t i = 0; i < narrow.num_elements(); ++i) {
      const Stored expected = Narrow<Stored>(wide.data<float>()[i]);
      if (Widen(narrow.data<Stored>()[i]) != Widen(expected)) return false;
    }
    return true;
  });
}

bool HoldsForAll(const IntegerRun& run, const ComputeFunction& compute, int num_threads,
                 uint64_t seed, const Parallel& parallel) {
  if (InfoOf(run.problem.dtype).bytes > 2) return AdjointHolds(run, num_threads, seed, parallel);
  Problem wide = run.problem;
  wide.dtype = DType::kFloat32;
  const IntegerRun wide_run = RunOnIntegers(wide, compute, seed, parallel);
  return IsRounded(run.result, wide_run.result) &&
         AdjointHolds(wide_run, num_threads, seed, parallel);
}

int64_t MemoryLimit(const Execution& execution) {
  return execution.max_memory_bytes > 0 ? execution.max_memory_bytes : AvailableMemory() / 5 * 4;
}

// The identity needs all three tensors twice at most, the 16-bit ones in float32 too, and short
// sums on its other side.
bool CanCheckAll(const Problem& problem, const Execution& execution) {
  const ConvGeometry& g = problem.geometry;
  if (g.kernel_h * g.kernel_w * std::max(g.group_in_c, g.group_out_c) > kMaxDenseTerms)
    return false;
  const int64_t bytes = problem.OperandBytes() + problem.ResultBytes();
  const int64_t need = InfoOf(problem.dtype).bytes > 2 ? 2 * bytes : 5 * bytes;
  return need + PlanRun(problem, execution).scratch_bytes <= MemoryLimit(execution);
}

// The same problem with as many images as there is memory for; operands of a measurement may be
// mapped files, those of a probe can't.
Problem FitToMemory(Problem problem, const Execution& execution) {
  const int64_t limit = MemoryLimit(execution);
  while (problem.geometry.batch > 1 && PlanRun(problem, execution).memory_bytes > limit) {
    problem.geometry.batch = CeilDiv(problem.geometry.batch, 2);
  }
  CheckMemory(problem, execution, problem.OperandBytes(), /*operands_are_allocated=*/false);
  return problem;
}

CheckResult CheckLarge(const IntegerRun& run, const Execution& execution, uint64_t seed,
                       const ComputeFunction& compute, const Parallel& parallel) {
  const Problem& problem = run.problem;
  const int64_t count =
      std::clamp<int64_t>(kMaxProbedTerms / std::max<int64_t>(1, problem.MaxTerms()), 64, 1 << 16);
  CheckResult result =
      CheckElements(run, ChooseElements(problem.ResultShape(), count, seed), parallel);
  const bool checks_all = CanCheckAll(problem, execution);
  if (result.counts.fail > 0) {
    result.status = Verdict::kFailed;
    result.reason = fmt::format("{} of {} elements looked at are not the exact integer",
                                result.counts.fail, result.counts.elements);
  } else if (checks_all && !HoldsForAll(run, compute, execution.num_threads, seed, parallel)) {
    result.status = Verdict::kFailed;
    result.reason = "the adjoint identity does not hold over all elements";
  } else {
    result.reason = fmt::format("exact in {} of {} elements{}", result.counts.elements,
                                run.result.num_elements(),
                                checks_all ? ", and the adjoint identity holds over all"
                                           : "; all together would take too much memory");
  }
  return result;
}

}  // namespace

CheckResult QuickProbe(const Problem& problem, const Execution& execution, uint64_t seed) {
  return QuickProbe(problem, execution, seed,
                    [&](const Problem& p, const Tensor& first, const Tensor& second) {
                      return Compute(p, first, second, execution);
                    });
}

CheckResult QuickProbe(const Problem& whole, const Execution& execution, uint64_t seed,
                       const ComputeFunction& compute) {
  const Problem problem = FitToMemory(whole, execution);
  const Parallel parallel(ThreadsOrAll(execution.num_threads));
  const IntegerRun run = RunOnIntegers(problem, compute, seed, parallel);
  const bool is_small = problem.ValidTerms() <= kMaxProbedTerms || run.result.num_elements() == 0;
  CompareOptions options;
  options.precision = execution.precision;
  CheckResult result =
      is_small ? CompareToReference(problem, run.first, run.second, run.result, options, parallel)
               : CheckLarge(run, execution, seed, compute, parallel);
  if (problem.geometry.batch < whole.geometry.batch) {
    result.reason += fmt::format("; of {} images only {}: memory is short", whole.geometry.batch,
                                 problem.geometry.batch);
  }
  return result;
}

}  // namespace convgrad
