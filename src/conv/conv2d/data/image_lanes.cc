// Lanes of a vector are images, or bands of an image's rows, so whole vectors meet whole vectors
// whatever the number of channels and wherever a tap points. Tiles are pixels by channels of the
// result; the source is copied into [row][column][channel][lane]. Columns off the image are
// skipped, and rows where lanes are whole images; in bands rows off the image are multiplied zeros,
// so a filter with an infinity or a NaN goes another way then.
#include <algorithm>

#include "base/memory.h"
#include "base/parallel.h"
#include "conv/conv2d/data/algorithms.h"
#include "conv/conv2d/data/cut_plan.h"
#include "conv/conv2d/data/image_lanes_runner.h"
#include "conv/move/bfloat16_pairs.h"
#include "conv/move/filter_panel.h"
#include "conv/move/pairs_plan.h"
#include "conv/move/special_numbers.h"
#include "conv/move/swap_pairs.h"

namespace convgrad {
namespace {

// Packs the filter and runs all parts.
template <class Stored, class Element>
class ImageLanesRunner {
 public:
  using Cut = ImageLanesCut<Stored, Element>;

  ImageLanesRunner(const ConvArgs& args, const Cut& cut) : args_(args), cut_(cut) {}

  // False where the filter forbids to multiply rows off the image.
  bool Run() {
    if constexpr (!Cut::kPairs) {  // exact pairs are finite
      const int64_t filter_size = args_.problem.NumElements(Role::kFilter);
      if (!cut_.parts.whole_images() && !IsFinite<Stored>(args_.filter, filter_size)) return false;
    }
    filter_ = AlignedArray<Element>(cut_.FilterElements());
    args_.parallel.For(cut_.sum.groups * cut_.channel_blocks, [&](int64_t i) {
      const int64_t first = i % cut_.channel_blocks * cut_.tile_cols;
      PackBlock({i / cut_.channel_blocks, first,
                 std::min(cut_.tile_cols, cut_.sum.result_c - first), cut_.tile_cols},
                filter_.data() + i * cut_.BlockElements());
    });
    PerThread<ImageLanesScratch<Stored, Element>> scratch(args_.parallel);
    args_.parallel.For(cut_.parts.NumParts(), [&](int64_t i) {
      ImageLanesPartRunner<Stored, Element>(args_, cut_, filter_.data(), cut_.parts.PartAt(i),
                                            scratch.Own(cut_))
          .Run();
    });
    return true;
  }

 private:
  void PackTerms(const FilterPanel& block, Element* to) const;
  void PackBlock(const FilterPanel& block, Element* to) const;

  const ConvArgs& args_;
  const Cut& cut_;
  AlignedArray<Element> filter_;  // [group][channel block][terms][tile columns]
};

// Packs the terms of a channel block of a group.
template <class Stored, class Element>
void ImageLanesRunner<Stored, Element>::PackTerms(const FilterPanel& block, Element* to) const {
  const TapSum& sum = cut_.sum;
  const Range all{0, TermsOf(sum, cut_.phases)};
  PackPanel<Stored>(args_, sum, cut_.phases, block, all, to);
  if constexpr (!Cut::kPairs) {
    if (sum.in_pairs) {
      SwapPairs(args_.kernels.Pack<Stored>(), to, all.end / sum.source_c, sum.source_c,
                cut_.tile_cols);
    }
  }
}

// The same as the kernels take it.
template <class Stored, class Element>
void ImageLanesRunner<Stored, Element>::PackBlock(const FilterPanel& block, Element* to) const {
  if (!cut_.parts.slides) return PackTerms(block, to);
  AlignedArray<Element> terms(cut_.BlockElements());
  PackTerms(block, terms.data());
  for (const TapPhase& phase : cut_.phases) {
    ArrangeForSliding(phase, cut_.sum.source_c, terms.data() + phase.first_term,
                      to + phase.first_term);
  }
}

template <class Stored, class Element>
using ImageLanesPlan = CutPlan<ImageLanesCut<Stored, Element>, ImageLanesRunner<Stored, Element>>;

bool ServesImageLanes(const Problem& problem, const KernelTable&) {
  if (!TapSum::Describes(problem)) return false;
  const TapSum sum(problem);
  if (sum.row_phases.empty() || sum.col_phases.empty()) return false;  // no elements
  return CanImageLanes(sum);
}

// Pairs of channels side by side, where no pair is half empty.
bool PairsImageLanes(const Problem& problem, const KernelTable& kernels) {
  return ServesPairs(problem, kernels) && TapSum(problem).source_c % 2 == 0;
}

std::unique_ptr<Plan> PlanImageLanes(const Problem& problem, const KernelTable& kernels,
                                     int num_threads) {
  return PlanFloat<ImageLanesPlan>(problem, kernels, num_threads,
                                   PairsImageLanes(problem, kernels));
}

}  // namespace

const Algorithm kConv2DImageLanes = {
    .name = "image-lanes",
    .summary = "tiles of pixels by channels, lanes along images, for few or odd channels",
    .can = ServesImageLanes,
    .plan = PlanImageLanes,
    .may_refuse_data = true,
};

}  // namespace convgrad
