// Lanes of a vector are images, or bands of an image's rows, so whole vectors meet whole vectors
// whatever the number of channels and wherever a tap points. Tiles are pixels by channels of the
// result; the source is copied into [row][column][channel][lane]. Columns off the image are
// skipped, and rows where lanes are whole images; in bands rows off the image are multiplied zeros,
// so a filter with an infinity or a NaN goes another way then.
#include "conv/conv2d/data/image_lanes.h"

#include <fmt/format.h>

#include <algorithm>
#include <type_traits>
#include <vector>

#include "base/memory.h"
#include "conv/conv2d/data/cost.h"
#include "conv/conv2d/data/image_lanes_runner.h"
#include "conv/move/bfloat16_pairs.h"
#include "conv/move/filter_panel.h"
#include "conv/plan/function_plan.h"

namespace convgrad {
namespace {

// Of a channel block of a group.
template <class Stored, class Element>
void PackTerms(const ConvArgs& args, const ImageLanesForm<Stored, Element>& plan,
               const FilterPanel& block, Element* to) {
  const auto* filter = static_cast<const Stored*>(args.filter);
  const TapSum& sum = plan.sum;
  if constexpr (ImageLanesForm<Stored, Element>::kPairs) {
    PackFilterPairs(args.kernels.pack_bf16_pairs, args.problem, sum, plan.phases, filter, block,
                    to);
  } else {
    PackFilter(args.kernels.Pack<Stored>(), sum, plan.phases, filter, block, to);
    if (sum.in_pairs) {
      SwapPairs(to, TermsOf(sum, plan.phases) / sum.source_c, sum.source_c, plan.tile_cols);
    }
  }
}

// The same as the kernels take it.
template <class Stored, class Element>
void PackBlock(const ConvArgs& args, const ImageLanesForm<Stored, Element>& plan,
               const FilterPanel& block, Element* to) {
  if (!plan.cuts.slides) return PackTerms(args, plan, block, to);
  AlignedArray<Element> terms(plan.BlockElements());
  PackTerms(args, plan, block, terms.data());
  for (const TapPhase& phase : plan.phases) {
    ArrangeForSliding(phase, plan.sum.source_c, terms.data() + phase.first_term,
                      to + phase.first_term);
  }
}

// Packs the filter and runs all parts.
template <class Stored, class Element>
void RunAll(const ConvArgs& args, const ImageLanesForm<Stored, Element>& plan) {
  using Runner = ImageLanesRunner<Stored, Element>;
  const TapSum& sum = plan.sum;
  AlignedArray<Element> filter(plan.FilterElements());
  args.parallel.For(sum.groups * plan.channel_blocks, [&](int64_t i) {
    const int64_t first = i % plan.channel_blocks * plan.tile_cols;
    PackBlock<Stored, Element>(args, plan,
                               {i / plan.channel_blocks, first,
                                std::min(plan.tile_cols, sum.result_c - first), plan.tile_cols},
                               filter.data() + i * plan.BlockElements());
  });
  std::vector<typename Runner::Scratch> scratch(static_cast<size_t>(args.parallel.num_threads()));
  args.parallel.For(plan.cuts.NumParts(), [&](int64_t i) {
    auto& thread = scratch[static_cast<size_t>(Parallel::ThreadIndex())];
    if (thread.sums.size() == 0) thread.Allocate(plan);
    Runner(args, plan, filter.data(), plan.cuts.PartAt(i), thread).Run();
  });
}

bool Accepts(const Problem& problem, const KernelTable&) {
  if (!TapSum::Describes(problem)) return false;
  const TapSum sum(problem);
  if (sum.row_phases.empty() || sum.col_phases.empty()) return false;  // no elements
  return FitsImageLanes(sum);
}

// Pairs of channels side by side, where no pair is half empty.
bool TakesPairs(const Problem& problem, const KernelTable& kernels) {
  return ServesPairs(problem, kernels) && TapSum(problem).source_c % 2 == 0;
}

double Cycles(const Problem& problem, const KernelTable& kernels) {
  return CyclesOf(problem, kernels, LanesForm::kImages, TakesPairs(problem, kernels));
}

// f(TypeTag<Stored>, TypeTag<Element>) with the source's form.
template <class F>
decltype(auto) VisitForms(const Problem& problem, bool in_pairs, F&& f) {
  return VisitFloat(problem.dtype, [&](auto stored) -> decltype(auto) {
    using Stored = typename decltype(stored)::Type;
    if constexpr (std::is_same_v<Stored, BFloat16>) {
      if (in_pairs) return f(stored, TypeTag<BFloat16Pair>{});
    }
    return f(stored, TypeTag<ComputeType<Stored>>{});
  });
}

bool Run(const ConvArgs& args) {
  const bool in_pairs = TakesPairs(args.problem, args.kernels) && PairsAreExact(args);
  return VisitForms(args.problem, in_pairs, [&](auto stored, auto element) {
    using Stored = typename decltype(stored)::Type;
    using Element = typename decltype(element)::Type;
    const ImageLanesForm<Stored, Element> plan(args.problem, args.kernels,
                                               args.parallel.num_threads());
    const int64_t filter_size = *CheckedProduct(args.problem.ShapeOf(Role::kFilter));
    if (!plan.cuts.whole_images() && !IsFinite<Stored>(args.filter, filter_size)) {
      return false;
    }
    RunAll<Stored, Element>(args, plan);
    return true;
  });
}

int64_t ScratchBytes(const Problem& problem, const KernelTable& kernels, int num_threads) {
  // Pairs may have to give way to numbers of the compute type.
  int64_t bytes = 0;
  for (const bool in_pairs : {false, TakesPairs(problem, kernels)}) {
    VisitForms(problem, in_pairs, [&](auto stored, auto element) {
      const ImageLanesForm<typename decltype(stored)::Type, typename decltype(element)::Type> plan(
          problem, kernels, num_threads);
      bytes = std::max(bytes, plan.ScratchBytes());
    });
  }
  return bytes;
}

std::string Tiles(const Problem& problem, const KernelTable& kernels) {
  return VisitForms(problem, TakesPairs(problem, kernels), [&](auto stored, auto element) {
    const ImageLanesForm<typename decltype(stored)::Type, typename decltype(element)::Type> plan(
        problem, kernels, 1);
    const bool slides = plan.cuts.slides;
    return fmt::format("{}x{} pixels x {} of {} lanes, {} bands of {} rows an image{}",
                       slides ? plan.sliding.front().rows : plan.tiles.front().rows,
                       slides ? plan.sliding.front().cols : plan.tile_cols,
                       slides ? "sliding rows" : "channels", plan.kernels.lanes,
                       plan.cuts.bands.count, plan.cuts.bands.positions,
                       plan.kPairs ? ", in pairs" : "");
  });
}

}  // namespace

const Algorithm kConv2DImageLanes = {
    .name = "image-lanes",
    .summary = "tiles of pixels by channels, lanes along images, for few or odd channels",
    .can = Accepts,
    .cycles = Cycles,
    .plan = FunctionPlan<ScratchBytes, Tiles, Run>::Make,
    .may_refuse_data = true,
};

}  // namespace convgrad
