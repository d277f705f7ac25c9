#include "conv/depthwise/data/direct_in_place.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <vector>

#include "conv/depthwise/data/direct_calls.h"
#include "conv/move/stream_result.h"

namespace convgrad {
namespace {

template <class Stored>
class InPlaceEngine {
 public:
  InPlaceEngine(const ConvArgs& args, const ForwardPlan& plan)
      : plan_(plan),
        kernels_(args.kernels.DepthwiseRows<Stored>()),
        source_(static_cast<const Stored*>(plan.forward ? args.input : args.out_backprop)),
        filter_(static_cast<const Stored*>(args.filter)),
        result_(static_cast<Stored*>(args.result)),
        bands_(ColBandsOf(plan)),
        stream_(plan.streams && IsLine(result_)),
        workers_(static_cast<size_t>(args.parallel.num_threads())) {}

  void RunPiece(int64_t index);

 private:
  // What a thread keeps for its next piece.
  struct Worker {
    explicit Worker(const ForwardPlan& plan) : finder(plan, place) {}

    ForwardPlace<Stored> place = {};
    ForwardCallFinder<Stored> finder;
    RowCalls<Stored> calls;
  };

  Worker& WorkerOfThread();
  void FindPlace(const ForwardPiece& piece, ForwardPlace<Stored>* place) const;
  DepthwiseNextRows<Stored> NextRows(const ForwardPlace<Stored>& place, int64_t image,
                                     const TapLine& line, int64_t sources_end) const;

  const ForwardPlan& plan_;
  const DepthwiseRowKernels<Stored>& kernels_;
  const Stored* source_;
  const Stored* filter_;
  Stored* result_;
  const std::vector<ColBand> bands_;
  const bool stream_;
  std::vector<std::unique_ptr<Worker>> workers_;  // by thread
};

template <class Stored>
auto InPlaceEngine<Stored>::WorkerOfThread() -> Worker& {
  std::unique_ptr<Worker>& worker = workers_[static_cast<size_t>(Parallel::ThreadIndex())];
  if (worker == nullptr) worker = std::make_unique<Worker>(plan_);
  return *worker;
}

template <class Stored>
void InPlaceEngine<Stored>::FindPlace(const ForwardPiece& piece,
                                      ForwardPlace<Stored>* place) const {
  const int64_t channel = piece.channels.begin;
  place->cols = &bands_[static_cast<size_t>(piece.col_band)];
  place->channels = piece.channels.size();
  place->source = source_ + plan_.source.AtPixel(piece.image, 0, 0, channel);
  place->row_size = plan_.source.w * plan_.source.c;
  place->pixel_size = plan_.source.c;
  place->filter = filter_ + channel;
  place->result_pixel_size = plan_.result.c;
}

// The rows behind those that the current row reads; the image's last are followed by the next
// image's.
template <class Stored>
DepthwiseNextRows<Stored> InPlaceEngine<Stored>::NextRows(const ForwardPlace<Stored>& place,
                                                          int64_t image, const TapLine& line,
                                                          int64_t sources_end) const {
  DepthwiseNextRows<Stored> next = {};
  if (sources_end == 0) return next;
  const int64_t last = image * plan_.source.h + sources_end - 1;
  const int64_t count = std::min(plan_.forward ? plan_.rows.stride : 1, next.kMost);
  while (next.count < count && last + next.count + 1 < plan_.source.batch * plan_.source.h) {
    next.rows[next.count] = place.source + (sources_end + next.count) * place.row_size +
                            line.source_first * plan_.source.c;
    ++next.count;
  }
  return next;
}

template <class Stored>
void InPlaceEngine<Stored>::RunPiece(int64_t index) {
  Worker& worker = WorkerOfThread();
  const ForwardPiece piece = plan_.PieceAt(index);
  FindPlace(piece, &worker.place);
  const ColBand& cols = *worker.place.cols;
  for (int64_t row = piece.rows.begin; row < piece.rows.end; ++row) {
    worker.finder.Find(row, &worker.calls);
    Stored* out =
        result_ + plan_.result.AtPixel(piece.image, row, cols.results.begin, piece.channels.begin);
    for (size_t i = 0; i < cols.lines.size(); ++i) {
      LineCall<Stored>& line = worker.calls.lines[i];
      line.row.out = out + line.first_out * plan_.result.c;
      line.row.stream = stream_;
      line.row.next = NextRows(worker.place, piece.image, cols.lines[i], worker.calls.sources_end);
      kernels_.forward(line.row);
    }
  }
  if (stream_) std::atomic_thread_fence(std::memory_order_seq_cst);
}

}  // namespace

void RunForwardInPlace(const ConvArgs& args, const ForwardPlan& plan) {
  VisitFloat(args.problem.dtype, [&](auto tag) {
    InPlaceEngine<typename decltype(tag)::Type> engine(args, plan);
    args.parallel.For(plan.num_pieces(), [&](int64_t piece) { engine.RunPiece(piece); });
  });
}

}  // namespace convgrad
