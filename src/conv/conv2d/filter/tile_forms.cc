// Which form of the filter gradient takes which problem: rows of tiles from the input and columns
// from out_backprop, or the other way round, tap by tap or all taps together.
#include "conv/conv2d/filter/tile_forms.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "conv/conv2d/filter/cost.h"
#include "conv/conv2d/filter/input_lanes_operands.h"
#include "conv/conv2d/filter/operands.h"
#include "conv/conv2d/filter/plan.h"
#include "conv/conv2d/filter/runner.h"
#include "conv/move/bfloat16_pairs.h"
#include "conv/move/grid_columns.h"
#include "conv/move/has_nan.h"
#include "conv/plan/function_plan.h"

namespace convgrad {
namespace {

using Cut = FilterGradientPlan;

template <class Stored, class Element>
Cut MakePlan(const Problem& problem, const KernelTable& table, int num_threads, FilterForm form) {
  constexpr bool kPairs = std::is_same_v<Element, BFloat16Pair>;
  const auto& kernels = table.Gemm<Element>();
  const ConvGeometry& g = problem.geometry;
  const Panels panels = CutPanelsForRows(kernels, Cut::NumRows(g, form), Cut::NumCols(g, form));
  const GemmTile<Element>& tile = TilesOfWidth(kernels, panels.cols).front();
  return Cut(problem,
             {tile.rows, SumsOfTile(tile), panels, sizeof(Element), std::is_same_v<Stored, Element>,
              kPairs},
             num_threads, form);
}

// f(TypeTag<Stored>, TypeTag<Element>) with the form of the operands' elements, pairs wherever they
// may serve.
template <class F>
decltype(auto) VisitElements(const Problem& problem, const KernelTable& kernels, FilterForm form,
                             F&& f) {
  return VisitFloat(problem.dtype, [&](auto stored) -> decltype(auto) {
    using Stored = typename decltype(stored)::Type;
    if constexpr (std::is_same_v<Stored, BFloat16>) {
      if (!Cut::PutsInputsInLanes(form) && ServesPairs(problem, kernels)) {
        return f(stored, TypeTag<BFloat16Pair>{});
      }
    }
    return f(stored, TypeTag<ComputeType<Stored>>{});
  });
}

template <class Stored>
void RunWidened(const ConvArgs& args, FilterForm form) {
  const Cut plan = MakePlan<Stored, ComputeType<Stored>>(args.problem, args.kernels,
                                                         args.parallel.num_threads(), form);
  if (plan.inputs_in_lanes) {
    FilterGradientRunner<Stored, InputLanesOperands<Stored>>(args, plan).Run();
  } else {
    using Operands = FilterGradientOperands<Stored, WidenedColumns<Stored>>;
    FilterGradientRunner<Stored, Operands>(args, plan).Run();
  }
}

void RunInPairs(const ConvArgs& args, FilterForm form) {
  using Operands = FilterGradientOperands<BFloat16, PairedColumns>;
  const Cut plan = MakePlan<BFloat16, BFloat16Pair>(args.problem, args.kernels,
                                                    args.parallel.num_threads(), form);
  FilterGradientRunner<BFloat16, Operands>(args, plan).Run();
}

bool HasPadding(const Problem& problem) {
  const ConvGeometry& g = problem.geometry;
  return g.pad_top > 0 || g.pad_bottom > 0 || g.pad_left > 0 || g.pad_right > 0;
}

bool IsFilterGradient(const Problem& problem) {
  return InfoOf(problem.op).direction == Direction::kBackpropFilter;
}

template <class Element>
double CyclesOfElements(const Problem& problem, const KernelTable& table, FilterForm form) {
  const ConvGeometry& g = problem.geometry;
  const FilterTiles tiles(table.Gemm<Element>(), Cut::NumRows(g, form), Cut::NumCols(g, form));
  const int64_t pixels = std::is_same_v<Element, BFloat16Pair> ? 2 : 1;
  return CyclesOf({problem, form, sizeof(Element), pixels}, tiles);
}

// Whether all taps together are few enough: every pixel's numbers are copied for each of them.
bool CanJoin(const ConvGeometry& g) {
  constexpr int64_t kMostTogether = 4096;
  return g.kernel_h * g.kernel_w * g.group_in_c <= kMostTogether;
}

// Endless where the form serves no purpose, or would take too much memory.
double CyclesOfForm(const Problem& problem, const KernelTable& kernels, FilterForm form) {
  const ConvGeometry& g = problem.geometry;
  if (Cut::Joins(form) && (g.kernel_h * g.kernel_w == 1 || !CanJoin(g))) return HUGE_VAL;
  return VisitElements(problem, kernels, form, [&](auto, auto element) {
    return CyclesOfElements<typename decltype(element)::Type>(problem, kernels, form);
  });
}

// By more than `gain`: counts are rough, and the form that copies least is the safest.
bool IsQuicker(const Problem& problem, const KernelTable& kernels, FilterForm form, FilterForm than,
               double gain) {
  return CyclesOfForm(problem, kernels, form) < gain * CyclesOfForm(problem, kernels, than);
}

FilterForm Apart(const Problem&, const KernelTable&) {
  return FilterForm::kApart;
}
FilterForm Joined(const Problem&, const KernelTable&) {
  return FilterForm::kJoined;
}
FilterForm InputLanesForm(const Problem& problem, const KernelTable& kernels) {
  return IsQuicker(problem, kernels, FilterForm::kInputsJoined, FilterForm::kInputsApart,
                   /*gain=*/1)
             ? FilterForm::kInputsJoined
             : FilterForm::kInputsApart;
}

bool CanTakeTaps(const Problem& problem, const KernelTable&) {
  return IsFilterGradient(problem);
}
bool CanJoinTaps(const Problem& problem, const KernelTable&) {
  return IsFilterGradient(problem) && CanJoin(problem.geometry);
}
bool JoinedWins(const Problem& problem, const KernelTable& kernels) {
  return problem.ValidTerms() > 0 &&
         IsQuicker(problem, kernels, FilterForm::kJoined, FilterForm::kApart,
                   /*gain=*/1);
}
bool InputLanesWin(const Problem& problem, const KernelTable& kernels) {
  if (problem.ValidTerms() == 0) return false;
  const FilterForm form = InputLanesForm(problem, kernels);
  // Counts flatter tiles of few output channels, whose short terms wait for their operands.
  const double gain = problem.geometry.group_out_c <= 8 ? 1.1 : 0.92;
  return IsQuicker(problem, kernels, form, FilterForm::kApart, gain) &&
         IsQuicker(problem, kernels, form, FilterForm::kJoined, /*gain=*/0.95);
}

// Where padding is multiplied, a zero of it times an infinity or a NaN of out_backprop is a NaN
// that does not belong in the sum; whenever there is a NaN, the form without padding decides.
template <FilterForm (*kFormOf)(const Problem&, const KernelTable&)>
bool RunAlgorithm(const ConvArgs& args) {
  const FilterForm form = kFormOf(args.problem, args.kernels);
  return VisitElements(args.problem, args.kernels, form, [&](auto stored, auto element) {
    using Stored = typename decltype(stored)::Type;
    if constexpr (std::is_same_v<typename decltype(element)::Type, BFloat16Pair>) {
      if (PairsAreExact(args)) {
        RunInPairs(args, form);
        return true;
      }
    }
    RunWidened<Stored>(args, form);
    const int64_t count = *CheckedProduct(args.problem.ResultShape());
    return !(Cut::Joins(form) && HasPadding(args.problem) && HasNaN<Stored>(args.result, count));
  });
}

template <FilterForm (*kFormOf)(const Problem&, const KernelTable&)>
int64_t ScratchBytes(const Problem& problem, const KernelTable& kernels, int num_threads) {
  const FilterForm form = kFormOf(problem, kernels);
  return VisitElements(problem, kernels, form, [&](auto stored, auto element) {
    using Stored = typename decltype(stored)::Type;
    using Element = typename decltype(element)::Type;
    const auto widened = [&](FilterForm either) {
      return MakePlan<Stored, ComputeType<Stored>>(problem, kernels, num_threads, either)
          .ScratchBytes();
    };
    // Pairs may have to give way to numbers of the compute type.
    return std::max({MakePlan<Stored, Element>(problem, kernels, num_threads, form).ScratchBytes(),
                     widened(form)});
  });
}

template <FilterForm (*kFormOf)(const Problem&, const KernelTable&)>
std::string Tiles(const Problem& problem, const KernelTable& kernels) {
  const FilterForm form = kFormOf(problem, kernels);
  return VisitElements(problem, kernels, form, [&](auto stored, auto element) {
    using Stored = typename decltype(stored)::Type;
    return MakePlan<Stored, typename decltype(element)::Type>(problem, kernels, 1, form).Tiles();
  });
}

template <FilterForm (*kFormOf)(const Problem&, const KernelTable&),
          bool (*kCan)(const Problem&, const KernelTable&),
          bool (*kWins)(const Problem&, const KernelTable&), bool kMayRefuse>
constexpr Algorithm MakeAlgorithm(const char* name, const char* summary) {
  return {.name = name,
          .summary = summary,
          .can = kCan,
          .wins = kWins,
          .plan = FunctionPlan<ScratchBytes<kFormOf>, Tiles<kFormOf>, RunAlgorithm<kFormOf>>::Make,
          .may_refuse_data = kMayRefuse};
}

}  // namespace

double LeastCyclesByChannels(const Problem& problem, const KernelTable& kernels) {
  const auto cycles = [&](FilterForm form) { return CyclesOfForm(problem, kernels, form); };
  return std::min({cycles(FilterForm::kApart), cycles(FilterForm::kJoined),
                   cycles(FilterForm::kInputsApart), cycles(FilterForm::kInputsJoined)});
}

const Algorithm kConv2DFilterTapsApart = MakeAlgorithm<Apart, CanTakeTaps, nullptr, false>(
    "taps-apart", "tiles of input by output channels of each tap, padding skipped");
const Algorithm kConv2DFilterTapsJoined = MakeAlgorithm<Joined, CanJoinTaps, JoinedWins, true>(
    "taps-joined", "tiles across taps, for few or odd input channels");
const Algorithm kConv2DFilterInputLanes =
    MakeAlgorithm<InputLanesForm, CanTakeTaps, InputLanesWin, true>(
        "input-lanes", "tiles of output by input channels, for few or odd output channels");

}  // namespace convgrad
