// Groups one by one: the source of a group is packed so that its pixels are neighbours, however far
// apart the tensor's are. Pixels of a tile else meet in the same few sets of a cache where they are
// a large power of two apart; and planes of a group are transposed just before they are used.
#include "conv/conv2d/data/group_lanes.h"

#include <fmt/format.h>

#include "conv/conv2d/data/cost.h"
#include "conv/conv2d/data/group_lanes_plan.h"
#include "conv/conv2d/data/group_lanes_runner.h"
#include "conv/move/bfloat16_pairs.h"
#include "conv/plan/function_plan.h"

namespace convgrad {
namespace {

bool Accepts(const Problem& problem, const KernelTable& kernels) {
  if (problem.geometry.groups < 2 || !TapSum::Describes(problem)) return false;
  return !ServesPairs(problem, kernels);  // which takes half the time
}

double Cycles(const Problem& problem, const KernelTable& kernels) {
  return CyclesOf(problem, kernels, LanesForm::kGroups, /*in_pairs=*/false);
}

void Run(const ConvArgs& args) {
  VisitFloat(args.problem.dtype, [&](auto tag) {
    using Stored = typename decltype(tag)::Type;
    const GroupLanesPlan<Stored> plan(args.problem, args.kernels, args.parallel.num_threads());
    GroupLanesRunner<Stored>(args, plan).Run();
  });
}

int64_t ScratchBytes(const Problem& problem, const KernelTable& kernels, int num_threads) {
  return VisitFloat(problem.dtype, [&](auto tag) {
    return GroupLanesPlan<typename decltype(tag)::Type>(problem, kernels, num_threads)
        .ScratchBytes();
  });
}

std::string Tiles(const Problem& problem, const KernelTable& kernels) {
  return VisitFloat(problem.dtype, [&](auto tag) {
    const GroupLanesPlan<typename decltype(tag)::Type> plan(problem, kernels, 1);
    const auto& tile = TilesOfWidth(plan.kernels, plan.panels.cols).front();
    return fmt::format("{}x{} pixels x channels, {} panels a group, {} slabs", tile.rows, tile.cols,
                       plan.panels.count, plan.slabs.size());
  });
}

}  // namespace

const Algorithm kConv2DGroupLanes = {
    .name = "group-lanes",
    .summary = "tiles of pixels by channels, groups packed one by one",
    .can = Accepts,
    .cycles = Cycles,
    .plan = FunctionPlan<ScratchBytes, Tiles, Run>::Make,
};

}  // namespace convgrad
