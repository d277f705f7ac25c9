// Depthwise filter gradient: units (a chunk of channels x some taps) whose block sums stay in the
// first cache, over runs of blocks of output pixels. Units and runs are dealt to threads; the sums
// of runs are kept apart and folded in order.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <vector>

#include "base/checked.h"
#include "conv/depthwise/algorithms.h"
#include "conv/depthwise/filter/piece.h"
#include "conv/depthwise/filter/plan.h"
#include "conv/plan/function_plan.h"

namespace convgrad {
namespace {

// Element is what the kernel reads: Stored where both operands are in place, else Compute.
template <class Stored, class Element>
class FilterEngine {
 public:
  using Compute = ComputeType<Stored>;

  FilterEngine(const ConvArgs& args, const FilterPlan& plan)
      : args_(args),
        plan_(plan),
        kernels_(args.kernels.Depthwise<Compute>()),
        row_kernels_(args.kernels.DepthwiseRows<Element>()),
        pieces_(static_cast<size_t>(args.parallel.num_threads())),
        totals_(plan.units_at_once * plan.FoldSize()),
        runs_(plan.units_at_once * plan.runs_at_once * plan.FoldSize()) {}

  void Run();

 private:
  FilterPiece<Stored, Element>& PieceOfThread();
  void RunUnits(Range units);
  void FoldRuns(int64_t slot, int64_t num_runs);
  void OrderGroups(Compute* sums, int64_t count) const;
  void OrderParts(int64_t channels, Compute* sums) const;
  void Finish(const FilterUnit& unit, double* total);

  double* Errors(double* fold) const { return plan_.f64 ? fold + plan_.UnitSize() : nullptr; }
  double* TotalOf(int64_t slot) { return totals_.data() + slot * plan_.FoldSize(); }
  double* RunOf(int64_t slot, int64_t run) {
    return runs_.data() + (slot * plan_.runs_at_once + run) * plan_.FoldSize();
  }

  const ConvArgs& args_;
  const FilterPlan& plan_;
  const DepthwiseKernels<Compute>& kernels_;
  const DepthwiseRowKernels<Element>& row_kernels_;
  std::vector<std::unique_ptr<FilterPiece<Stored, Element>>> pieces_;  // by thread
  AlignedArray<double> totals_, runs_;
};

template <class Stored, class Element>
auto FilterEngine<Stored, Element>::PieceOfThread() -> FilterPiece<Stored, Element>& {
  std::unique_ptr<FilterPiece<Stored, Element>>& piece =
      pieces_[static_cast<size_t>(Parallel::ThreadIndex())];
  if (piece == nullptr) {
    piece = std::make_unique<FilterPiece<Stored, Element>>(
        plan_, args_.kernels, static_cast<const Stored*>(args_.input),
        static_cast<const Stored*>(args_.out_backprop));
  }
  return *piece;
}

// The runs of a unit to its total, in order.
template <class Stored, class Element>
void FilterEngine<Stored, Element>::FoldRuns(int64_t slot, int64_t num_runs) {
  double* total = TotalOf(slot);
  for (int64_t run = 0; run < num_runs; ++run) {
    double* fold = RunOf(slot, run);
    kernels_.fold_run(fold, Errors(fold), total, Errors(total), plan_.UnitSize());
  }
}

// Sums as the kernel leaves them, whole groups, in the order of the channels.
template <class Stored, class Element>
void FilterEngine<Stored, Element>::OrderGroups(Compute* sums, int64_t count) const {
  const int64_t group = row_kernels_.group, parts = row_kernels_.parts;
  if (parts == 1) return;
  std::vector<Compute> parted(static_cast<size_t>(group));
  for (Compute* first = sums; first != sums + count; first += group) {
    std::copy_n(first, group, parted.begin());
    for (int64_t i = 0; i < group; ++i) first[i] = parted[i % parts * (group / parts) + i / parts];
  }
}

// Sums of a tap, parts of whole vectors, in the order of the result.
template <class Stored, class Element>
void FilterEngine<Stored, Element>::OrderParts(int64_t channels, Compute* sums) const {
  const int64_t size = plan_.PartSize(channels), part_sums = plan_.PartSums(channels);
  const int64_t parts = plan_.parts, lanes = plan_.lanes;
  // The last vector of a part is of its last channels, wherever they begin.
  for (int64_t part = 0; lanes < size && size < part_sums && part < parts; ++part) {
    Compute* const first = sums + part * part_sums;
    std::copy_n(first + part_sums - lanes, lanes, first + size - lanes);
  }
  if (parts == 1) return;
  const std::vector<Compute> apart(sums, sums + parts * part_sums);
  for (int64_t i = 0; i < size * parts; ++i) sums[i] = apart[i % parts * part_sums + i / parts];
}

// The rounded sums of one unit into the result.
template <class Stored, class Element>
void FilterEngine<Stored, Element>::Finish(const FilterUnit& unit, double* total) {
  const PackKernels<Stored>& pack = args_.kernels.Pack<Stored>();
  auto* const result = static_cast<Stored*>(args_.result);
  const int64_t size = unit.channels.size() * plan_.multiplier;
  const int64_t tap_size = plan_.TapSize(unit.channels.size());
  AlignedArray<Compute> sums(tap_size);
  for (int64_t row = 0; row < unit.row_taps.size(); ++row) {
    for (int64_t col = 0; col < unit.col_taps.size(); ++col) {
      const int64_t at = (row * unit.col_taps.size() + col) * tap_size;
      double* error = plan_.f64 ? Errors(total) + at : nullptr;
      kernels_.finish(total + at, error, sums.data(), tap_size, sizeof(Stored) == 2);
      OrderGroups(sums.data(), tap_size);
      const int64_t tap =
          (unit.row_taps.begin + row) * plan_.cols.kernel + unit.col_taps.begin + col;
      Stored* to = result + tap * plan_.output.c + unit.channels.begin * plan_.multiplier;
      OrderParts(unit.channels.size(), sums.data());
      pack.narrow(sums.data(), to, size);
    }
  }
}

// Who sums the last part of a unit's runs folds them too: one loop on the threads instead of three,
// each of which would wait for the slowest.
template <class Stored, class Element>
void FilterEngine<Stored, Element>::RunUnits(Range units) {
  std::fill_n(totals_.data(), totals_.size(), 0.0);
  std::vector<std::atomic<int64_t>> parts_left(static_cast<size_t>(units.size()));
  for (int64_t first = 0; first < plan_.num_runs(); first += plan_.runs_at_once) {
    const int64_t num_runs = std::min(plan_.runs_at_once, plan_.num_runs() - first);
    const int64_t parts = std::min(plan_.run_parts, num_runs);
    for (auto& left : parts_left) left = parts;
    args_.parallel.For(units.size() * parts, [&](int64_t i) {
      const int64_t slot = i / parts;
      const Range part = PartOf(num_runs, parts, i % parts);
      PieceOfThread().SumRuns(units.begin + slot, {first + part.begin, first + part.end},
                              RunOf(slot, part.begin));
      if (--parts_left[static_cast<size_t>(slot)] > 0) return;
      FoldRuns(slot, num_runs);
      if (first + num_runs < plan_.num_runs()) return;
      Finish(plan_.UnitAt(units.begin + slot), TotalOf(slot));
    });
  }
}

template <class Stored, class Element>
void FilterEngine<Stored, Element>::Run() {
  for (int64_t begin = 0; begin < plan_.num_units(); begin += plan_.units_at_once) {
    RunUnits({begin, std::min(plan_.num_units(), begin + plan_.units_at_once)});
  }
}

void RunFilter(const ConvArgs& args) {
  const FilterPlan plan(args.problem, args.kernels, args.parallel.num_threads());
  VisitFloat(args.problem.dtype, [&](auto tag) {
    using Stored = typename decltype(tag)::Type;
    if (plan.input_in_place) {
      FilterEngine<Stored, Stored>(args, plan).Run();
    } else {
      FilterEngine<Stored, ComputeType<Stored>>(args, plan).Run();
    }
  });
}

int64_t FilterScratch(const Problem& problem, const KernelTable& kernels, int num_threads) {
  const FilterPlan plan(problem, kernels, num_threads);
  return plan.piece_bytes() * num_threads +
         plan.units_at_once * (plan.runs_at_once + 1) * plan.FoldSize() * int64_t{sizeof(double)};
}

std::string FilterTiles(const Problem& problem, const KernelTable& kernels) {
  const FilterPlan plan(problem, kernels, 1);
  return fmt::format("{} channels x {} rows of taps a unit, {} blocks, {}", plan.chunks.widest(),
                     CeilDiv(plan.rows.kernel, plan.row_groups), plan.blocks.size(),
                     plan.input_in_place ? "in place" : "through strips");
}

}  // namespace

const Algorithm kDepthwiseFilterAlgorithm = {
    .name = "direct",
    .summary = "depthwise filter gradient, lanes along channels, padding skipped",
    .can = [](const Problem&, const KernelTable&) { return true; },
    .plan = FunctionPlan<FilterScratch, FilterTiles, RunFilter>::Make,
};

}  // namespace convgrad
