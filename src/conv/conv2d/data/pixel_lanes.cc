// Which problems have lanes along pixels, and in which form. Padding is multiplied here, so a
// filter with an infinity or a NaN goes the other way.
#include "conv/conv2d/data/algorithms.h"
#include "conv/conv2d/data/cut_plan.h"
#include "conv/conv2d/data/pixel_lanes_cut.h"
#include "conv/conv2d/data/pixel_lanes_runner.h"
#include "conv/move/pairs_plan.h"

namespace convgrad {
namespace {

template <class Stored, class Element>
using PixelLanesPlan = CutPlan<PixelLanesCut<Stored, Element>, PixelLanesRunner<Stored, Element>>;

constexpr int64_t kFewChannels = 8;

// Products of pairs of channels take half the time.
bool PairsPay(const Problem& problem, const KernelTable& kernels, const TapSum& sum) {
  return sum.result_c > kFewChannels && ServesPairs(problem, kernels);
}

// Whole planes are paired where they are.
bool PairsPixelLanes(const Problem& problem, const KernelTable& kernels) {
  const TapSum sum(problem);
  return PairsPay(problem, kernels, sum) && MeetsWholePlanes(sum) &&
         ResultIsPlanes(problem.data_format, sum, PlaneAxis(sum.col_phases));
}

bool ServesPixelLanes(const Problem& problem, const KernelTable&) {
  if (!TapSum::Describes(problem)) return false;
  const TapSum sum(problem);
  if (sum.row_phases.empty() || sum.col_phases.empty()) return false;  // no elements
  return FitsPixelLanes(sum);
}

std::unique_ptr<Plan> PlanPixelLanes(const Problem& problem, const KernelTable& kernels,
                                     int num_threads) {
  return PlanFloat<PixelLanesPlan>(problem, kernels, num_threads,
                                   PairsPixelLanes(problem, kernels));
}

}  // namespace

const Algorithm kConv2DPixelLanes = {
    .name = "pixel-lanes",
    .summary = "tiles of channels by pixels, for few channels and for 1x1 filters on planes",
    .can = ServesPixelLanes,
    .plan = PlanPixelLanes,
    .may_refuse_data = true,
};

}  // namespace convgrad
