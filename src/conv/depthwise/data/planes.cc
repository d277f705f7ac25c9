// Depthwise forward and input gradient with lanes along columns: a plane is copied between zeros
// (forward with a stride: its columns apart), so that a tap is one distance. An input gradient's
// results of each phase of the stride are a plane of their own, put between each other at the end.
// All of memory is read and written in order. Padding beside a row is multiplied, so a filter with
// an infinity or a NaN goes the other way; rows off the image are skipped.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "base/memory.h"
#include "base/parallel.h"
#include "conv/depthwise/algorithms.h"
#include "conv/depthwise/data/planes_cut.h"
#include "conv/depthwise/data/work.h"
#include "conv/move/special_numbers.h"

namespace convgrad {
namespace {

// More planes than these are parted and put together by transposing.
constexpr int64_t kMostSplitPlanes = 4, kMostMergedPlanes = 4;

template <class Stored>
class PlanesRunner {
 public:
  using Compute = ComputeType<Stored>;

  PlanesRunner(const ConvArgs& args, const PlanesCut& cut)
      : cut_(cut),
        kernels_(args.kernels.Plane<Compute>()),
        pack_(args.kernels.Pack<Stored>()),
        stream_(args.kernels.stream_bytes),
        source_(static_cast<const Stored*>(args.Source(cut.forward))),
        result_(static_cast<Stored*>(args.result)),
        weights_(cut.num_weights()),
        buffers_(args.parallel) {
    PackWeights(static_cast<const Stored*>(args.filter));
  }

  void RunTask(int64_t index);

 private:
  struct Buffer {
    explicit Buffer(int64_t size) : bytes(size) {
      std::memset(bytes.data(), 0, static_cast<size_t>(size));
    }
    AlignedArray<std::byte> bytes;
  };
  // A task's memory. The zeros of the staged planes are there from the beginning.
  struct Scratch {
    Compute *staged, *out, *dense;
    Stored* streamed;
    int64_t waiting;  // planes of results in `streamed`
  };

  void PackWeights(const Stored* filter);
  void StagePlane(int64_t plane, const RowPart& part, Compute* dense, Compute* staged) const;
  void SumPhase(const RowPart& part, const ColPhase& phase, const Compute* weights,
                const Compute* staged, Compute* out, uintptr_t* next) const;
  void SumPlane(const RowPart& part, const Compute* weights, const Compute* staged, Compute* out,
                uintptr_t* next) const;
  void MergeRow(const Compute* row, Compute* dense, Stored* to) const;
  void StorePlane(const RowPart& part, const Compute* rows, Compute* dense, Stored* to) const;
  void SumGroup(int64_t group, const RowPart& part, Scratch* scratch) const;
  void StreamPlanes(int64_t end_plane, const RowPart& part, Scratch* scratch) const;
  void StageImage(int64_t image, const RowPart& part, const Scratch& scratch) const;
  void StoreImage(int64_t image, const RowPart& part, const Scratch& scratch) const;
  void StageGroup(int64_t group, const RowPart& part, const Scratch& scratch) const;

  // The first row of a part, of a plane or of an image whose planes are interleaved.
  const Stored* SourceRow(int64_t plane, const RowPart& part) const {
    const int64_t row_size =
        cut_.cols.num_sources() * (cut_.interleaved ? cut_.staged_planes() : 1);
    return source_ + (plane * cut_.rows.num_sources() + part.sources.begin) * row_size;
  }
  Stored* ResultRow(int64_t plane, int64_t row) const {
    return result_ + (plane * cut_.rows.num_results() + row) * cut_.cols.num_results();
  }

  const PlanesCut& cut_;
  const PlaneKernels<Compute>& kernels_;
  const PackKernels<Stored>& pack_;
  void (*const stream_)(const void* from, void* to, int64_t bytes);
  const Stored* source_;
  Stored* result_;
  AlignedArray<Compute> weights_;  // by plane of results of one image
  PerThread<Buffer> buffers_;
};

// One tap of the filter, all channels, at a time.
template <class Stored>
void PlanesRunner<Stored>::PackWeights(const Stored* filter) {
  const int64_t size = cut_.num_channels * cut_.multiplier, planes = cut_.group_sources();
  const int64_t plane_weights = cut_.weights_of_plane;
  AlignedArray<Compute> tap_weights(size);
  const auto pack_tap = [&](int64_t row_tap, int64_t col_tap, Compute* to, int64_t term_size) {
    pack_.widen(filter + (row_tap * cut_.cols.kernel + col_tap) * size, tap_weights.data(), size);
    for (int64_t i = 0; i < size; ++i) {
      to[i / planes * plane_weights + i % planes * term_size] = tap_weights[i];
    }
  };
  const auto pack_line = [&](const ColPhase& phase, const TapLine& line) {
    Compute* to = weights_.data() + phase.WeightsAt(line);
    for (int64_t p = 0; p < std::min(line.stride, line.num_taps); ++p) {
      const int64_t num_rows = CeilDiv(line.num_taps - p, line.stride);
      for (const int64_t col_tap : phase.taps) {
        for (int64_t q = 0; q < num_rows; ++q) {
          const int64_t row_tap = line.tap_first + (p + q * line.stride) * line.tap_step;
          pack_tap(row_tap, col_tap, to + q, num_rows);
        }
        to += num_rows * planes;
      }
    }
  };
  for (const ColPhase& phase : cut_.col_phases) {
    for (const TapLine& line : cut_.row_phases) pack_line(phase, line);
  }
}

// Copies a part's rows of a plane between the zeros.
template <class Stored>
void PlanesRunner<Stored>::StagePlane(int64_t plane, const RowPart& part, Compute* dense,
                                      Compute* staged) const {
  const int64_t width = cut_.cols.num_sources(), num_rows = part.sources.size();
  const Stored* from = SourceRow(plane, part);
  Compute* to = staged + cut_.left;
  if (cut_.num_residues == 1) {
    pack_.copy_widen(from, width, to, cut_.staged_row(), num_rows, width);
    return;
  }
  const Compute* rows = dense;
  if constexpr (std::is_same_v<Stored, Compute>) {
    rows = from;
  } else {
    pack_.widen(from, dense, num_rows * width);
  }
  for (int64_t row = 0; row < num_rows; ++row) {
    kernels_.split(rows + row * width, to + row * cut_.staged_row(), cut_.residue_size,
                   cut_.num_residues, width);
  }
}

// One phase of the results of a part of one plane, from the staged planes. Moves *next past what is
// fetched.
template <class Stored>
void PlanesRunner<Stored>::SumPhase(const RowPart& part, const ColPhase& phase,
                                    const Compute* weights, const Compute* staged, Compute* out,
                                    uintptr_t* next) const {
  for (const auto& [line, most_live, visits, lines_a_visit] : part.lines) {
    PlaneRows<Compute> call = {};
    call.visits = visits.data();
    call.num_visits = static_cast<int64_t>(visits.size());
    call.most_live = most_live;
    call.source = staged;
    call.source_stride = cut_.staged_row();
    call.count = line.count;
    call.lines_a_visit = lines_a_visit;
    call.offsets = phase.offsets.data();
    call.num_terms = phase.num_terms();
    call.weights = weights + phase.WeightsAt(line);
    call.same_weights = line.stride == 1;
    call.width = cut_.width;
    call.out = out + (line.result_first - part.results.begin) * cut_.width;
    call.out_stride = line.result_step * cut_.width;
    call.next = *next;
    kernels_.sum_taps(call);
    *next += static_cast<uintptr_t>(call.num_visits * lines_a_visit * kLineBytes);
  }
}

// All phases, those after the first one a multiple of a group's planes behind it.
template <class Stored>
void PlanesRunner<Stored>::SumPlane(const RowPart& part, const Compute* weights,
                                    const Compute* staged, Compute* out, uintptr_t* next) const {
  const int64_t step = cut_.out_planes() / cut_.num_phases() * cut_.out_plane;
  for (const ColPhase& phase : cut_.col_phases) {
    SumPhase(part, phase, weights, staged, out, next);
    out += step;
  }
}

// A row of results of all planes that are put together: few by merging, more by transposing.
template <class Stored>
void PlanesRunner<Stored>::MergeRow(const Compute* row, Compute* dense, Stored* to) const {
  const int64_t planes = cut_.out_planes(), width = cut_.cols.num_results();
  const int64_t whole = width / cut_.num_phases();
  if (planes > kMostMergedPlanes) {
    pack_.transpose_narrow(row, cut_.out_plane, to, planes, planes, whole, 0);
  } else if constexpr (std::is_same_v<Stored, Compute>) {
    kernels_.merge(row, cut_.out_plane, to, planes, whole * planes);
  } else {
    kernels_.merge(row, cut_.out_plane, dense, planes, whole * planes);
    pack_.narrow(dense, to, whole * planes);
  }
  // The last columns are not of all phases.
  const int64_t rest = width % cut_.num_phases() * planes / cut_.num_phases();
  if (rest == 0) return;
  pack_.transpose_narrow(row + whole, cut_.out_plane, to + whole * planes, rest, rest, 1, 0);
}

// Rounds results that were not written directly.
template <class Stored>
void PlanesRunner<Stored>::StorePlane(const RowPart& part, const Compute* rows, Compute* dense,
                                      Stored* to) const {
  const int64_t width = cut_.cols.num_results();
  if (cut_.num_phases() > 1) {
    for (int64_t row = 0; row < part.results.size(); ++row) {
      MergeRow(rows + row * cut_.width, dense, to + row * width);
    }
    return;
  }
  const int64_t num_calls = cut_.width == width ? 1 : part.results.size();
  const int64_t count = part.results.size() * width / num_calls;
  for (int64_t i = 0; i < num_calls; ++i) {
    pack_.narrow(rows + i * cut_.width, to + i * count, count);
  }
}

// Writes the planes that wait, which end before plane `end_plane`.
template <class Stored>
void PlanesRunner<Stored>::StreamPlanes(int64_t end_plane, const RowPart& part,
                                        Scratch* scratch) const {
  const int64_t part_size = part.results.size() * cut_.cols.num_results();
  stream_(scratch->streamed, ResultRow(end_plane - scratch->waiting, part.results.begin),
          scratch->waiting * part_size * int64_t{sizeof(Stored)});
  scratch->waiting = 0;
}

// Rows that hold all channels in turn become rows of planes: few channels by splitting, more by
// transposing.
template <class Stored>
void PlanesRunner<Stored>::StageImage(int64_t image, const RowPart& part,
                                      const Scratch& scratch) const {
  const int64_t width = cut_.cols.num_sources(), planes = cut_.staged_planes();
  const bool apart = cut_.num_residues > 1;
  Compute *widened = scratch.dense, *split = scratch.dense + width * planes;
  for (int64_t row = 0; row < part.sources.size(); ++row) {
    const Stored* from = SourceRow(image, part) + row * width * planes;
    Compute* staged = scratch.staged + row * cut_.staged_row() + cut_.left;
    Compute* to = apart ? split : staged;
    const int64_t to_stride = apart ? width : cut_.staged_plane;
    if (planes > kMostSplitPlanes) {
      pack_.transpose_widen(from, planes, to, to_stride, width, planes, 0);
    } else {
      pack_.widen(from, widened, width * planes);
      kernels_.split(widened, to, to_stride, planes, width * planes);
    }
    for (int64_t plane = 0; apart && plane < planes; ++plane) {
      kernels_.split(split + plane * width, staged + plane * cut_.staged_plane, cut_.residue_size,
                     cut_.num_residues, width);
    }
  }
}

// The inverse, for the results of a part.
template <class Stored>
void PlanesRunner<Stored>::StoreImage(int64_t image, const RowPart& part,
                                      const Scratch& scratch) const {
  const int64_t row_size = cut_.cols.num_results() * cut_.result_planes();
  for (int64_t row = 0; row < part.results.size(); ++row) {
    Stored* const result =
        result_ + (image * cut_.rows.num_results() + part.results.begin + row) * row_size;
    Stored* const to = cut_.streamed_planes > 0 ? scratch.streamed : result;
    MergeRow(scratch.out + row * cut_.width, scratch.dense, to);
    if (to != result) stream_(to, result, row_size * int64_t{sizeof(Stored)});
  }
}

template <class Stored>
void PlanesRunner<Stored>::StageGroup(int64_t group, const RowPart& part,
                                      const Scratch& scratch) const {
  if (cut_.interleaved) return StageImage(group, part, scratch);
  const int64_t planes = cut_.staged_planes();
  for (int64_t m = 0; m < planes; ++m) {
    StagePlane(group * planes + m, part, scratch.dense, scratch.staged + m * cut_.staged_plane);
  }
}

// The results of a staged group.
template <class Stored>
void PlanesRunner<Stored>::SumGroup(int64_t group, const RowPart& part, Scratch* scratch) const {
  const int64_t results = cut_.result_planes();
  const int64_t channel = group * cut_.group_channels % cut_.num_channels;
  const int64_t following = cut_.interleaved ? group + 1 : (group + 1) * cut_.staged_planes();
  const int64_t part_size = part.results.size() * cut_.cols.num_results();
  auto next = reinterpret_cast<uintptr_t>(SourceRow(following, part));
  for (int64_t i = 0; i < results; ++i) {
    const int64_t plane = group * results + i;
    const Compute* weights =
        weights_.data() + (channel * cut_.group_results() + i) * cut_.weights_of_plane;
    const Compute* staged =
        scratch->staged + i / cut_.group_results() * cut_.group_sources() * cut_.staged_plane;
    if (cut_.interleaved) {
      SumPlane(part, weights, staged, scratch->out + i * cut_.out_plane, &next);
      continue;
    }
    const bool streams = cut_.streamed_planes > 0;
    Stored* const to = streams ? scratch->streamed + scratch->waiting * part_size
                               : ResultRow(plane, part.results.begin);
    Compute* const out = cut_.direct ? reinterpret_cast<Compute*>(to) : scratch->out;
    SumPlane(part, weights, staged, out, &next);
    if (!cut_.direct) StorePlane(part, out, scratch->dense, to);
    if (streams && ++scratch->waiting == cut_.streamed_planes) {
      StreamPlanes(plane + 1, part, scratch);
    }
  }
}

template <class Stored>
void PlanesRunner<Stored>::RunTask(int64_t index) {
  AlignedArray<std::byte>& buffer = buffers_.Own(cut_.task_bytes()).bytes;
  Scratch scratch;
  scratch.streamed = reinterpret_cast<Stored*>(buffer.data());
  scratch.staged = reinterpret_cast<Compute*>(buffer.data()) + cut_.streamed_size;
  scratch.out = scratch.staged + cut_.staged_planes() * cut_.staged_plane;
  scratch.dense = scratch.out + cut_.out_planes() * cut_.out_plane;
  scratch.waiting = 0;
  const RowPart& part = cut_.row_parts[static_cast<size_t>(index / cut_.tasks_of_part())];
  const int64_t first = index % cut_.tasks_of_part() * cut_.groups_of_task;
  const int64_t last = std::min(first + cut_.groups_of_task, cut_.num_groups);
  for (int64_t group = first; group < last; ++group) {
    StageGroup(group, part, scratch);
    SumGroup(group, part, &scratch);
    if (cut_.interleaved) StoreImage(group, part, scratch);
  }
  if (scratch.waiting > 0) {
    StreamPlanes(last * cut_.group_channels * cut_.group_results(), part, &scratch);
  }
  if (cut_.streamed_planes > 0) std::atomic_thread_fence(std::memory_order_seq_cst);
}

class DepthwisePlanesPlan final : public Plan {
 public:
  DepthwisePlanesPlan(const Problem& problem, const KernelTable& kernels, int num_threads)
      : dtype_(problem.dtype),
        kernels_(kernels),
        num_threads_(num_threads),
        cut_(problem, num_threads) {}

  int64_t ScratchBytes() const override {
    return cut_.task_bytes() * num_threads_ +
           (cut_.num_weights() + cut_.num_channels * cut_.multiplier) * cut_.compute_bytes;
  }
  Work CountWork() const override { return CountPlanes(cut_, kernels_); }
  std::string Tiles() const override;
  bool Run(const ConvArgs& args) const override;

 private:
  const DType dtype_;
  const KernelTable& kernels_;
  const int num_threads_;
  const PlanesCut cut_;
};

std::string DepthwisePlanesPlan::Tiles() const {
  return fmt::format("{} planes x {} rows a task, {}", cut_.groups_of_task,
                     cut_.row_parts[0].results.size(),
                     cut_.direct ? "stored directly" : "stored rounded");
}

bool DepthwisePlanesPlan::Run(const ConvArgs& args) const {
  return VisitFloat(dtype_, [&](auto tag) {
    using Stored = typename decltype(tag)::Type;
    const int64_t filter_size = cut_.num_taps() * cut_.num_channels * cut_.multiplier;
    if (cut_.multiplies_padding && !IsFinite<Stored>(args.filter, filter_size)) return false;
    PlanesRunner<Stored> runner(args, cut_);
    args.parallel.For(cut_.num_tasks(), [&](int64_t task) { runner.RunTask(task); });
    return true;
  });
}

std::unique_ptr<Plan> PlanPlanes(const Problem& problem, const KernelTable& kernels,
                                 int num_threads) {
  return std::make_unique<DepthwisePlanesPlan>(problem, kernels, num_threads);
}

}  // namespace

const Algorithm kDepthwisePlanesAlgorithm = {
    .name = "planes",
    .summary = "depthwise forward and input gradient, lanes along columns of padded planes",
    .can = [](const Problem& problem, const KernelTable&) { return PlanesCut::Fits(problem); },
    .plan = PlanPlanes,
    .may_refuse_data = true,
};

}  // namespace convgrad
