#include <algorithm>
#include <atomic>
#include <vector>

#include "base/memory.h"
#include "base/parallel.h"
#include "conv/depthwise/data/direct_calls.h"
#include "conv/depthwise/data/direct_rows.h"
#include "conv/depthwise/data/direct_runs.h"
#include "conv/move/stream_result.h"
#include "kernels/depthwise/depthwise_rows.h"

namespace convgrad {
namespace {

template <class Stored>
class InPlaceRunner {
 public:
  InPlaceRunner(const ConvArgs& args, const DepthwiseDataCut& cut)
      : cut_(cut),
        kernels_(args.kernels.DepthwiseRows<Stored>()),
        stream_bytes_(args.kernels.stream_bytes),
        source_(static_cast<const Stored*>(args.Source(cut.forward))),
        copied_filter_(cut.narrow_pixels ? cut.CopiedFilter() : 0),
        last_row_(cut.narrow_pixels ? cut.CopiedRow() : 0),
        filter_(static_cast<const Stored*>(args.filter)),
        result_(static_cast<Stored*>(args.result)),
        stream_(cut.streams && IsLine(result_)),
        workers_(args.parallel) {
    if (cut.narrow_pixels) CopyEnds();
  }

  void RunTask(int64_t index);

 private:
  // The state that a thread keeps for its next task.
  struct Worker {
    explicit Worker(const DepthwiseDataCut& cut)
        : finder(cut, place), calls_of(static_cast<size_t>(cut.RowsApart())), out(cut.out_size) {}

    RowPlace<Stored> place = {};
    RowCallFinder<Stored> finder;
    std::vector<RowCalls<Stored>> calls_of;  // rows that are so far apart
    AlignedArray<Stored> out;  // a row of results that will be written around the caches
  };

  DepthwiseRows<Stored> RowsOf(const DataTask& task, const TapLine& row, const TapLine& col) const;
  DepthwiseRows<Stored> SpreadRows(const DataTask& task) const;
  // Says that row `last` of these is the image's last one, of all of its columns.
  void SetEnd(const DataTask& task, int64_t last, DepthwiseRows<Stored>* rows) const {
    rows->end_source = LastRow(task.image);
    rows->end_row = last;
  }
  void RunAllRows(const DataTask& task) const;
  void CopyEnds();
  // The image's last row of the source where vectors may read on behind it, or null where they may
  // anywhere.
  const Stored* LastRow(int64_t image) const {
    return cut_.narrow_pixels && image + 1 == cut_.source.batch ? last_row_.data() : nullptr;
  }
  void FindPlace(const DataTask& task, RowPlace<Stored>* place) const;
  DepthwiseNextRows<Stored> NextRows(const RowPlace<Stored>& place, int64_t image,
                                     const TapLine& line, int64_t sources_end) const;

  const DepthwiseDataCut& cut_;
  const DepthwiseRowKernels<Stored>& kernels_;
  void (*const stream_bytes_)(const void* from, void* to, int64_t bytes);
  const Stored* source_;
  AlignedArray<Stored> copied_filter_, last_row_;
  const Stored* filter_;
  Stored* result_;
  const bool stream_;
  PerThread<Worker> workers_;
};

template <class Stored>
void InPlaceRunner<Stored>::CopyEnds() {
  const auto copy = [&](const Stored* from, AlignedArray<Stored>& to) {
    Stored* const end = std::copy_n(from, to.size() - cut_.lanes, to.data());
    std::fill_n(end, cut_.lanes, Stored{});
  };
  copy(filter_, copied_filter_);
  filter_ = copied_filter_.data();
  if (cut_.source.batch * cut_.source.plane() == 0) return;
  copy(source_ + cut_.source.AtPixel(cut_.source.batch - 1, cut_.source.h - 1, 0, 0), last_row_);
}

template <class Stored>
void InPlaceRunner<Stored>::FindPlace(const DataTask& task, RowPlace<Stored>* place) const {
  const int64_t channel = task.channels.begin;
  place->cols = &cut_.cols_of[static_cast<size_t>(task.col_part)];
  place->channels = task.channels.size();
  place->source = source_ + cut_.source.AtPixel(task.image, 0, 0, channel);
  place->row_size = cut_.source.w * cut_.source.c;
  place->pixel_size = cut_.source.c;
  place->last_row = LastRow(task.image);
  place->filter = filter_ + channel;
  place->result_pixel_size = cut_.result.c;
}

// The rows behind those that the current row reads; the image's last are followed by the next
// image's.
template <class Stored>
DepthwiseNextRows<Stored> InPlaceRunner<Stored>::NextRows(const RowPlace<Stored>& place,
                                                          int64_t image, const TapLine& line,
                                                          int64_t sources_end) const {
  DepthwiseNextRows<Stored> next = {};
  if (!cut_.fetches || sources_end == 0) return next;
  const int64_t last = image * cut_.source.h + sources_end - 1;
  const int64_t count = std::min(cut_.forward ? cut_.rows.stride : 1, next.kMost);
  while (next.count < count && last + next.count + 1 < cut_.source.batch * cut_.source.h) {
    next.rows[next.count] = place.source + (sources_end + next.count) * place.row_size +
                            line.source_first * cut_.source.c;
    ++next.count;
  }
  return next;
}

// All results of one line of rows and one of columns.
template <class Stored>
DepthwiseRows<Stored> InPlaceRunner<Stored>::RowsOf(const DataTask& task, const TapLine& row,
                                                    const TapLine& col) const {
  const int64_t channel = task.channels.begin, filter_stride = cut_.result.c;
  DepthwiseRows<Stored> rows = {};
  rows.source =
      source_ + cut_.source.AtPixel(task.image, row.source_first, col.source_first, channel);
  rows.source_stride = col.source_step * cut_.source.c;
  rows.source_row_step = row.source_step * cut_.source.w * cut_.source.c;
  rows.num_source_rows = row.num_sources;
  rows.num_cols = col.num_sources;
  SetEnd(task, (cut_.source.h - 1 - row.source_first) / row.source_step, &rows);
  rows.filter_stride = col.tap_step * filter_stride;
  rows.filter_row_step = row.tap_step * cut_.cols.kernel * filter_stride;
  rows.filter =
      filter_ + (row.tap_first * cut_.cols.kernel + col.tap_first) * filter_stride + channel;
  rows.out = result_ + cut_.result.AtPixel(task.image, row.result_first, col.result_first, channel);
  rows.out_stride = col.result_step * cut_.result.c;
  rows.out_row_step = row.result_step * cut_.result.w * cut_.result.c;
  rows.first_row = row.origin;
  rows.count_rows = row.count;
  rows.origin = col.origin;
  rows.count = col.count;
  rows.row_stride = row.stride;
  rows.stride = col.stride;
  rows.by_pairs = cut_.by_pairs;
  rows.channels = task.channels.size();
  rows.num_tap_rows = col.num_taps == 0 ? 0 : row.num_taps;
  rows.num_taps = col.num_taps;
  return rows;
}

// All results of an input gradient with a stride, of all phases.
template <class Stored>
DepthwiseRows<Stored> InPlaceRunner<Stored>::SpreadRows(const DataTask& task) const {
  const Range cols = cut_.cols_of[static_cast<size_t>(task.col_part)].results;
  const int64_t channel = task.channels.begin;
  DepthwiseRows<Stored> rows = {};
  rows.source = source_ + cut_.source.AtPixel(task.image, 0, 0, channel);
  rows.source_stride = cut_.source.c;
  rows.source_row_step = cut_.source.w * cut_.source.c;
  rows.num_source_rows = cut_.source.h;
  rows.num_cols = cut_.source.w;
  SetEnd(task, cut_.source.h - 1, &rows);
  rows.filter = filter_ + channel;
  rows.filter_stride = cut_.result.c;
  rows.filter_row_step = cut_.cols.kernel * cut_.result.c;
  rows.out = result_ + cut_.result.AtPixel(task.image, task.rows.begin, cols.begin, channel);
  rows.out_stride = cut_.result.c;
  rows.out_row_step = cut_.result.w * cut_.result.c;
  rows.first_row = cut_.rows.pad + task.rows.begin;
  rows.count_rows = task.rows.size();
  rows.origin = cut_.cols.pad + cols.begin;
  rows.count = cols.size();
  rows.channels = task.channels.size();
  return rows;
}

// Few calls of kernels that make all rows.
template <class Stored>
void InPlaceRunner<Stored>::RunAllRows(const DataTask& task) const {
  if (IsSpread(cut_.rows) && !cut_.rows_in_turn) return kernels_.spread_rows(SpreadRows(task));
  const auto run = cut_.rows_in_turn ? kernels_.rows_in_turn : kernels_.forward_rows;
  for (const TapLine& row : cut_.rows_of[static_cast<size_t>(task.row_part)]) {
    for (const TapLine& col : cut_.cols_of[static_cast<size_t>(task.col_part)].lines) {
      run(RowsOf(task, row, col));
    }
  }
}

template <class Stored>
void InPlaceRunner<Stored>::RunTask(int64_t index) {
  const DataTask task = cut_.TaskAt(index);
  if (cut_.all_rows) return RunAllRows(task);
  Worker& worker = workers_.Own(cut_);
  FindPlace(task, &worker.place);
  const ColPart& cols = *worker.place.cols;
  for (int64_t row = task.rows.begin; row < task.rows.end; ++row) {
    RowCalls<Stored>& calls = worker.calls_of[static_cast<size_t>(row % cut_.RowsApart())];
    worker.finder.Find(row, &calls);
    Stored* const to =
        result_ + cut_.result.AtPixel(task.image, row, cols.results.begin, task.channels.begin);
    Stored* const out = cut_.streams_rows ? worker.out.data() : to;
    for (size_t i = 0; i < cols.lines.size(); ++i) {
      LineCall<Stored>& line = calls.lines[i];
      line.row.out = out + line.first_out * cut_.result.c;
      line.row.stream = stream_;
      line.row.next = NextRows(worker.place, task.image, cols.lines[i], calls.sources_end);
      kernels_.forward(line.row);
    }
    if (cut_.streams_rows) {
      stream_bytes_(out, to, cut_.result.w * cut_.result.c * int64_t{sizeof(Stored)});
    }
  }
  if (stream_ || cut_.streams_rows) std::atomic_thread_fence(std::memory_order_seq_cst);
}

}  // namespace

void RunInPlace(const ConvArgs& args, const DepthwiseDataCut& cut) {
  VisitFloat(args.problem.dtype, [&](auto tag) {
    InPlaceRunner<typename decltype(tag)::Type> runner(args, cut);
    args.parallel.For(cut.num_tasks(), [&](int64_t task) { runner.RunTask(task); });
  });
}

}  // namespace convgrad
