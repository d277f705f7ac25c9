// Depthwise forward and input gradient of small square filters without stride or dilation, whole
// planes at a time, straight from where they lie (NCHW): lanes along columns, no copy, no
// transpose. Padding is multiplied, so a filter with an infinity or a NaN goes another way.
#include <fmt/format.h>

#include <algorithm>
#include <type_traits>

#include "base/checked.h"
#include "base/memory.h"
#include "conv/axes/lines.h"
#include "conv/depthwise/algorithms.h"
#include "conv/move/filter_panel.h"
#include "conv/plan/function_plan.h"
#include "order/canonical_order.h"

namespace convgrad {
namespace {

// Results of a piece of work, so that what it costs to begin one is not seen.
constexpr int64_t kPieceResults = 16384;

// Rows or columns: how many zeros results meet before the first source.
int64_t PadOf(const Dimension& d) {
  return d.forward ? d.pad : d.kernel - 1 - d.pad;
}

bool FitsKernel(const Dimension& d) {
  const int64_t pad = PadOf(d), behind = d.num_results() + d.kernel - 1 - pad - d.num_sources();
  return IsWholePlaneFilter(d.kernel) && d.stride == 1 && d.dilation == 1 &&
         std::min(pad, behind) >= 0 && std::max(pad, behind) < d.kernel;
}

template <class T>
class WholePlanesEngine {
 public:
  explicit WholePlanesEngine(const ConvArgs& args);

  void Run();

 private:
  void PackWeights(const T* filter);
  void SumPlanes(Range planes) const;

  const Problem& problem_;
  const Parallel& parallel_;
  void (*const kernel_)(const WholePlanes<T>& planes);
  WholePlanes<T> first_ = {};  // all planes of the first image
  AlignedArray<T> weights_;
};

template <class T>
WholePlanesEngine<T>::WholePlanesEngine(const ConvArgs& args)
    : problem_(args.problem),
      parallel_(args.parallel),
      kernel_(args.kernels.Plane<T>().sum_whole),
      weights_(*CheckedProduct(args.problem.ShapeOf(Role::kFilter))) {
  const ConvGeometry& g = problem_.geometry;
  const bool forward = InfoOf(problem_.op).direction == Direction::kForward;
  const Dimension rows = Dimension::Rows(g, forward), cols = Dimension::Cols(g, forward);
  first_.source = static_cast<const T*>(forward ? args.input : args.out_backprop);
  first_.weights = weights_.data();
  first_.out = static_cast<T*>(args.result);
  first_.count = g.in_c;
  first_.size = g.kernel_h;
  first_.source_h = rows.num_sources();
  first_.source_w = cols.num_sources();
  first_.out_h = rows.num_results();
  first_.out_w = cols.num_results();
  first_.pad_h = PadOf(rows);
  first_.pad_w = PadOf(cols);
  PackWeights(static_cast<const T*>(args.filter));
}

// [channel][tap], the taps in the order in which their sources lie.
template <class T>
void WholePlanesEngine<T>::PackWeights(const T* filter) {
  const bool forward = InfoOf(problem_.op).direction == Direction::kForward;
  const int64_t channels = first_.count, taps = first_.size * first_.size;
  for (int64_t tap = 0; tap < taps; ++tap) {
    const T* from = filter + (forward ? tap : taps - 1 - tap) * channels;
    for (int64_t c = 0; c < channels; ++c) weights_[c * taps + tap] = from[c];
  }
}

// Planes are numbered through all images.
template <class T>
void WholePlanesEngine<T>::SumPlanes(Range planes) const {
  const int64_t channels = first_.count, source_size = first_.source_h * first_.source_w;
  for (int64_t plane = planes.begin; plane < planes.end;) {
    const int64_t channel = plane % channels;
    WholePlanes<T> call = first_;
    call.count = std::min(planes.end - plane, channels - channel);
    call.source += plane * source_size;
    call.readable_before = plane * source_size;
    call.readable_behind = (problem_.geometry.batch * channels - plane - call.count) * source_size;
    call.out += plane * first_.out_h * first_.out_w;
    call.weights += channel * first_.size * first_.size;
    kernel_(call);
    plane += call.count;
  }
}

template <class T>
void WholePlanesEngine<T>::Run() {
  const int64_t num_planes = problem_.geometry.batch * first_.count;
  const int64_t step = CeilDiv(kPieceResults, first_.out_h * first_.out_w);
  parallel_.For(CeilDiv(num_planes, step), [&](int64_t piece) {
    SumPlanes({piece * step, std::min((piece + 1) * step, num_planes)});
  });
}

// Rows of up to two vectors of 64 bytes; of 7x7 filters, whose weights don't stay in registers, of
// most of one. Wider rows are read from between zeros with fewer loads; vectors of 32 bytes keep
// few weights there either, and take rows of up to 8.
bool IsGoodWidth(int64_t size, int64_t row_bytes, int64_t vector_bytes) {
  constexpr int64_t kVector = 64, kMostRow = 4 * kVector;
  const int64_t most = vector_bytes < kVector ? kMostRow : size < 7 ? 2 * kVector : kVector;
  return row_bytes > (size < 7 ? kVector / 4 : kVector / 2) && row_bytes <= most;
}

template <class T>
bool RunOfType(const ConvArgs& args) {
  const int64_t filter_size = *CheckedProduct(args.problem.ShapeOf(Role::kFilter));
  if (!IsFinite<T>(args.filter, filter_size)) {
    return false;
  }
  WholePlanesEngine<T>(args).Run();
  return true;
}

bool RunWholePlanes(const ConvArgs& args) {
  if (args.problem.dtype == DType::kFloat64) return RunOfType<double>(args);
  return RunOfType<float>(args);
}

bool HasKernel(DType dtype, const KernelTable& kernels) {
  if (dtype == DType::kFloat64) return kernels.plane_f64.sum_whole != nullptr;
  return dtype == DType::kFloat32 && kernels.plane_f32.sum_whole != nullptr;
}

bool CanWholePlanes(const Problem& problem, const KernelTable& kernels) {
  const ConvGeometry& g = problem.geometry;
  const bool forward = InfoOf(problem.op).direction == Direction::kForward;
  const bool planes = problem.data_format == DataFormat::kNCHW || g.in_c == 1;
  return planes && HasKernel(problem.dtype, kernels) && g.group_out_c == 1 &&
         g.kernel_h == g.kernel_w && FitsKernel(Dimension::Cols(g, forward)) &&
         FitsKernel(Dimension::Rows(g, forward));
}

bool WholePlanesWin(const Problem& problem, const KernelTable& kernels) {
  const ConvGeometry& g = problem.geometry;
  const bool forward = InfoOf(problem.op).direction == Direction::kForward;
  const int64_t row_bytes = Dimension::Cols(g, forward).num_results() * InfoOf(problem.dtype).bytes;
  return IsGoodWidth(g.kernel_w, row_bytes, kernels.vector_bytes);
}

int64_t WholePlanesScratch(const Problem& problem, const KernelTable&, int) {
  return *CheckedProduct(problem.ShapeOf(Role::kFilter)) * InfoOf(problem.dtype).bytes;
}

std::string WholePlanesTiles(const Problem& problem, const KernelTable&) {
  const ConvGeometry& g = problem.geometry;
  const bool forward = InfoOf(problem.op).direction == Direction::kForward;
  const int64_t results = forward ? g.out_h * g.out_w : g.in_h * g.in_w;
  return fmt::format("{} planes a piece", CeilDiv(kPieceResults, results));
}

}  // namespace

const Algorithm kDepthwiseWholePlanesAlgorithm = {
    .name = "whole-planes",
    .summary = "depthwise forward and input gradient of 3x3 to 7x7 filters, planes as they lie",
    .can = CanWholePlanes,
    .wins = WholePlanesWin,
    .plan = FunctionPlan<WholePlanesScratch, WholePlanesTiles, RunWholePlanes>::Make,
    .may_refuse_data = true,
};

}  // namespace convgrad
