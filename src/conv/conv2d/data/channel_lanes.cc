// Rows of the micro-kernel are pixels of the result, columns its channels. Pixels that meet the
// same taps form a class; tiles take rows from anywhere in a class, so padding is skipped, not
// multiplied, and nothing is copied to make rows. The filter is packed once into panels.
#include "conv/conv2d/data/channel_lanes.h"

#include <fmt/format.h>

#include <algorithm>
#include <type_traits>

#include "conv/conv2d/data/channel_lanes_plan.h"
#include "conv/conv2d/data/channel_lanes_runner.h"
#include "conv/conv2d/data/cost.h"
#include "conv/move/bfloat16_pairs.h"
#include "conv/plan/function_plan.h"

namespace convgrad {
namespace {

template <class Stored, class Element>
using Plan = ChannelLanesPlan<Stored, Element>;

// f(TypeTag<Stored>, TypeTag<Element>) with the operands' form: pairs wherever the tree takes terms
// in pairs and the processor has instructions for them.
template <class F>
decltype(auto) VisitForms(const Problem& problem, const KernelTable& kernels, F&& f) {
  return VisitFloat(problem.dtype, [&](auto stored) -> decltype(auto) {
    using Stored = typename decltype(stored)::Type;
    if constexpr (std::is_same_v<Stored, BFloat16>) {
      if (ServesPairs(problem, kernels)) return f(stored, TypeTag<BFloat16Pair>{});
    }
    return f(stored, TypeTag<ComputeType<Stored>>{});
  });
}

template <class Stored, class Element>
int64_t ScratchBytesOf(const Problem& problem, const KernelTable& kernels, int num_threads) {
  return Plan<Stored, Element>(problem, kernels, num_threads).ScratchBytes();
}

int64_t ScratchBytes(const Problem& problem, const KernelTable& kernels, int num_threads) {
  return VisitForms(problem, kernels, [&](auto stored, auto element) {
    using Stored = typename decltype(stored)::Type;
    using Element = typename decltype(element)::Type;
    // Pairs may have to give way to numbers of the compute type.
    return std::max(ScratchBytesOf<Stored, Element>(problem, kernels, num_threads),
                    ScratchBytesOf<Stored, ComputeType<Stored>>(problem, kernels, num_threads));
  });
}

std::string Tiles(const Problem& problem, const KernelTable& kernels) {
  return VisitForms(problem, kernels, [&](auto stored, auto element) {
    using Stored = typename decltype(stored)::Type;
    const Plan<Stored, typename decltype(element)::Type> plan(problem, kernels, 1);
    const auto& tile = TilesOfWidth(plan.kernels, plan.panels.cols).front();
    int64_t blocks = 0;
    for (const TapPhase& phase : plan.phases) {
      blocks = std::max(blocks, static_cast<int64_t>(phase.blocks.size()));
    }
    return fmt::format("{}x{} pixels x channels, {} panels, {} blocks{}", tile.rows, tile.cols,
                       plan.NumPanels(), blocks, plan.kPairs ? ", in pairs" : "");
  });
}

template <class Stored, class Element>
void RunForm(const ConvArgs& args) {
  const Plan<Stored, Element> plan(args.problem, args.kernels, args.parallel.num_threads());
  ChannelLanesRunner<Stored, Element>(args, plan).Run();
}

void Run(const ConvArgs& args) {
  VisitForms(args.problem, args.kernels, [&](auto stored, auto element) {
    using Stored = typename decltype(stored)::Type;
    using Element = typename decltype(element)::Type;
    if constexpr (std::is_same_v<Element, BFloat16Pair>) {
      if (PairsAreExact(args)) return RunForm<Stored, Element>(args);
    }
    RunForm<Stored, ComputeType<Stored>>(args);
  });
}

}  // namespace

const Algorithm kConv2DChannelLanes = {
    .name = "channel-lanes",
    .summary = "tiles of pixels by channels, padding skipped",
    .can = [](const Problem& problem, const KernelTable&) { return TapSum::Describes(problem); },
    .cycles =
        [](const Problem& problem, const KernelTable& kernels) {
          return CyclesOf(problem, kernels, LanesForm::kChannels, ServesPairs(problem, kernels));
        },
    .plan = FunctionPlan<ScratchBytes, Tiles, Run>::Make,
};

}  // namespace convgrad
