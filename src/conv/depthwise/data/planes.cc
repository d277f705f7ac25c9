// Depthwise forward and input gradient with lanes along columns: a plane is copied between zeros
// (forward with a stride: its columns apart), so that a tap is one distance. An input gradient's
// results of each phase of the stride are a plane of their own, put between each other at the end.
// All of memory is read and written in order. Padding beside a row is multiplied, so a filter with
// an infinity or a NaN goes the other way; rows off the image are skipped.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <type_traits>
#include <vector>

#include "base/checked.h"
#include "conv/depthwise/algorithms.h"
#include "conv/depthwise/data/cost.h"
#include "conv/depthwise/data/planes_plan.h"
#include "conv/depthwise/strips.h"
#include "conv/move/filter_panel.h"
#include "conv/plan/function_plan.h"

namespace convgrad {
namespace {

// More planes than these are parted and put together by transposing.
constexpr int64_t kMostSplitPlanes = 4, kMostMergedPlanes = 4;

template <class Stored>
class PlanesEngine {
 public:
  using Compute = ComputeType<Stored>;

  PlanesEngine(const ConvArgs& args, const PlanesPlan& plan)
      : plan_(plan),
        kernels_(args.kernels.Plane<Compute>()),
        pack_(args.kernels.Pack<Stored>()),
        stream_(args.kernels.Depthwise<Compute>().stream),
        source_(static_cast<const Stored*>(plan.forward ? args.input : args.out_backprop)),
        result_(static_cast<Stored*>(args.result)),
        weights_(plan.num_weights()),
        pool_(plan.piece_bytes()) {
    PackWeights(static_cast<const Stored*>(args.filter));
  }

  void RunPiece(int64_t index);

 private:
  // A piece's memory. The zeros of the staged planes are there from the beginning.
  struct Scratch {
    Compute *staged, *out, *dense;
    Stored* streamed;
    int64_t waiting;  // planes of results in `streamed`
  };

  void PackWeights(const Stored* filter);
  void StagePlane(int64_t plane, const RowBand& band, Compute* dense, Compute* staged) const;
  void SumPhase(const RowBand& band, const ColPhase& phase, const Compute* weights,
                const Compute* staged, Compute* out, uintptr_t* next) const;
  void SumPlane(const RowBand& band, const Compute* weights, const Compute* staged, Compute* out,
                uintptr_t* next) const;
  void MergeRow(const Compute* row, Compute* dense, Stored* to) const;
  void StorePlane(const RowBand& band, const Compute* rows, Compute* dense, Stored* to) const;
  void SumGroup(int64_t group, const RowBand& band, Scratch* scratch) const;
  void StreamPlanes(int64_t end_plane, const RowBand& band, Scratch* scratch) const;
  void StageImage(int64_t image, const RowBand& band, const Scratch& scratch) const;
  void StoreImage(int64_t image, const RowBand& band, const Scratch& scratch) const;
  void StageGroup(int64_t group, const RowBand& band, const Scratch& scratch) const;

  // The first row of a band, of a plane or of an image whose planes are interleaved.
  const Stored* SourceRow(int64_t plane, const RowBand& band) const {
    const int64_t row_size =
        plan_.cols.num_sources() * (plan_.interleaved ? plan_.staged_planes() : 1);
    return source_ + (plane * plan_.rows.num_sources() + band.sources.begin) * row_size;
  }
  Stored* ResultRow(int64_t plane, int64_t row) const {
    return result_ + (plane * plan_.rows.num_results() + row) * plan_.cols.num_results();
  }

  const PlanesPlan& plan_;
  const PlaneKernels<Compute>& kernels_;
  const PackKernels<Stored>& pack_;
  void (*const stream_)(const void* from, void* to, int64_t bytes);
  const Stored* source_;
  Stored* result_;
  AlignedArray<Compute> weights_;  // by plane of results of one image
  BufferPool pool_;
};

// One tap of the filter, all channels, at a time.
template <class Stored>
void PlanesEngine<Stored>::PackWeights(const Stored* filter) {
  const int64_t size = plan_.num_channels * plan_.multiplier, planes = plan_.group_sources();
  const int64_t plane_weights = plan_.weights_of_plane;
  AlignedArray<Compute> tap_weights(size);
  const auto pack_tap = [&](int64_t row_tap, int64_t col_tap, Compute* to, int64_t term_size) {
    pack_.widen(filter + (row_tap * plan_.cols.kernel + col_tap) * size, tap_weights.data(), size);
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
  for (const ColPhase& phase : plan_.col_phases) {
    for (const TapLine& line : plan_.row_phases) pack_line(phase, line);
  }
}

// Copies a band's rows of a plane between the zeros.
template <class Stored>
void PlanesEngine<Stored>::StagePlane(int64_t plane, const RowBand& band, Compute* dense,
                                      Compute* staged) const {
  const int64_t width = plan_.cols.num_sources(), num_rows = band.sources.size();
  const Stored* from = SourceRow(plane, band);
  Compute* to = staged + plan_.left;
  if (plan_.num_residues == 1) {
    pack_.copy_widen(from, width, to, plan_.staged_row(), num_rows, width);
    return;
  }
  const Compute* rows = dense;
  if constexpr (std::is_same_v<Stored, Compute>) {
    rows = from;
  } else {
    pack_.widen(from, dense, num_rows * width);
  }
  for (int64_t row = 0; row < num_rows; ++row) {
    kernels_.split(rows + row * width, to + row * plan_.staged_row(), plan_.residue_size,
                   plan_.num_residues, width);
  }
}

// One phase of the results of a band of one plane, from the staged planes. Moves *next past what is
// fetched.
template <class Stored>
void PlanesEngine<Stored>::SumPhase(const RowBand& band, const ColPhase& phase,
                                    const Compute* weights, const Compute* staged, Compute* out,
                                    uintptr_t* next) const {
  constexpr int64_t kLineBytes = 64;
  for (const auto& [line, most_live, visits, lines_a_visit] : band.lines) {
    PlaneRows<Compute> call = {};
    call.visits = visits.data();
    call.num_visits = static_cast<int64_t>(visits.size());
    call.most_live = most_live;
    call.source = staged;
    call.source_stride = plan_.staged_row();
    call.count = line.count;
    call.lines_a_visit = lines_a_visit;
    call.offsets = phase.offsets.data();
    call.num_terms = phase.num_terms();
    call.weights = weights + phase.WeightsAt(line);
    call.same_weights = line.stride == 1;
    call.width = plan_.width;
    call.out = out + (line.result_first - band.results.begin) * plan_.width;
    call.out_stride = line.result_step * plan_.width;
    call.next = *next;
    kernels_.sum_taps(call);
    *next += static_cast<uintptr_t>(call.num_visits * lines_a_visit * kLineBytes);
  }
}

// All phases, those after the first one a multiple of a group's planes behind it.
template <class Stored>
void PlanesEngine<Stored>::SumPlane(const RowBand& band, const Compute* weights,
                                    const Compute* staged, Compute* out, uintptr_t* next) const {
  const int64_t step = plan_.out_planes() / plan_.num_phases() * plan_.out_plane;
  for (const ColPhase& phase : plan_.col_phases) {
    SumPhase(band, phase, weights, staged, out, next);
    out += step;
  }
}

// A row of results of all planes that are put together: few by merging, more by transposing.
template <class Stored>
void PlanesEngine<Stored>::MergeRow(const Compute* row, Compute* dense, Stored* to) const {
  const int64_t planes = plan_.out_planes(), width = plan_.cols.num_results();
  const int64_t whole = width / plan_.num_phases();
  if (planes > kMostMergedPlanes) {
    pack_.transpose_narrow(row, plan_.out_plane, to, planes, planes, whole, 0);
  } else if constexpr (std::is_same_v<Stored, Compute>) {
    kernels_.merge(row, plan_.out_plane, to, planes, whole * planes);
  } else {
    kernels_.merge(row, plan_.out_plane, dense, planes, whole * planes);
    pack_.narrow(dense, to, whole * planes);
  }
  // The last columns are not of all phases.
  const int64_t rest = width % plan_.num_phases() * planes / plan_.num_phases();
  if (rest == 0) return;
  pack_.transpose_narrow(row + whole, plan_.out_plane, to + whole * planes, rest, rest, 1, 0);
}

// Rounds results that were not written directly.
template <class Stored>
void PlanesEngine<Stored>::StorePlane(const RowBand& band, const Compute* rows, Compute* dense,
                                      Stored* to) const {
  const int64_t width = plan_.cols.num_results();
  if (plan_.num_phases() > 1) {
    for (int64_t row = 0; row < band.results.size(); ++row) {
      MergeRow(rows + row * plan_.width, dense, to + row * width);
    }
    return;
  }
  const int64_t num_calls = plan_.width == width ? 1 : band.results.size();
  const int64_t count = band.results.size() * width / num_calls;
  for (int64_t i = 0; i < num_calls; ++i) {
    pack_.narrow(rows + i * plan_.width, to + i * count, count);
  }
}

// Writes the planes that wait, which end before plane `end_plane`.
template <class Stored>
void PlanesEngine<Stored>::StreamPlanes(int64_t end_plane, const RowBand& band,
                                        Scratch* scratch) const {
  const int64_t band_size = band.results.size() * plan_.cols.num_results();
  stream_(scratch->streamed, ResultRow(end_plane - scratch->waiting, band.results.begin),
          scratch->waiting * band_size * int64_t{sizeof(Stored)});
  scratch->waiting = 0;
}

// Rows that hold all channels in turn become rows of planes: few channels by splitting, more by
// transposing.
template <class Stored>
void PlanesEngine<Stored>::StageImage(int64_t image, const RowBand& band,
                                      const Scratch& scratch) const {
  const int64_t width = plan_.cols.num_sources(), planes = plan_.staged_planes();
  const bool apart = plan_.num_residues > 1;
  Compute *widened = scratch.dense, *split = scratch.dense + width * planes;
  for (int64_t row = 0; row < band.sources.size(); ++row) {
    const Stored* from = SourceRow(image, band) + row * width * planes;
    Compute* staged = scratch.staged + row * plan_.staged_row() + plan_.left;
    Compute* to = apart ? split : staged;
    const int64_t to_stride = apart ? width : plan_.staged_plane;
    if (planes > kMostSplitPlanes) {
      pack_.transpose_widen(from, planes, to, to_stride, width, planes, 0);
    } else {
      pack_.widen(from, widened, width * planes);
      kernels_.split(widened, to, to_stride, planes, width * planes);
    }
    for (int64_t plane = 0; apart && plane < planes; ++plane) {
      kernels_.split(split + plane * width, staged + plane * plan_.staged_plane, plan_.residue_size,
                     plan_.num_residues, width);
    }
  }
}

// The inverse, for the results of a band.
template <class Stored>
void PlanesEngine<Stored>::StoreImage(int64_t image, const RowBand& band,
                                      const Scratch& scratch) const {
  const int64_t row_size = plan_.cols.num_results() * plan_.result_planes();
  for (int64_t row = 0; row < band.results.size(); ++row) {
    Stored* const result =
        result_ + (image * plan_.rows.num_results() + band.results.begin + row) * row_size;
    Stored* const to = plan_.streamed_planes > 0 ? scratch.streamed : result;
    MergeRow(scratch.out + row * plan_.width, scratch.dense, to);
    if (to != result) stream_(to, result, row_size * int64_t{sizeof(Stored)});
  }
}

template <class Stored>
void PlanesEngine<Stored>::StageGroup(int64_t group, const RowBand& band,
                                      const Scratch& scratch) const {
  if (plan_.interleaved) return StageImage(group, band, scratch);
  const int64_t planes = plan_.staged_planes();
  for (int64_t m = 0; m < planes; ++m) {
    StagePlane(group * planes + m, band, scratch.dense, scratch.staged + m * plan_.staged_plane);
  }
}

// The results of a staged group.
template <class Stored>
void PlanesEngine<Stored>::SumGroup(int64_t group, const RowBand& band, Scratch* scratch) const {
  const int64_t results = plan_.result_planes();
  const int64_t channel = group * plan_.group_channels % plan_.num_channels;
  const int64_t following = plan_.interleaved ? group + 1 : (group + 1) * plan_.staged_planes();
  const int64_t band_size = band.results.size() * plan_.cols.num_results();
  auto next = reinterpret_cast<uintptr_t>(SourceRow(following, band));
  for (int64_t i = 0; i < results; ++i) {
    const int64_t plane = group * results + i;
    const Compute* weights =
        weights_.data() + (channel * plan_.group_results() + i) * plan_.weights_of_plane;
    const Compute* staged =
        scratch->staged + i / plan_.group_results() * plan_.group_sources() * plan_.staged_plane;
    if (plan_.interleaved) {
      SumPlane(band, weights, staged, scratch->out + i * plan_.out_plane, &next);
      continue;
    }
    const bool streams = plan_.streamed_planes > 0;
    Stored* const to = streams ? scratch->streamed + scratch->waiting * band_size
                               : ResultRow(plane, band.results.begin);
    Compute* const out = plan_.direct ? reinterpret_cast<Compute*>(to) : scratch->out;
    SumPlane(band, weights, staged, out, &next);
    if (!plan_.direct) StorePlane(band, out, scratch->dense, to);
    if (streams && ++scratch->waiting == plan_.streamed_planes) {
      StreamPlanes(plane + 1, band, scratch);
    }
  }
}

template <class Stored>
void PlanesEngine<Stored>::RunPiece(int64_t index) {
  BufferPool::Lease lease(&pool_);
  Scratch scratch;
  scratch.streamed = reinterpret_cast<Stored*>(lease.data());
  scratch.staged = reinterpret_cast<Compute*>(lease.data()) + plan_.streamed_size;
  scratch.out = scratch.staged + plan_.staged_planes() * plan_.staged_plane;
  scratch.dense = scratch.out + plan_.out_planes() * plan_.out_plane;
  scratch.waiting = 0;
  const RowBand& band = plan_.bands[static_cast<size_t>(index / plan_.pieces_of_band())];
  const int64_t first = index % plan_.pieces_of_band() * plan_.groups_per_piece;
  const int64_t last = std::min(first + plan_.groups_per_piece, plan_.num_groups);
  for (int64_t group = first; group < last; ++group) {
    StageGroup(group, band, scratch);
    SumGroup(group, band, &scratch);
    if (plan_.interleaved) StoreImage(group, band, scratch);
  }
  if (scratch.waiting > 0) {
    StreamPlanes(last * plan_.group_channels * plan_.group_results(), band, &scratch);
  }
  if (plan_.streamed_planes > 0) std::atomic_thread_fence(std::memory_order_seq_cst);
}

bool RunPlanes(const ConvArgs& args) {
  const PlanesPlan plan(args.problem, args.parallel.num_threads());
  return VisitFloat(args.problem.dtype, [&](auto tag) {
    using Stored = typename decltype(tag)::Type;
    const int64_t filter_size = *CheckedProduct(args.problem.ShapeOf(Role::kFilter));
    if (plan.multiplies_padding && !IsFinite<Stored>(args.filter, filter_size)) {
      return false;
    }
    PlanesEngine<Stored> engine(args, plan);
    args.parallel.For(plan.num_pieces(), [&](int64_t piece) { engine.RunPiece(piece); });
    return true;
  });
}

int64_t PlanesScratch(const Problem& problem, const KernelTable&, int num_threads) {
  const PlanesPlan plan(problem, num_threads);
  return plan.piece_bytes() * num_threads +
         (plan.num_weights() + plan.num_channels * plan.multiplier) * plan.compute_bytes;
}

std::string PlanesTiles(const Problem& problem, const KernelTable&) {
  const PlanesPlan plan(problem, 1);
  return fmt::format("{} planes x {} rows a piece, {}", plan.groups_per_piece,
                     plan.bands[0].results.size(),
                     plan.direct ? "stored directly" : "stored rounded");
}

}  // namespace

const Algorithm kDepthwisePlanesAlgorithm = {
    .name = "planes",
    .summary = "depthwise forward and input gradient, lanes along columns of padded planes",
    .can = [](const Problem& problem, const KernelTable&) { return PlanesPlan::Fits(problem); },
    .cycles = PlanesCycles,
    .plan = FunctionPlan<PlanesScratch, PlanesTiles, RunPlanes>::Make,
    .may_refuse_data = true,
};

}  // namespace convgrad
