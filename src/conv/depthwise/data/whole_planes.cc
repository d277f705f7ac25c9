// Depthwise forward and input gradient of small square filters with a stride of up to two, or a
// dilation, whole planes at a time, straight from where they lie (NCHW): lanes along columns, no
// copy, no transpose. Padding is multiplied, so a filter with an infinity or a NaN goes another
// way.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/checked.h"
#include "base/memory.h"
#include "conv/axes/lines.h"
#include "conv/depthwise/algorithms.h"
#include "conv/move/special_numbers.h"
#include "conv/move/stream_result.h"
#include "conv/plan/computed_plan.h"
#include "order/canonical_order.h"

namespace convgrad {
namespace {

// Results of a task, so that what it costs to begin one is not seen.
constexpr int64_t kWholePlanesResults = 16384;

// A plane and its results of so many bytes are read and written as if they were in order.
constexpr int64_t kSmallPlanes = int64_t{14} << 10;

// Positions from the first tap to the last.
int64_t SpanOf(const Dimension& d) {
  return (d.kernel - 1) * d.dilation + 1;
}

// Rows or columns: how many zeros results meet before the first source.
int64_t PadOf(const Dimension& d) {
  return d.forward ? d.pad : SpanOf(d) - 1 - d.pad;
}

// Sources up to the last that a result meets: beyond lie results that are none.
int64_t SourcesMet(const Dimension& d) {
  const int64_t last = d.num_results() - 1, met = SpanOf(d) - 1 - PadOf(d);
  const int64_t sources = (d.forward ? last * d.stride + met : (last + met) / d.stride) + 1;
  return std::clamp<int64_t>(sources, 0, d.num_sources());
}

bool FitsKernel(const Dimension& d) {
  const int64_t pad = PadOf(d), results = d.num_results(), sources = d.num_sources();
  // How many zeros the last result meets behind the last source; fewer than none where sources are
  // left over.
  const int64_t behind = d.forward ? (results - 1) * d.stride + SpanOf(d) - pad - sources
                                   : results + SpanOf(d) - 2 - pad - (sources - 1) * d.stride;
  return IsWholePlaneFilter(d.kernel) && d.stride <= kMostWholePlaneStride &&
         (d.dilation == 1 || d.stride == 1) && pad >= 0 && std::max(pad, behind) < SpanOf(d);
}

// Sources and results together take so many.
template <class T>
int64_t TensorBytes(const WholePlanes<T>& image, int64_t batch) {
  return batch * image.count * (image.source_plane + image.out_plane) * int64_t{sizeof(T)};
}

// The first image's planes as the kernel is told of them, but for a dilation of rows; no addresses
// yet.
template <class T>
WholePlanes<T> PlanesOfImage(const Problem& problem, const KernelTable& kernels) {
  const ConvGeometry& g = problem.geometry;
  const bool forward = InfoOf(problem.op).direction == Direction::kForward;
  const Dimension rows = Dimension::Rows(g, forward), cols = Dimension::Cols(g, forward);
  WholePlanes<T> planes = {};
  planes.count = g.in_c;
  planes.size = g.kernel_h;
  planes.stride = rows.stride;
  planes.dilation = cols.dilation;
  planes.spread = !forward;
  planes.source_h = rows.num_sources();
  planes.source_w = planes.source_row = cols.num_sources();
  planes.out_h = rows.num_results();
  planes.out_w = planes.out_row = cols.num_results();
  planes.source_plane = planes.source_h * planes.source_w;
  planes.source_h = SourcesMet(rows);
  planes.out_plane = planes.out_h * planes.out_w;
  planes.pad_h = PadOf(rows);
  planes.pad_w = PadOf(cols);
  const int64_t bytes = (planes.source_plane + planes.out_plane) * int64_t{sizeof(T)};
  const int64_t far_bytes = std::min(kTensorsLeaveTheCaches, kernels.near_bytes);
  planes.fetch_next =
      planes.dilation == 1 && bytes > kSmallPlanes && TensorBytes(planes, g.batch) >= far_bytes;
  return planes;
}

// Rows that meet each other: with a dilation every so many of a plane, which are one without.
template <class T>
struct RowPhase {
  WholePlanes<T> planes;
  int64_t source, out;  // numbers before the first row
};

template <class T>
std::vector<RowPhase<T>> RowPhasesOf(const WholePlanes<T>& image) {
  std::vector<RowPhase<T>> phases;
  const int64_t step = image.dilation;
  for (int64_t first = 0; first < std::min(step, image.out_h); ++first) {
    const int64_t source = ((first - image.pad_h) % step + step) % step;
    WholePlanes<T> planes = image;
    planes.pad_h = (source - first + image.pad_h) / step;
    planes.source_h = CeilDiv(std::max<int64_t>(image.source_h - source, 0), step);
    planes.out_h = CeilDiv(image.out_h - first, step);
    planes.source_row *= step;
    planes.out_row *= step;
    phases.push_back({planes, source * image.source_w, first * image.out_w});
  }
  return phases;
}

// A band of a plane's rows of results as a plane of its own. Its first row is a multiple of the
// stride, and it is higher than the filter, so that it meets sources.
template <class T>
WholePlanes<T> BandOf(const WholePlanes<T>& plane, Range rows) {
  const int64_t skipped = plane.spread ? 1 : plane.stride;
  const int64_t spread = plane.spread ? plane.stride : 1;
  // The first tap of the first row and the last tap of the last row lie here, counted in sources
  // with the zeros between them.
  const int64_t first = rows.begin * skipped - plane.pad_h;
  const int64_t last = (rows.end - 1) * skipped - plane.pad_h + plane.size - 1;
  const int64_t source = std::min(CeilDiv(std::max<int64_t>(first, 0), spread), plane.source_h);
  WholePlanes<T> band = plane;
  band.source += source * plane.source_row;
  band.source_h = std::clamp<int64_t>(last / spread + 1 - source, 0, plane.source_h - source);
  band.pad_h = source * spread - first;
  band.out += rows.begin * plane.out_row;
  band.out_h = rows.size();
  band.readable_before += source * plane.source_row;
  band.readable_behind += plane.source_plane - (source + band.source_h) * plane.source_row;
  band.source_plane = band.source_h * plane.source_row;
  band.out_plane = band.out_h * plane.out_row;
  return band;
}

template <class T>
class WholePlanesPlan final : public Plan {
 public:
  WholePlanesPlan(const Problem& problem, const KernelTable& kernels, int num_threads)
      : kernel_(kernels.Plane<T>().sum_whole),
        transpose_(kernels.Pack<T>().transpose_widen),
        vector_bytes_(kernels.vector_bytes),
        forward_(InfoOf(problem.op).direction == Direction::kForward),
        image_(PlanesOfImage<T>(problem, kernels)),
        phases_(RowPhasesOf(image_)),
        num_planes_(problem.geometry.batch * image_.count),
        planes_of_task_(CeilDiv(kWholePlanesResults, image_.out_plane)),
        bands_(NumBands(num_threads)) {}

  int64_t ScratchBytes() const override { return num_weights() * int64_t{sizeof(T)}; }
  std::string Tiles() const override {
    return (bands_ > 1 ? fmt::format("{} bands a plane, each a task", bands_)
                       : fmt::format("{} planes a task", planes_of_task_)) +
           (image_.fetch_next ? ", fetched ahead" : "");
  }
  Work CountWork() const override;
  bool Run(const ConvArgs& args) const override;

 private:
  int64_t num_tasks() const { return CeilDiv(num_planes_, planes_of_task_) * bands_; }
  int64_t num_taps() const { return image_.size * image_.size; }
  int64_t num_weights() const { return image_.count * num_taps(); }
  void PackWeights(const T* filter, T* weights) const;
  struct Tensors {
    const T* source;
    const T* weights;
    T* out;
  };
  int64_t NumBands(int num_threads) const;
  WholePlanes<T> CallOf(const Tensors& tensors, Range planes, const RowPhase<T>& phase) const;
  void SumPlanes(const Tensors& tensors, Range planes) const;
  void SumBand(const Tensors& tensors, int64_t plane, int64_t band) const;
  int64_t VectorsOfRow(int64_t lanes_of_row) const;
  bool KeepsWeights() const;

  void (*const kernel_)(const WholePlanes<T>& planes);
  decltype(PackKernels<T>::transpose_widen) const transpose_;
  const int64_t vector_bytes_;
  const bool forward_;
  const WholePlanes<T> image_;
  const std::vector<RowPhase<T>> phases_;
  const int64_t num_planes_;  // of all images
  const int64_t planes_of_task_;
  const int64_t bands_;  // of rows of a plane; several only where a task had one plane
};

// [channel][tap], the taps in the order in which their sources lie: an input gradient's descend.
template <class T>
void WholePlanesPlan<T>::PackWeights(const T* filter, T* weights) const {
  const int64_t channels = image_.count, last = num_taps() - 1;
  transpose_(forward_ ? filter : filter + last * channels, forward_ ? channels : -channels, weights,
             num_taps(), num_taps(), channels, /*ahead=*/0);
}

// Few large planes are cut, so that all threads have tasks. A band reads its first rows of sources
// once more, which are few beside its own.
template <class T>
int64_t WholePlanesPlan<T>::NumBands(int num_threads) const {
  constexpr int64_t kRowsPerRowReadTwice = 8, kTasksOfThread = 4;
  const int64_t tasks = CeilDiv(num_planes_, planes_of_task_);
  const int64_t wanted = num_threads > 1 ? kTasksOfThread * num_threads : 1;
  const int64_t fewest_rows = kRowsPerRowReadTwice * (image_.size - 1);
  const int64_t most = planes_of_task_ == 1 ? phases_.back().planes.out_h / fewest_rows : 1;
  return std::clamp<int64_t>(CeilDiv(wanted, tasks), 1, std::max<int64_t>(most, 1));
}

// The call for planes of one image; planes are numbered through all images.
template <class T>
WholePlanes<T> WholePlanesPlan<T>::CallOf(const Tensors& tensors, Range planes,
                                          const RowPhase<T>& phase) const {
  WholePlanes<T> call = phase.planes;
  call.count = planes.size();
  call.source = tensors.source + planes.begin * image_.source_plane + phase.source;
  call.readable_before = planes.begin * image_.source_plane;
  call.readable_behind = (num_planes_ - planes.end) * image_.source_plane;
  call.out = tensors.out + planes.begin * image_.out_plane + phase.out;
  call.weights = tensors.weights + planes.begin % image_.count * num_taps();
  return call;
}

// A plane is taken by all phases in turn, where there are several.
template <class T>
void WholePlanesPlan<T>::SumPlanes(const Tensors& tensors, Range planes) const {
  const int64_t channels = image_.count, most = phases_.size() > 1 ? 1 : channels;
  for (int64_t plane = planes.begin; plane < planes.end;) {
    const int64_t end = std::min({planes.end, plane + channels - plane % channels, plane + most});
    for (const RowPhase<T>& phase : phases_) kernel_(CallOf(tensors, {plane, end}, phase));
    plane = end;
  }
}

template <class T>
void WholePlanesPlan<T>::SumBand(const Tensors& tensors, int64_t plane, int64_t band) const {
  for (const RowPhase<T>& phase : phases_) {
    const int64_t step = image_.spread ? image_.stride : 1;
    const Range steps = ShareOf(CeilDiv(phase.planes.out_h, step), bands_, band);
    const Range rows = {steps.begin * step, std::min(steps.end * step, phase.planes.out_h)};
    kernel_(BandOf(CallOf(tensors, {plane, plane + 1}, phase), rows));
  }
}

template <class T>
bool WholePlanesPlan<T>::Run(const ConvArgs& args) const {
  if (!IsFinite<T>(args.filter, num_weights())) return false;
  AlignedArray<T> weights(num_weights());
  PackWeights(static_cast<const T*>(args.filter), weights.data());
  const Tensors tensors = {static_cast<const T*>(args.Source(forward_)), weights.data(),
                           static_cast<T*>(args.result)};
  args.parallel.For(num_tasks(), [&](int64_t task) {
    if (bands_ > 1) return SumBand(tensors, task / bands_, task % bands_);
    const int64_t first = task * planes_of_task_;
    SumPlanes(tensors, {first, std::min(first + planes_of_task_, num_planes_)});
  });
  return true;
}

// As the kernel chooses them.
template <class T>
int64_t WholePlanesPlan<T>::VectorsOfRow(int64_t lanes_of_row) const {
  constexpr int64_t kLeast = kLeastPlaneWidth<T>;
  const int64_t lanes = vector_bytes_ / int64_t{sizeof(T)}, half = std::max(kLeast, lanes / 2);
  return CeilDiv(lanes_of_row, lanes_of_row > half ? lanes : lanes_of_row > kLeast ? half : kLeast);
}

template <class T>
bool WholePlanesPlan<T>::KeepsWeights() const {
  constexpr int64_t kMostKept = 5, kMostKeptSpread = 3;
  const bool apart = image_.spread && image_.stride > 1;
  return vector_bytes_ >= kLineBytes && image_.size <= (apart ? kMostKeptSpread : kMostKept);
}

// Left out: that the kernel takes two vectors of 3x3 filters together where registers are few.
template <class T>
Work WholePlanesPlan<T>::CountWork() const {
  constexpr int64_t kNumbersTogether = 2048;
  const int64_t stride = image_.stride, size = image_.size;
  const int64_t skipped = image_.spread ? 1 : stride, spread = image_.spread ? stride : 1;
  const auto vectors =
      static_cast<double>(num_planes_ * VectorsOfRow(CeilDiv(image_.out_w, spread)));
  const int64_t read_twice = (bands_ - 1) * ((size - 1) * image_.dilation / spread);
  const double rows = vectors * static_cast<double>(image_.source_h + read_twice);
  // Rows of the filter that a row of the source meets.
  const double live = static_cast<double>(size) / static_cast<double>(skipped);
  const double sums = std::max(live * static_cast<double>(spread), double{kFewestSums});
  const int64_t shuffled = skipped > 1 ? size + 1 : 0;
  Work work;
  work.Add(WorkKind::kPlaneFma,
           rows * sums * static_cast<double>(size) / static_cast<double>(spread));
  work.Add(WorkKind::kPlaneLoad, rows * (static_cast<double>(size + shuffled) +
                                         (KeepsWeights() ? 0 : live * static_cast<double>(size))) +
                                     vectors * static_cast<double>(num_taps()));
  // Rows of results, and those before the first and behind the last.
  const int64_t ended =
      (image_.out_h + (size - 1) * image_.dilation - image_.pad_h / skipped) * spread;
  work.Add(WorkKind::kFold, vectors * static_cast<double>(ended));
  const int64_t together =
      phases_.size() > 1
          ? 1
          : std::clamp<int64_t>(kNumbersTogether / image_.source_plane, 1, planes_of_task_);
  work.Add(WorkKind::kCall, vectors *
                                static_cast<double>(bands_ * static_cast<int64_t>(phases_.size())) /
                                static_cast<double>(together));
  work.Add(WorkKind::kTransposed, static_cast<double>(num_weights()) * double{sizeof(T)} / 4);
  work.Add(WorkKind::kRun, static_cast<double>(num_taps()));
  work.Add(WorkKind::kTask, static_cast<double>(num_tasks()));
  // Rows of a phase come from memory line by line: neither the machine nor a fetch ahead by the
  // caller makes up for that.
  if (phases_.size() > 1 &&
      TensorBytes(image_, num_planes_ / image_.count) >= kTensorsLeaveTheCaches) {
    work.Add(WorkKind::kScattered,
             static_cast<double>(num_planes_ * (image_.source_plane + image_.out_plane)) *
                 double{sizeof(T)} / 4);
  }
  return work;
}

bool HasKernel(DType dtype, const KernelTable& kernels) {
  if (dtype == DType::kFloat64) return kernels.plane_f64.sum_whole != nullptr;
  return dtype == DType::kFloat32 && kernels.plane_f32.sum_whole != nullptr;
}

bool CanWholePlanes(const Problem& problem, const KernelTable& kernels) {
  const ConvGeometry& g = problem.geometry;
  const bool forward = InfoOf(problem.op).direction == Direction::kForward;
  const bool planes = problem.data_format == DataFormat::kNCHW || g.in_c == 1;
  const Dimension rows = Dimension::Rows(g, forward), cols = Dimension::Cols(g, forward);
  const int64_t row_bytes = cols.num_results() * InfoOf(problem.dtype).bytes;
  return planes && HasKernel(problem.dtype, kernels) && g.group_out_c == 1 &&
         g.kernel_h == g.kernel_w && g.stride_h == g.stride_w && g.dilation_h == g.dilation_w &&
         (cols.dilation == 1 || row_bytes >= kernels.vector_bytes) && FitsKernel(cols) &&
         FitsKernel(rows);
}

}  // namespace

const Algorithm kDepthwiseWholePlanesAlgorithm = {
    .name = "whole-planes",
    .summary = "depthwise forward and input gradient of 3x3 to 7x7 filters, planes as they lie",
    .can = CanWholePlanes,
    .plan = PlanComputed<WholePlanesPlan>,
    .may_refuse_data = true,
};

}  // namespace convgrad
