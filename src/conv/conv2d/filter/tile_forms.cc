// The forms of the filter gradient by tiles, planned: rows of tiles from the input and columns from
// out_backprop, or the other way round, tap by tap or all taps together.
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>

#include "conv/conv2d/filter/algorithms.h"
#include "conv/conv2d/filter/cut.h"
#include "conv/conv2d/filter/input_lanes_operands.h"
#include "conv/conv2d/filter/operands.h"
#include "conv/conv2d/filter/runner.h"
#include "conv/move/bfloat16_pairs.h"
#include "conv/move/grid_columns.h"
#include "conv/move/special_numbers.h"

namespace convgrad {
namespace {

// Operands are elements of one type.
template <class Stored, class Element>
class ElementPlan {
 public:
  ElementPlan(const Problem& problem, const KernelTable& kernels, int num_threads, FilterForm form)
      : cut_(problem, SizesOf(problem.geometry, kernels, form), num_threads, form) {}

  const FilterCut& cut() const { return cut_; }

  void Run(const ConvArgs& args) const {
    if constexpr (std::is_same_v<Element, BFloat16Pair>) {
      RunOn<FilterGradientOperands<Stored, PairedColumns>>(args);
    } else if (cut_.inputs_in_lanes) {
      RunOn<InputLanesOperands<Stored>>(args);
    } else {
      RunOn<FilterGradientOperands<Stored, WidenedColumns<Stored>>>(args);
    }
  }

 private:
  static FilterCut::Sizes SizesOf(const ConvGeometry& g, const KernelTable& table,
                                  FilterForm form) {
    const IndirectGemmKernels<Element>& kernels = table.Gemm<Element>();
    const TileCounts tiles(kernels, FilterCut::NumRows(g, form), FilterCut::NumCols(g, form));
    const GemmTile<Element>& tile =
        SmallestTile(TilesOfWidth(kernels, tiles.panels.cols), tiles.tile_rows);
    return {tile.rows,
            SumsOfTile(tile),
            tiles.panels,
            kernels.lanes,
            sizeof(Element),
            std::is_same_v<Stored, Element>,
            std::is_same_v<Element, BFloat16Pair>,
            kernels.masks_columns,
            kernels.lanes * int64_t{sizeof(ComputeType<Element>)} >= kLineBytes,
            table.near_bytes};
  }

  template <class Operands>
  void RunOn(const ConvArgs& args) const {
    const StageLists* front = cut_.lists_stages ? &front_.Of(args.parallel, cut_) : nullptr;
    FilterGradientRunner<Stored, Operands>(args, cut_, front).Run();
  }

  const FilterCut cut_;
  const FrontLists front_;
};

template <class Stored>
class TilesPlan final : public Plan {
 public:
  TilesPlan(const Problem& problem, const KernelTable& kernels, int num_threads, FilterForm form)
      : problem_(problem),
        tiles_(TilesOfForm(problem, kernels, form)),
        widened_(problem, kernels, num_threads, form) {
    if (tiles_.pixels > 1) paired_.emplace(problem, kernels, num_threads, form);
  }

  int64_t ScratchBytes() const override {
    return std::max(paired_ ? paired_->cut().ScratchBytes() : 0, widened_.cut().ScratchBytes());
  }
  // Data that forbid pairs are not counted.
  Work CountWork() const override { return convgrad::CountWork(problem_, cut(), tiles_); }
  std::string Tiles() const override { return cut().Tiles(); }

  // Where padding is multiplied, a zero of it times an infinity or a NaN of out_backprop is a NaN
  // that does not belong in the sum; whenever there is a NaN, the form without padding decides.
  bool Run(const ConvArgs& args) const override {
    if (paired_ && PairsAreExact(args)) {
      paired_->Run(args);
      return true;
    }
    widened_.Run(args);
    const int64_t count = problem_.NumResults();
    return !(cut().joined && HasPadding() && HasNaN<Stored>(args.result, count));
  }

 private:
  const FilterCut& cut() const { return paired_ ? paired_->cut() : widened_.cut(); }
  bool HasPadding() const {
    const ConvGeometry& g = problem_.geometry;
    return g.pad_top > 0 || g.pad_bottom > 0 || g.pad_left > 0 || g.pad_right > 0;
  }

  const Problem problem_;
  const TileCounts tiles_;
  // Pairs may have to give way to numbers of the compute type.
  const ElementPlan<Stored, ComputeType<Stored>> widened_;
  std::optional<ElementPlan<BFloat16, BFloat16Pair>> paired_;  // only of bfloat16
};

template <FilterForm kForm>
std::unique_ptr<Plan> MakePlan(const Problem& problem, const KernelTable& kernels,
                               int num_threads) {
  return VisitFloat(problem.dtype, [&](auto stored) -> std::unique_ptr<Plan> {
    using Stored = typename decltype(stored)::Type;
    return std::make_unique<TilesPlan<Stored>>(problem, kernels, num_threads, kForm);
  });
}

template <FilterForm kForm>
bool CanTakeForm(const Problem& problem, const KernelTable&) {
  return InfoOf(problem.op).direction == Direction::kBackpropFilter &&
         CanListPixelBlocks(problem.geometry) &&
         (!FilterCut::Joins(kForm) || FilterCut::CanJoin(problem.geometry));
}

template <FilterForm kForm>
constexpr Algorithm MakeAlgorithm(const char* name, const char* summary) {
  return {.name = name,
          .summary = summary,
          .can = CanTakeForm<kForm>,
          .plan = MakePlan<kForm>,
          .may_refuse_data = FilterCut::Joins(kForm)};
}

}  // namespace

const Algorithm kConv2DFilterTapsApart = MakeAlgorithm<FilterForm::kApart>(
    "taps-apart", "tiles of input by output channels of each tap, padding skipped");
const Algorithm kConv2DFilterTapsJoined = MakeAlgorithm<FilterForm::kJoined>(
    "taps-joined", "tiles across taps, for few or odd input channels");
const Algorithm kConv2DFilterInputLanes = MakeAlgorithm<FilterForm::kInputsApart>(
    "input-lanes", "tiles of output by input channels, for few or odd output channels");
const Algorithm kConv2DFilterInputLanesJoined = MakeAlgorithm<FilterForm::kInputsJoined>(
    "joined-input-lanes", "tiles of output channels across taps, for few channels of both");

}  // namespace convgrad
