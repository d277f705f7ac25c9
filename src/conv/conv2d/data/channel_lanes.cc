// Rows of the micro-kernel are pixels of the result, columns its channels. Pixels that meet the
// same taps form a class; tiles take rows from anywhere in a class, so padding is skipped, not
// multiplied, and nothing is copied to make rows. The filter is packed once into panels.
#include "conv/conv2d/data/algorithms.h"
#include "conv/conv2d/data/channel_lanes_cut.h"
#include "conv/conv2d/data/channel_lanes_runner.h"
#include "conv/conv2d/data/cut_plan.h"
#include "conv/move/pairs_plan.h"

namespace convgrad {
namespace {

template <class Stored, class Element>
using ChannelLanesPlan =
    CutPlan<ChannelLanesCut<Stored, Element>, ChannelLanesRunner<Stored, Element>>;

// Pairs wherever the tree takes terms in pairs and the processor has instructions for them.
std::unique_ptr<Plan> PlanChannelLanes(const Problem& problem, const KernelTable& kernels,
                                       int num_threads) {
  return PlanFloat<ChannelLanesPlan>(problem, kernels, num_threads, ServesPairs(problem, kernels));
}

}  // namespace

const Algorithm kConv2DChannelLanes = {
    .name = "channel-lanes",
    .summary = "tiles of pixels by channels, padding skipped",
    .can = [](const Problem& problem, const KernelTable&) { return TapSum::Describes(problem); },
    .plan = PlanChannelLanes,
};

}  // namespace convgrad
