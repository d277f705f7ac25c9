// The work of a planned run, counted kind by kind: the only thing that the cost model knows of a
// plan. A kind is what takes about as long wherever it occurs, on one machine and vector width.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace convgrad {

enum class WorkKind {
  kGemmFma,     // multiply-adds of a vector in the matrix micro-kernels (kernels/gemm)
  kGemmLoad,    // vectors loaded for them
  kGemmSingle,  // single numbers loaded for them, each to all lanes
  kWholeFma,    // multiply-adds of a vector in kernels on whole vectors (kernels/whole_vectors)
  kWholeLoad,   // vectors and single numbers loaded for them
  kRowFma,      // multiply-adds of a vector in kernels on rows of channels (kernels/depthwise)
  kPlaneFma,    // multiply-adds of a vector in kernels on planes (kernels/depthwise/plane.h)
  kPlaneLoad,   // vectors and weights loaded for them
  kSegment,     // loops over terms begun, each of a tile
  kFold,        // vectors of block sums folded, rounded or stored
  kCall,        // calls of a kernel
  kCopied,      // numbers of 4 bytes copied, converted or packed in the order in which they lie
  kTransposed,  // numbers that go from planes to channels innermost, or back
  kScattered,   // numbers that are moved one by one, or each from a line of its own
  kRun,         // pieces of memory in which numbers are moved
  kTask,        // parts of the work begun: places found, buffers cleared
  kFarLine,     // lines that a kernel reads again from beyond the first-level cache
};
inline constexpr size_t kNumWorkKinds = 17;

// In the order of the kinds, for tables: "gemm_fma", ...
inline constexpr std::array<const char*, kNumWorkKinds> kWorkKindNames = {
    "gemm_fma",   "gemm_load",  "gemm_single", "whole_fma", "whole_load", "row_fma",
    "plane_fma",  "plane_load", "segment",     "fold",      "call",       "copied",
    "transposed", "scattered",  "run",         "task",      "far_line"};

// So many bytes stay in the first-level cache while a kernel runs.
inline constexpr int64_t kFirstCacheBytes = int64_t{32} << 10;

// Multiply-adds of vectors that are issued while a sum waits for its last term, four cycles: one a
// cycle of 64 bytes, two of narrower ones.
constexpr int64_t WaitingSlots(bool wide) {
  return wide ? 4 : 8;
}

// Sums that a tile of the depthwise kernels needs lest its loop wait for them.
inline constexpr int64_t kFewestSums = 4;

// Multiplies counts whose product an integer may not hold.
double Product(auto... factors) {
  return (static_cast<double>(factors) * ...);
}

// As issued: surplus lanes and multiplied padding count, and where a loop waits for its own sums,
// what could have been issued meanwhile. Of all threads together.
class Work {
 public:
  void Add(WorkKind kind, double count) { counts_[static_cast<size_t>(kind)] += count; }
  double Of(WorkKind kind) const { return counts_[static_cast<size_t>(kind)]; }
  const std::array<double, kNumWorkKinds>& counts() const { return counts_; }

  // Tasks that threads can have at the same time: all that are counted, unless others wait for
  // some of them, or one thread does several one after the other.
  void LimitTasksAtOnce(double tasks) { tasks_at_once_ = tasks; }
  double TasksAtOnce() const { return std::min(Of(WorkKind::kTask), tasks_at_once_); }

 private:
  std::array<double, kNumWorkKinds> counts_ = {};
  double tasks_at_once_ = std::numeric_limits<double>::infinity();
};

}  // namespace convgrad
