// Which form of the filter gradient takes which problem: rows of tiles from the input and columns
// from out_backprop, or the other way round, tap by tap or all taps together.
#include "conv/conv2d_backprop_filter.h"

#include <algorithm>
#include <type_traits>

#include "conv/bfloat16_pairs.h"
#include "conv/filter_gradient_operands.h"
#include "conv/filter_gradient_plan.h"
#include "conv/filter_gradient_runner.h"
#include "conv/grid_columns.h"
#include "conv/has_nan.h"
#include "conv/input_lanes_operands.h"

namespace convgrad {
namespace {

using Plan = FilterGradientPlan;

template <class Stored, class Element>
Plan MakePlan(const Problem& problem, const KernelTable& table, int num_threads, FilterForm form) {
  constexpr bool kPairs = std::is_same_v<Element, BFloat16Pair>;
  const auto& kernels = table.Gemm<Element>();
  const ConvGeometry& g = problem.geometry;
  const Panels panels = CutPanelsForRows(kernels, Plan::NumRows(g, form), Plan::NumCols(g, form));
  const GemmTile<Element>& tile = TilesOfWidth(kernels, panels.cols).front();
  return Plan(problem,
              {tile.rows, SumsOfTile(tile), panels, sizeof(Element),
               std::is_same_v<Stored, Element>, kPairs},
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
      if (!Plan::PutsInputsInLanes(form) && ServesPairs(problem, kernels)) {
        return f(stored, TypeTag<BFloat16Pair>{});
      }
    }
    return f(stored, TypeTag<ComputeType<Stored>>{});
  });
}

template <class Stored>
void RunWidened(const ConvArgs& args, FilterForm form) {
  const Plan plan = MakePlan<Stored, ComputeType<Stored>>(args.problem, args.kernels,
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
  const Plan plan = MakePlan<BFloat16, BFloat16Pair>(args.problem, args.kernels,
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

// Joining pays when one tap's channels can't fill a tile, unless much of the work would be padding.
bool AcceptsJoined(const Problem& problem) {
  constexpr int64_t kFewChannels = 24;
  const ConvGeometry& g = problem.geometry;
  if (!IsFilterGradient(problem) || g.group_in_c > kFewChannels) return false;
  if (g.kernel_h * g.kernel_w == 1) return false;
  const double all_terms = static_cast<double>(g.batch * g.out_h * g.out_w) *
                           static_cast<double>(g.kernel_h * g.kernel_w * g.group_in_c * g.out_c);
  return static_cast<double>(problem.ValidTerms()) * 1.3 >= all_terms;
}

FilterForm InputLanesForm(const Problem& problem) {
  constexpr int64_t kMostTogether = 4096;  // of a pixel's numbers, which every tap repeats
  const ConvGeometry& g = problem.geometry;
  const bool joined =
      AcceptsJoined(problem) && g.kernel_h * g.kernel_w * g.group_in_c <= kMostTogether;
  return joined ? FilterForm::kInputsJoined : FilterForm::kInputsApart;
}

// Pays where lanes along output channels would be emptier: a rough count of cycles for an output
// pixel of a group, of multiply-adds of vectors and of packing.
bool AcceptsInputLanes(const Problem& problem) {
  constexpr double kPixel = 30;         // for a pixel, whatever its channels
  constexpr double kMoved = 2;          // to copy some channels,
  constexpr double kMovedVector = 4;    // for each vector of them
  constexpr double kTransposed = 0.65;  // for a number
  if (!IsFilterGradient(problem)) return false;
  const ConvGeometry& g = problem.geometry;
  const int64_t lanes = problem.dtype == DType::kFloat64 ? 8 : 16;
  const auto times = [](auto... factors) { return (static_cast<double>(factors) * ...); };
  const int64_t taps = g.kernel_h * g.kernel_w;
  const double by_outputs = times(taps, g.group_in_c, CeilDiv(g.group_out_c, lanes));
  if (InputLanesForm(problem) == FilterForm::kInputsJoined) {
    // The second vector of outputs may be half a one.
    const bool saves_half = g.group_out_c > lanes && g.group_out_c <= lanes + lanes / 2;
    const double by_outputs_joined = saves_half ? 0.75 * by_outputs : by_outputs;
    const int64_t rows = g.group_out_c <= 8 ? g.group_out_c : RoundUp(g.group_out_c, 6);
    const int64_t columns = Plan::SharesColumns(g) ? g.stride_w : g.kernel_w;
    const double moves = times(g.kernel_h, columns);
    return times(CeilDiv(taps * g.group_in_c, lanes), rows) +
               moves * (kMoved + times(kMovedVector, CeilDiv(g.group_in_c, lanes))) + kPixel <
           0.9 * (by_outputs_joined + kPixel);
  }
  // Planes of the input would be rows as they lie.
  const double transposed = problem.data_format == DataFormat::kNCHW ? kTransposed : 0;
  return times(taps, g.group_out_c, CeilDiv(g.group_in_c, lanes)) +
             transposed * times(g.group_in_c, g.in_h, g.in_w) / times(g.out_h, g.out_w) <
         0.8 * (by_outputs + times(g.group_out_c, transposed));
}

// Where padding is multiplied, a zero of it times an infinity or a NaN of out_backprop is a NaN
// that does not belong in the sum; whenever there is a NaN, the form without padding decides.
template <FilterForm (*kFormOf)(const Problem&)>
void RunAlgorithm(const ConvArgs& args) {
  const FilterForm form = kFormOf(args.problem);
  VisitElements(args.problem, args.kernels, form, [&](auto stored, auto element) {
    using Stored = typename decltype(stored)::Type;
    if constexpr (std::is_same_v<typename decltype(element)::Type, BFloat16Pair>) {
      if (PairsAreExact(args)) return RunInPairs(args, form);
    }
    RunWidened<Stored>(args, form);
    const int64_t count = *CheckedProduct(args.problem.ResultShape());
    if (Plan::Joins(form) && HasPadding(args.problem) && HasNaN<Stored>(args.result, count)) {
      RunWidened<Stored>(args, FilterForm::kApart);
    }
  });
}

template <FilterForm (*kFormOf)(const Problem&)>
int64_t ScratchBytes(const Problem& problem, const KernelTable& kernels, int num_threads) {
  const FilterForm form = kFormOf(problem);
  return VisitElements(problem, kernels, form, [&](auto stored, auto element) {
    using Stored = typename decltype(stored)::Type;
    using Element = typename decltype(element)::Type;
    const auto widened = [&](FilterForm either) {
      return MakePlan<Stored, ComputeType<Stored>>(problem, kernels, num_threads, either)
          .ScratchBytes();
    };
    // Pairs may have to give way to numbers of the compute type, and joined taps to lone ones.
    return std::max({MakePlan<Stored, Element>(problem, kernels, num_threads, form).ScratchBytes(),
                     widened(form), widened(FilterForm::kApart)});
  });
}

template <FilterForm (*kFormOf)(const Problem&)>
std::string Tiles(const Problem& problem, const KernelTable& kernels) {
  const FilterForm form = kFormOf(problem);
  return VisitElements(problem, kernels, form, [&](auto stored, auto element) {
    using Stored = typename decltype(stored)::Type;
    return MakePlan<Stored, typename decltype(element)::Type>(problem, kernels, 1, form).Tiles();
  });
}

FilterForm Apart(const Problem&) {
  return FilterForm::kApart;
}
FilterForm Joined(const Problem&) {
  return FilterForm::kJoined;
}

template <FilterForm (*kFormOf)(const Problem&), bool (*kAccepts)(const Problem&)>
constexpr Algorithm MakeAlgorithm(const char* name, const char* summary) {
  return {.name = name,
          .summary = summary,
          .accepts = [](const Problem& problem, const KernelTable&) { return kAccepts(problem); },
          .scratch_bytes = ScratchBytes<kFormOf>,
          .tiles = Tiles<kFormOf>,
          .run = RunAlgorithm<kFormOf>};
}

}  // namespace

const Algorithm kConv2DFilterTapsApart = MakeAlgorithm<Apart, IsFilterGradient>(
    "taps-apart", "tiles of input by output channels of each tap, padding skipped");
const Algorithm kConv2DFilterTapsJoined = MakeAlgorithm<Joined, AcceptsJoined>(
    "taps-joined", "tiles across taps, for few input channels");
const Algorithm kConv2DFilterInputLanes = MakeAlgorithm<InputLanesForm, AcceptsInputLanes>(
    "input-lanes", "tiles of output by input channels, for few or odd output channels");

}  // namespace convgrad
