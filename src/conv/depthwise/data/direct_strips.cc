#include <algorithm>
#include <atomic>
#include <cstring>
#include <vector>

#include "base/checked.h"
#include "base/memory.h"
#include "base/parallel.h"
#include "conv/depthwise/data/direct_calls.h"
#include "conv/depthwise/data/direct_runs.h"
#include "conv/move/stream_result.h"

namespace convgrad {
namespace {

// A run through strips. A task goes down its rows and packs sources and unpacks results as it goes,
// so that memory works while the kernel does.
template <class Stored>
class StripsRunner {
 public:
  using Compute = ComputeType<Stored>;

  StripsRunner(const ConvArgs& args, const DepthwiseDataCut& cut)
      : cut_(cut),
        kernels_(args.kernels.Depthwise<Compute>()),
        row_kernels_(args.kernels.DepthwiseRows<Compute>()),
        pack_(args.kernels.Pack<Stored>()),
        source_packer_(args.kernels, cut.source, cut.by_plane, SourceForm(cut), cut.multiplier),
        result_packer_(args.kernels, cut.result, cut.by_plane, StripForm::kPlain, 1),
        source_pixels_(args.kernels, cut.source.AsRow(), true, SourceForm(cut), cut.multiplier),
        result_pixels_(args.kernels, cut.result.AsRow(), true, StripForm::kPlain, 1),
        source_(static_cast<const Stored*>(args.Source(cut.forward))),
        filter_(static_cast<const Stored*>(args.filter)),
        result_(static_cast<Stored*>(args.result)),
        stream_(cut.streams && IsLine(result_)),
        workers_(args.parallel) {}

  void RunTask(int64_t index);

 private:
  // One task while it runs. A thread keeps it for its next one, which often needs the same calls.
  struct Worker {
    explicit Worker(const DepthwiseDataCut& cut);

    AlignedArray<std::byte> memory;
    Compute *filter, *strip, *intermediate, *out;

    int64_t image;
    Range channels = {0, 0}, rows = {0, 0};
    Range filter_of = {0, 0};  // the channels that the packed filter is of
    RowPlace<Compute> place = {};
    RowCallFinder<Compute> finder;
    std::vector<RowCalls<Compute>> calls;  // of all rows
    int64_t packed_end, packed_pixels;     // of the sources: the row behind them, or how many
    int64_t waiting_rows, stored_pixels;   // of the results in `out`: how many, how many are stored
  };

  static StripForm SourceForm(const DepthwiseDataCut& cut) {
    if (cut.multiplier == 1) return StripForm::kPlain;
    return cut.forward ? StripForm::kRepeated : StripForm::kParted;
  }

  bool HaveSameWeights(Range channels, Range others) const;
  void PackFilter(const Worker& worker) const;
  void PackTap(const Worker& worker, const Stored* from, Compute* to) const;
  void FindPlace(int64_t index, Worker* worker) const;
  StripRows RowsFor(Range rows) const;
  void PackSources(Worker* worker, int64_t end_row) const;
  void PackPixels(Worker* worker, int64_t end_row) const;
  void PackResidues(const StripPart& part, const RowPlace<Compute>& place, Compute* intermediate,
                    Compute* strip) const;
  void PackRows(Worker* worker, int64_t end_row) const;
  void RunRow(Worker* worker, int64_t row, const RowCalls<Compute>& calls) const;
  void StoreResults(Worker* worker, int64_t end_row) const;

  // Planes of whole rows are packed and stored as pixels, whatever row they are of.
  bool ByPixel(const DataLayout& layout, Range cols) const {
    return layout.format == DataFormat::kNCHW && cols.size() == layout.w;
  }
  // The next task's planes follow this one's, or are those of the next image.
  int64_t Ahead(const DataLayout& layout, int64_t num_planes) const {
    if (cut_.chunks_of_image > 0) num_planes = layout.c;
    return layout.format == DataFormat::kNCHW ? num_planes * layout.plane() : 0;
  }
  Range ResultChannels(const Worker& worker) const {
    const int64_t per_channel = cut_.forward ? cut_.multiplier : 1;
    return {worker.channels.begin * per_channel, worker.channels.end * per_channel};
  }

  const DepthwiseDataCut& cut_;
  const DepthwiseKernels<Compute>& kernels_;
  const DepthwiseRowKernels<Compute>& row_kernels_;
  const PackKernels<Stored>& pack_;
  const StripPacker<Stored> source_packer_, result_packer_, source_pixels_, result_pixels_;
  const Stored* source_;
  const Stored* filter_;
  Stored* result_;
  const bool stream_;
  PerThread<Worker> workers_;
};

template <class Stored>
StripsRunner<Stored>::Worker::Worker(const DepthwiseDataCut& cut)
    : memory(cut.worker_bytes()), finder(cut, place) {
  // Lanes beyond the channels are read.
  std::memset(memory.data(), 0, static_cast<size_t>(memory.size()));
  filter = reinterpret_cast<Compute*>(memory.data());
  strip = filter + cut.filter_size;
  intermediate = strip + cut.strip_size;
  out = intermediate + cut.intermediate_size;
}

// Planes of NCHW are counted on into later images.
template <class Stored>
bool StripsRunner<Stored>::HaveSameWeights(Range channels, Range others) const {
  const int64_t period = cut_.source.format == DataFormat::kNCHW ? cut_.num_channels() : INT64_MAX;
  return channels.size() == others.size() && (channels.begin - others.begin) % period == 0;
}

// filter[row][packed tap][m, if its terms are apart][lane] for the lanes of the task's results.
template <class Stored>
void StripsRunner<Stored>::PackFilter(const Worker& worker) const {
  const int64_t num_weights = cut_.forward ? cut_.result.c : cut_.source.c;
  Compute* to = worker.filter;
  for (int64_t row = 0; row < cut_.rows.kernel; ++row) {
    for (const int64_t tap : cut_.packed_taps) {
      PackTap(worker, filter_ + (row * cut_.cols.kernel + tap) * num_weights, to);
      to += cut_.SourceSize(worker.channels.size());
    }
  }
}

// The weights of one tap, num_weights at `from`, for every lane.
template <class Stored>
void StripsRunner<Stored>::PackTap(const Worker& worker, const Stored* from, Compute* to) const {
  const int64_t multiplier = cut_.multiplier, size = worker.channels.size();
  if (cut_.by_plane && cut_.source.format == DataFormat::kNHWC) {
    for (int64_t lane = 0; lane < size; ++lane) {
      const int64_t channel = (worker.channels.begin + lane) / cut_.source.batch;
      for (int64_t m = 0; m < multiplier; ++m) {
        pack_.widen(from + channel * multiplier + m, to + m * size + lane, 1);
      }
    }
    return;
  }
  const int64_t num_weights = cut_.forward ? cut_.result.c : cut_.source.c;
  Compute* plain = cut_.tap_terms() == 1 ? to : worker.intermediate;
  // Planes may go on into later images: their weights begin again.
  for (int64_t done = 0, at = worker.channels.begin * multiplier % num_weights;
       done < size * multiplier; at = 0) {
    const int64_t count = std::min(size * multiplier - done, num_weights - at);
    pack_.widen(from + at, plain + done, count);
    done += count;
  }
  if (plain != to) kernels_.part(plain, to, 1, size, multiplier);
}

// The source rows that results of `rows` read.
template <class Stored>
StripRows StripsRunner<Stored>::RowsFor(Range rows) const {
  return StripRows(SourcesOf(cut_.rows, rows), [&](const auto& read) {
    PointTaps taps;
    for (int64_t row = rows.begin; row < rows.end; ++row) {
      FindTaps(cut_.rows, row, &taps);
      for (const PointTap& tap : taps.valid) read(tap.source);
    }
  });
}

// Sources before row `end_row`, and as many more as are packed together.
template <class Stored>
void StripsRunner<Stored>::PackPixels(Worker* worker, int64_t end_row) const {
  const Range rows = worker->place.rows.rows();
  const int64_t width = cut_.source.w, first = rows.begin * width;
  const int64_t all = rows.size() * width, wanted = (end_row - rows.begin) * width;
  const int64_t end = std::min(all, RoundUp(wanted, PixelsTogether(cut_.source.plane())));
  if (end <= worker->packed_pixels) return;
  const StripPart part = {worker->image,
                          worker->channels,
                          {0, 1},
                          {first + worker->packed_pixels, first + end},
                          Ahead(cut_.source, cut_.SourceSize(worker->channels.size()))};
  source_pixels_.Pack(source_, part, worker->intermediate,
                      worker->strip + worker->packed_pixels * worker->place.pixel_size);
  worker->packed_pixels = end;
}

// Columns that are `residues` apart, one after the other.
template <class Stored>
void StripsRunner<Stored>::PackResidues(const StripPart& part, const RowPlace<Compute>& place,
                                        Compute* intermediate, Compute* strip) const {
  const int64_t step = place.cols->residues;
  StripPart pixel = part;
  for (int64_t row = part.rows.begin; row < part.rows.end; ++row) {
    pixel.rows = {row, row + 1};
    for (int64_t first = 0; first < std::min(step, part.cols.size()); ++first) {
      for (int64_t col = part.cols.begin + first; col < part.cols.end; col += step) {
        pixel.cols = {col, col + 1};
        source_packer_.Pack(source_, pixel, intermediate, strip);
        strip += place.pixel_size;
      }
    }
  }
}

// The rows before `end_row` that are read, neighbours together.
template <class Stored>
void StripsRunner<Stored>::PackRows(Worker* worker, int64_t end_row) const {
  const RowPlace<Compute>& place = worker->place;
  const Range cols = place.cols->sources;
  place.rows.ForRuns({worker->packed_end, end_row}, [&](Range rows, int64_t slot) {
    const StripPart part = {worker->image, worker->channels, rows, cols,
                            Ahead(cut_.source, cut_.SourceSize(worker->channels.size()))};
    Compute* const strip = worker->strip + slot * place.row_size;
    if (place.cols->residues > 1) {
      PackResidues(part, place, worker->intermediate, strip);
    } else {
      source_packer_.Pack(source_, part, worker->intermediate, strip);
    }
  });
  worker->packed_end = std::max(worker->packed_end, end_row);
}

template <class Stored>
void StripsRunner<Stored>::PackSources(Worker* worker, int64_t end_row) const {
  const Range cols = worker->place.cols->sources;
  if (cols.size() == 0) return;
  if (worker->place.rows.has_all() && ByPixel(cut_.source, cols)) {
    PackPixels(worker, end_row);
  } else {
    PackRows(worker, end_row);
  }
}

template <class Stored>
void StripsRunner<Stored>::RunRow(Worker* worker, int64_t row,
                                  const RowCalls<Compute>& calls) const {
  const RowPlace<Compute>& place = worker->place;
  Compute* out =
      worker->out + worker->waiting_rows * place.cols->results.size() * place.result_pixel_size;
  if (cut_.result_in_place) {
    out = reinterpret_cast<Compute*>(result_) + cut_.result.AtPixel(worker->image, row,
                                                                    place.cols->results.begin,
                                                                    ResultChannels(*worker).begin);
  }
  for (size_t i = 0; i < calls.lines.size(); ++i) {
    DepthwiseForwardRow<Compute> call = calls.lines[i].row;
    call.out = out + calls.lines[i].first_out * place.result_pixel_size;
    call.stream = stream_;
    row_kernels_.forward(call);
  }
  ++worker->waiting_rows;
}

// Stores what can be stored of the results before row `end_row`: pixels of planes as soon as they
// are as many as are stored together, other results when `out` is full.
template <class Stored>
void StripsRunner<Stored>::StoreResults(Worker* worker, int64_t end_row) const {
  const Range cols = worker->place.cols->results;
  const Range rows = {end_row - worker->waiting_rows, end_row};
  const bool full = worker->waiting_rows == cut_.waiting_rows || end_row == worker->rows.end;
  StripPart part = {worker->image, ResultChannels(*worker), rows, cols};
  part.ahead = Ahead(cut_.result, part.channels.size());
  if (ByPixel(cut_.result, cols)) {
    const int64_t count = rows.size() * cols.size();
    const int64_t end = full ? count : count - count % PixelsTogether(cut_.result.plane());
    const int64_t first = rows.begin * cols.size(), begin = worker->stored_pixels;
    part.rows = {0, 1};
    part.cols = {first + begin, first + end};
    if (begin < end) {
      result_pixels_.Unpack(worker->out + begin * worker->place.result_pixel_size, part, result_);
    }
    worker->stored_pixels = end;
  } else if (full) {
    result_packer_.Unpack(worker->out, part, result_);
  }
  if (full) worker->waiting_rows = worker->stored_pixels = 0;
}

// Which task it is, and where its numbers lie.
template <class Stored>
void StripsRunner<Stored>::FindPlace(int64_t index, Worker* worker) const {
  const DataTask next = cut_.TaskAt(index);
  RowPlace<Compute>& place = worker->place;
  const ColPart* cols = &cut_.cols_of[static_cast<size_t>(next.col_part)];
  const Range rows = next.rows, channels = next.channels;
  const bool same_calls =
      cols == place.cols && rows == worker->rows && channels.size() == place.channels;
  worker->image = next.image;
  worker->channels = channels;
  worker->rows = rows;
  worker->packed_pixels = worker->waiting_rows = worker->stored_pixels = 0;
  worker->packed_end = place.rows.rows().begin;
  if (same_calls) return;
  place.cols = cols;
  place.channels = channels.size();
  place.result_pixel_size = cut_.result_in_place ? cut_.result.c : cut_.ResultSize(place.channels);
  place.source = worker->strip;
  place.pixel_size = cut_.SourceSize(place.channels);
  place.row_size = cols->sources.size() * place.pixel_size;
  place.filter = worker->filter;
  place.rows = RowsFor(rows);
  worker->packed_end = place.rows.rows().begin;
  worker->calls.resize(static_cast<size_t>(rows.size()));
  for (int64_t i = 0; i < rows.size(); ++i) worker->finder.Find(rows.begin + i, &worker->calls[i]);
}

template <class Stored>
void StripsRunner<Stored>::RunTask(int64_t index) {
  Worker& worker = workers_.Own(cut_);
  FindPlace(index, &worker);
  if (!HaveSameWeights(worker.channels, worker.filter_of)) PackFilter(worker);
  worker.filter_of = worker.channels;
  for (int64_t row = worker.rows.begin; row < worker.rows.end; ++row) {
    const RowCalls<Compute>& calls = worker.calls[static_cast<size_t>(row - worker.rows.begin)];
    if (calls.sources_end > 0) PackSources(&worker, calls.sources_end);
    RunRow(&worker, row, calls);
    if (!cut_.result_in_place) StoreResults(&worker, row + 1);
  }
  if (stream_) std::atomic_thread_fence(std::memory_order_seq_cst);
}

}  // namespace

void RunThroughStrips(const ConvArgs& args, const DepthwiseDataCut& cut) {
  VisitFloat(args.problem.dtype, [&](auto tag) {
    StripsRunner<typename decltype(tag)::Type> runner(args, cut);
    args.parallel.For(cut.num_tasks(), [&](int64_t task) { runner.RunTask(task); });
  });
}

}  // namespace convgrad
