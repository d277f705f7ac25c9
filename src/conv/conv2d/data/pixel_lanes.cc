// Which problems have lanes along pixels, and in which form. Padding is multiplied here, so a
// filter with an infinity or a NaN goes the other way.
#include "conv/conv2d/data/pixel_lanes.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "conv/conv2d/data/cost.h"
#include "conv/conv2d/data/pixel_lanes_plan.h"
#include "conv/conv2d/data/pixel_lanes_runner.h"
#include "conv/move/bfloat16_pairs.h"
#include "conv/move/filter_panel.h"
#include "conv/plan/function_plan.h"

namespace convgrad {
namespace {

template <class Stored, class Element = ComputeType<Stored>>
using Plan = PixelLanesPlan<Stored, Element>;

// Positions and taps that meet padding make the difference between these two.
struct TermCount {
  double valid, all;
};
TermCount CountTerms(const TapSum& sum) {
  const auto count = [](const std::vector<AxisPhase>& phases) {
    TermCount terms{0, 0};
    for (const AxisPhase& phase : phases) {
      terms.all += static_cast<double>(phase.count) * static_cast<double>(phase.taps.size());
      for (const AxisClass& c : phase.classes) {
        terms.valid +=
            static_cast<double>(c.end - c.begin) * static_cast<double>(c.tap_end - c.tap_begin);
      }
    }
    return terms;
  };
  const TermCount rows = count(sum.row_phases), cols = count(sum.col_phases);
  return {rows.valid * cols.valid, rows.all * cols.all};
}

constexpr int64_t kFewChannels = 8;

// Products of pairs of channels take half the time. Whole planes are paired where they are; else
// channels side by side are what it takes, which is channel-lanes' way.
enum class PairForm { kNone, kPlanes, kChannelLanes };
PairForm PairFormOf(const Problem& problem, const KernelTable& kernels, const TapSum& sum) {
  if (sum.result_c <= kFewChannels || !ServesPairs(problem, kernels)) return PairForm::kNone;
  const bool planes =
      ResultIsPlanes(problem.data_format, sum, PlaneAxis(sum.col_phases)) && MeetsWholePlanes(sum);
  return planes ? PairForm::kPlanes : PairForm::kChannelLanes;
}
bool TakesPairs(const Problem& problem, const KernelTable& kernels) {
  return PairFormOf(problem, kernels, TapSum(problem)) == PairForm::kPlanes;
}

bool Accepts(const Problem& problem, const KernelTable& kernels) {
  if (!TapSum::Describes(problem)) return false;
  const TapSum sum(problem);
  if (sum.row_phases.empty() || sum.col_phases.empty()) return false;  // no elements
  if (PairFormOf(problem, kernels, sum) == PairForm::kChannelLanes) return false;
  // Planes hold the padding.
  const TermCount terms = CountTerms(sum);
  return terms.valid * 1.5 >= terms.all;
}

double Cycles(const Problem& problem, const KernelTable& kernels) {
  return CyclesOf(problem, kernels, LanesForm::kPixels, TakesPairs(problem, kernels));
}

bool Run(const ConvArgs& args) {
  if (TakesPairs(args.problem, args.kernels) && PairsAreExact(args)) {
    const Plan<BFloat16, BFloat16Pair> plan(args.problem, args.kernels,
                                            args.parallel.num_threads());
    PixelLanesRunner<BFloat16, BFloat16Pair>(args, plan).Run();
    return true;
  }
  return VisitFloat(args.problem.dtype, [&](auto tag) {
    using Stored = typename decltype(tag)::Type;
    const Plan<Stored> plan(args.problem, args.kernels, args.parallel.num_threads());
    const TermCount terms = CountTerms(plan.sum);
    const int64_t filter_size = *CheckedProduct(args.problem.ShapeOf(Role::kFilter));
    if (terms.valid < terms.all && !IsFinite<Stored>(args.filter, filter_size)) {
      return false;
    }
    PixelLanesRunner<Stored, ComputeType<Stored>>(args, plan).Run();
    return true;
  });
}

int64_t ScratchBytes(const Problem& problem, const KernelTable& kernels, int num_threads) {
  const int64_t widened = VisitFloat(problem.dtype, [&](auto tag) {
    const Plan<typename decltype(tag)::Type> plan(problem, kernels, num_threads);
    return plan.ScratchBytes();
  });
  if (!TakesPairs(problem, kernels)) return widened;
  const Plan<BFloat16, BFloat16Pair> plan(problem, kernels, num_threads);
  return std::max(plan.ScratchBytes(), widened);
}

template <class Stored, class Element>
std::string DescribeTiles(const Plan<Stored, Element>& plan) {
  return fmt::format("{}x{} channels x pixels, {} bands of {} rows{}", plan.tile_rows,
                     plan.panel_cols, plan.num_bands, plan.band_positions,
                     plan.kPairs ? ", in pairs" : "");
}

std::string Tiles(const Problem& problem, const KernelTable& kernels) {
  if (TakesPairs(problem, kernels)) {
    return DescribeTiles(Plan<BFloat16, BFloat16Pair>(problem, kernels, 1));
  }
  return VisitFloat(problem.dtype, [&](auto tag) {
    return DescribeTiles(Plan<typename decltype(tag)::Type>(problem, kernels, 1));
  });
}

}  // namespace

const Algorithm kConv2DPixelLanes = {
    .name = "pixel-lanes",
    .summary = "tiles of channels by pixels, for few channels and for 1x1 filters on planes",
    .can = Accepts,
    .cycles = Cycles,
    .plan = FunctionPlan<ScratchBytes, Tiles, Run>::Make,
    .may_refuse_data = true,
};

}  // namespace convgrad
