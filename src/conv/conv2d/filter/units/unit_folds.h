// The sums of forms that have few of them: every run of blocks is added up in double by itself,
// some runs at a time, and folded into the totals in order.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/memory.h"
#include "kernels/kernel_table.h"
#include "order/canonical_order.h"

namespace convgrad {

template <class Compute>
class UnitFolds {
 public:
  UnitFolds(int64_t num_units, int64_t unit_sums, int64_t num_blocks)
      : num_units_(num_units), unit_sums_(unit_sums), num_runs_(CeilDiv(num_blocks, kRunBlocks)) {}

  // Doubles of a unit's run: sums, and of double as many errors behind them.
  int64_t Size() const { return unit_sums_ * (kHasErrors ? 2 : 1); }
  double* Errors(double* sums) const { return kHasErrors ? sums + unit_sums_ : nullptr; }
  int64_t RunsAtOnce() const {
    return std::clamp<int64_t>(kWaitingBytes / RunBytes(), 1, num_runs_);
  }
  int64_t ScratchBytes() const { return RunBytes() * (1 + RunsAtOnce()); }

  // add_runs(first_run, num_runs, sums) writes [run][unit] of so many runs; finish(unit, total)
  // takes the totals.
  template <class AddRuns, class Finish>
  void Run(const DepthwiseKernels<Compute>& kernels, const AddRuns& add_runs,
           const Finish& finish) const {
    const int64_t size = Size(), runs_at_once = RunsAtOnce();
    AlignedArray<double> totals(num_units_ * size), sums(runs_at_once * num_units_ * size);
    std::fill_n(totals.data(), totals.size(), 0.0);
    for (int64_t first = 0; first < num_runs_; first += runs_at_once) {
      const int64_t num_runs = std::min(runs_at_once, num_runs_ - first);
      add_runs(first, num_runs, sums.data());
      for (int64_t i = 0; i < num_runs * num_units_; ++i) {
        double *run = sums.data() + i * size, *total = totals.data() + i % num_units_ * size;
        kernels.fold_run(run, Errors(run), total, Errors(total), unit_sums_);
      }
    }
    for (int64_t unit = 0; unit < num_units_; ++unit) finish(unit, totals.data() + unit * size);
  }

 private:
  static constexpr int64_t kWaitingBytes = int64_t{8} << 20;  // of runs that wait to be folded
  static constexpr bool kHasErrors = sizeof(Compute) == sizeof(double);

  int64_t RunBytes() const { return num_units_ * Size() * int64_t{sizeof(double)}; }

  const int64_t num_units_, unit_sums_, num_runs_;
};

}  // namespace convgrad
