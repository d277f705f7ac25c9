// Which problems have lanes along pixels, and in which form. Padding is multiplied here, so a
// filter with an infinity or a NaN goes the other way.
#include "conv/conv2d_pixel_lanes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "conv/bfloat16_pairs.h"
#include "conv/conv2d_channel_lanes.h"
#include "conv/filter_panel.h"
#include "conv/pixel_lanes_plan.h"
#include "conv/pixel_lanes_runner.h"

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

// Whether few channels of a pixel are better served by vectors that they leave partly empty than by
// transposing the source: rough counts of cycles, for a channel of the source of an image. In
// groups neighbouring vectors are short and far apart.
bool LanesAlongChannelsPay(const TapSum& sum, const TermCount& terms, const KernelTable& kernels,
                           int64_t element_bytes) {
  constexpr double kTransposing = 0.65;  // a number
  if (sum.groups > 1) return false;
  const auto number = [](int64_t value) { return static_cast<double>(value); };
  const double lanes = number(kernels.vector_bytes / element_bytes);
  // The micro-kernel takes half a vector where that is enough, of 64 bytes.
  const bool halves = kernels.isa == Isa::kAvx512 && 2 * number(sum.result_c) <= lanes;
  const double vectors = halves ? 0.5 : std::ceil(number(sum.result_c) / lanes);
  return terms.valid * vectors < terms.all * number(sum.result_c) / lanes +
                                     kTransposing * number(sum.source_h * sum.source_w);
}

bool Accepts(const Problem& problem, const KernelTable& kernels) {
  constexpr int64_t kLargeFilter = 1 << 22;
  constexpr int64_t kManyChannels = 128;
  if (!TapSum::Describes(problem)) return false;
  const TapSum sum(problem);
  if (sum.row_phases.empty() || sum.col_phases.empty()) return false;  // no elements
  // With many channels on both sides transposing costs less than what fuller tiles gain.
  const bool few_terms =
      sum.source_c * sum.result_c <= kManyChannels * (sum.source_c + sum.result_c);
  const bool pointwise = sum.kernel_h == 1 && sum.kernel_w == 1 && few_terms &&
                         sum.source_c * sum.result_c * sum.groups <= kLargeFilter &&
                         ResultIsPlanes(problem.data_format, sum, PlaneAxis(sum.col_phases));
  // To copy what a stride sets apart costs more than empty lanes.
  const int64_t most_step = problem.data_format == DataFormat::kNHWC ? 2 : 1;
  const bool scattered =
      sum.kernel_h * sum.kernel_w > 1 && sum.col_phases.front().source_step > most_step;
  if (!pointwise && (sum.result_c > kFewChannels || scattered)) return false;
  const TermCount terms = CountTerms(sum);
  if (problem.data_format == DataFormat::kNHWC && InfoOf(problem.dtype).bytes >= 4 &&
      LanesAlongChannelsPay(sum, terms, kernels, InfoOf(problem.dtype).bytes)) {
    return false;
  }
  return terms.valid * 1.5 >= terms.all;
}

// Products of pairs of channels take half the time. Whole planes are paired where they are; else
// channels side by side are what it takes, which is channel-lanes' way.
enum class PairForm { kNone, kPlanes, kChannelLanes };
PairForm PairFormOf(const Problem& problem, const KernelTable& kernels) {
  const TapSum sum(problem);
  if (sum.result_c <= kFewChannels || !ServesPairs(problem, kernels)) return PairForm::kNone;
  const bool planes =
      ResultIsPlanes(problem.data_format, sum, PlaneAxis(sum.col_phases)) && MeetsWholePlanes(sum);
  return planes ? PairForm::kPlanes : PairForm::kChannelLanes;
}

void Run(const ConvArgs& args) {
  const PairForm pairs = PairFormOf(args.problem, args.kernels);
  if (pairs == PairForm::kPlanes && PairsAreExact(args)) {
    const Plan<BFloat16, BFloat16Pair> plan(args.problem, args.kernels,
                                            args.parallel.num_threads());
    return PixelLanesRunner<BFloat16, BFloat16Pair>(args, plan).Run();
  }
  if (pairs == PairForm::kChannelLanes) return kConv2DChannelLanes.run(args);
  VisitFloat(args.problem.dtype, [&](auto tag) {
    using Stored = typename decltype(tag)::Type;
    const Plan<Stored> plan(args.problem, args.kernels, args.parallel.num_threads());
    const TermCount terms = CountTerms(plan.sum);
    const int64_t filter_size = *CheckedProduct(args.problem.ShapeOf(Role::kFilter));
    if (terms.valid < terms.all && !IsFinite<Stored>(args.filter, filter_size)) {
      kConv2DChannelLanes.run(args);
    } else {
      PixelLanesRunner<Stored, ComputeType<Stored>>(args, plan).Run();
    }
  });
}

int64_t ScratchBytes(const Problem& problem, const KernelTable& kernels, int num_threads) {
  const int64_t widened = VisitFloat(problem.dtype, [&](auto tag) {
    const Plan<typename decltype(tag)::Type> plan(problem, kernels, num_threads);
    return std::max(plan.ScratchBytes(),
                    kConv2DChannelLanes.scratch_bytes(problem, kernels, num_threads));
  });
  if (PairFormOf(problem, kernels) != PairForm::kPlanes) return widened;
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
  switch (PairFormOf(problem, kernels)) {
    case PairForm::kNone: break;
    case PairForm::kPlanes: return DescribeTiles(Plan<BFloat16, BFloat16Pair>(problem, kernels, 1));
    case PairForm::kChannelLanes: return kConv2DChannelLanes.tiles(problem, kernels);
  }
  return VisitFloat(problem.dtype, [&](auto tag) {
    return DescribeTiles(Plan<typename decltype(tag)::Type>(problem, kernels, 1));
  });
}

}  // namespace

const Algorithm kConv2DPixelLanes = {
    .name = "pixel-lanes",
    .summary = "tiles of channels by pixels, for few channels and for 1x1 filters on planes",
    .accepts = Accepts,
    .scratch_bytes = ScratchBytes,
    .tiles = Tiles,
    .run = Run,
};

}  // namespace convgrad
