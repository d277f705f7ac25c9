// Lanes of a vector are images, or bands of an image's rows, so whole vectors meet whole vectors
// whatever the number of channels and wherever a tap points. Tiles are pixels by channels of the
// result; the source is copied into [row][column][channel][lane]. Columns off the image are
// skipped, and rows where lanes are whole images; in bands rows off the image are multiplied zeros,
// so a filter with an infinity or a NaN goes another way then.
#include "conv/conv2d_image_lanes.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/memory.h"
#include "conv/conv2d_channel_lanes.h"
#include "conv/filter_panel.h"
#include "conv/image_lanes_runner.h"

namespace convgrad {
namespace {

// Packs the filter and runs all parts.
template <class Stored>
void RunAll(const ConvArgs& args, const ImageLanesForm<Stored>& plan) {
  using Compute = ComputeType<Stored>;
  const TapSum& sum = plan.sum;
  AlignedArray<Compute> filter(plan.FilterElements());
  args.parallel.For(sum.groups * plan.channel_blocks, [&](int64_t i) {
    const int64_t first = i % plan.channel_blocks * plan.tile_cols;
    PackFilter(args.kernels.Pack<Stored>(), sum, plan.phases,
               static_cast<const Stored*>(args.filter),
               {i / plan.channel_blocks, first, std::min(plan.tile_cols, sum.result_c - first),
                plan.tile_cols},
               filter.data() + i * plan.BlockElements());
    if (sum.in_pairs) {
      SwapPairs(filter.data() + i * plan.BlockElements(), TermsOf(sum, plan.phases) / sum.source_c,
                sum.source_c, plan.tile_cols);
    }
  });
  std::vector<typename ImageLanesRunner<Stored>::Scratch> scratch(
      static_cast<size_t>(args.parallel.num_threads()));
  args.parallel.For(plan.cuts.NumParts(), [&](int64_t i) {
    auto& thread = scratch[static_cast<size_t>(Parallel::ThreadIndex())];
    if (thread.sums.size() == 0) {
      thread.source = AlignedArray<Compute>(plan.cuts.source_vectors * plan.kernels.lanes);
      thread.result = AlignedArray<Compute>(plan.cuts.result_vectors * plan.kernels.lanes);
      thread.sums = AlignedArray<double>(plan.SumsPerThread());
    }
    ImageLanesRunner<Stored>(args, plan, filter.data(), plan.cuts.PartAt(i), thread).Run();
  });
}

bool Accepts(const Problem& problem) {
  if (!TapSum::Describes(problem)) return false;
  const TapSum sum(problem);
  if (sum.row_phases.empty() || sum.col_phases.empty()) return false;  // no elements
  return ImageLanesPay(problem, sum);
}

void Run(const ConvArgs& args) {
  VisitFloat(args.problem.dtype, [&](auto tag) {
    using Stored = typename decltype(tag)::Type;
    const ImageLanesForm<Stored> plan(args.problem, args.kernels, args.parallel.num_threads());
    const int64_t filter_size = *CheckedProduct(args.problem.ShapeOf(Role::kFilter));
    if (!plan.cuts.whole_images() && !IsFinite<Stored>(args.filter, filter_size)) {
      kConv2DChannelLanes.run(args);
    } else {
      RunAll<Stored>(args, plan);
    }
  });
}

int64_t ScratchBytes(const Problem& problem, const KernelTable& kernels, int num_threads) {
  return VisitFloat(problem.dtype, [&](auto tag) {
    const ImageLanesForm<typename decltype(tag)::Type> plan(problem, kernels, num_threads);
    return std::max(plan.ScratchBytes(),
                    kConv2DChannelLanes.scratch_bytes(problem, kernels, num_threads));
  });
}

std::string Tiles(const Problem& problem, const KernelTable& kernels) {
  return VisitFloat(problem.dtype, [&](auto tag) {
    const ImageLanesForm<typename decltype(tag)::Type> plan(problem, kernels, 1);
    return fmt::format("{}x{} pixels x channels of {} lanes, {} bands of {} rows an image",
                       plan.tiles.front().rows, plan.tile_cols, plan.kernels.lanes,
                       plan.cuts.bands.count, plan.cuts.bands.positions);
  });
}

}  // namespace

const Algorithm kConv2DImageLanes = {
    .name = "image-lanes",
    .summary = "tiles of pixels by channels, lanes along images, for few or odd channels",
    .accepts = Accepts,
    .scratch_bytes = ScratchBytes,
    .tiles = Tiles,
    .run = Run,
};

}  // namespace convgrad
