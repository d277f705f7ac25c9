// Depthwise forward and input gradient: the pieces of a ForwardPlan, each row of a piece as lines
// of evenly spaced results for the kernel.
#include <fmt/format.h>

#include <algorithm>
#include <type_traits>
#include <vector>

#include "base/checked.h"
#include "conv/canonical_order.h"
#include "conv/depthwise.h"
#include "conv/depthwise_forward_plan.h"

namespace convgrad {
namespace {

// Runs the pieces of a plan.
template <class Stored>
class ForwardEngine {
 public:
  using Compute = ComputeType<Stored>;

  ForwardEngine(const ConvArgs& args, const ForwardPlan& plan)
      : plan_(plan),
        kernels_(args.kernels.Depthwise<Compute>()),
        pack_(args.kernels.Pack<Stored>()),
        source_packer_(args.kernels, plan.source, plan.by_plane, SourceForm(plan), plan.multiplier),
        result_packer_(args.kernels, plan.result, plan.by_plane, StripForm::kPlain, 1),
        source_(static_cast<const Stored*>(plan.forward ? args.input : args.out_backprop)),
        filter_(static_cast<const Stored*>(args.filter)),
        result_(static_cast<Stored*>(args.result)),
        packed_taps_(PackedTaps(plan.cols)),
        pool_(plan.piece_bytes()) {
    for (int64_t band = 0; band < plan.col_bands; ++band) {
      const Range results = PartOf(plan.cols.num_results(), plan.col_bands, band);
      const Range sources =
          plan.source_in_place ? Range{0, plan.cols.num_sources()} : SourcesOf(plan.cols, results);
      bands_.push_back({results, sources, LinesOf(plan.cols, results, sources)});
    }
  }

  void RunPiece(int64_t index);

 private:
  struct ColBand {
    Range results, sources;
    std::vector<TapLine> lines;
  };

  // One piece while it runs.
  struct Piece {
    int64_t image;
    Range channels, rows;
    const ColBand* cols;
    Compute *filter, *strip, *intermediate, *out;
    std::vector<int64_t> slots;  // of source rows from first_row on in the strip, or -1
    int64_t first_row;
    PointTaps taps;  // of the current row
    std::vector<DepthwiseSegment<Compute>> segments;
    std::vector<int64_t> block_ends;
  };

  static StripForm SourceForm(const ForwardPlan& plan) {
    if (plan.multiplier == 1) return StripForm::kPlain;
    return plan.forward ? StripForm::kRepeated : StripForm::kParted;
  }

  void PackFilter(Piece* piece) const;
  void PackTap(const Piece& piece, const Stored* from, Compute* to) const;
  void PackRows(Piece* piece) const;
  void RunRow(Piece* piece, int64_t row) const;
  DepthwiseNextRows<Compute> NextRows(const Piece& piece, const TapLine& line) const;
  void RunLine(Piece* piece, int64_t row, const TapLine& line) const;
  void FindSegments(Piece* piece, const TapLine& line) const;
  void AddSegments(Piece* piece, const TapLine& line, const PointTap& tap, int64_t begin,
                   int64_t end) const;

  const Compute* SourceRow(const Piece& piece, int64_t row) const;
  const Compute* Weights(const Piece& piece, const TapLine& line, int64_t row_tap,
                         int64_t term) const;
  // True where the terms of a line's taps lie at equal distances in the source.
  bool EvenTerms(const TapLine& line) const {
    return plan_.tap_terms() == 1 || line.source_step == 1;
  }
  int64_t PixelStride(const Piece& piece) const {
    return plan_.source_in_place ? plan_.source.c : plan_.SourceSize(piece.channels.size());
  }

  const ForwardPlan& plan_;
  const DepthwiseKernels<Compute>& kernels_;
  const PackKernels<Stored>& pack_;
  const StripPacker<Stored> source_packer_, result_packer_;
  const Stored* source_;
  const Stored* filter_;
  Stored* result_;
  std::vector<int64_t> packed_taps_;
  std::vector<ColBand> bands_;
  BufferPool pool_;
};

// filter[row][packed tap][m, if its terms are apart][lane] for the lanes of the piece's results.
template <class Stored>
void ForwardEngine<Stored>::PackFilter(Piece* piece) const {
  const int64_t num_weights = plan_.forward ? plan_.result.c : plan_.source.c;
  Compute* to = piece->filter;
  for (int64_t row = 0; row < plan_.rows.kernel; ++row) {
    for (const int64_t tap : packed_taps_) {
      PackTap(*piece, filter_ + (row * plan_.cols.kernel + tap) * num_weights, to);
      to += plan_.SourceSize(piece->channels.size());
    }
  }
}

// The weights of one tap, num_weights at `from`, for every lane.
template <class Stored>
void ForwardEngine<Stored>::PackTap(const Piece& piece, const Stored* from, Compute* to) const {
  const int64_t multiplier = plan_.multiplier, size = piece.channels.size();
  if (plan_.by_plane && plan_.source.format == DataFormat::kNHWC) {
    for (int64_t lane = 0; lane < size; ++lane) {
      const int64_t channel = (piece.channels.begin + lane) / plan_.source.batch;
      for (int64_t m = 0; m < multiplier; ++m) {
        pack_.widen(from + channel * multiplier + m, to + m * size + lane, 1);
      }
    }
    return;
  }
  const int64_t num_weights = plan_.forward ? plan_.result.c : plan_.source.c;
  Compute* plain = plan_.tap_terms() == 1 ? to : piece.intermediate;
  // Planes may go on into later images: their weights begin again.
  for (int64_t done = 0, at = piece.channels.begin * multiplier % num_weights;
       done < size * multiplier; at = 0) {
    const int64_t count = std::min(size * multiplier - done, num_weights - at);
    pack_.widen(from + at, plain + done, count);
    done += count;
  }
  if (plain != to) kernels_.part(plain, to, 1, size, multiplier);
}

// Packs the source rows that any row of the piece reads, neighbours together.
template <class Stored>
void ForwardEngine<Stored>::PackRows(Piece* piece) const {
  const Range sources = SourcesOf(plan_.rows, piece->rows);
  piece->first_row = sources.begin;
  piece->slots.assign(static_cast<size_t>(sources.size()), -1);
  for (int64_t row = piece->rows.begin; row < piece->rows.end; ++row) {
    FindTaps(plan_.rows, row, &piece->taps);
    for (const PointTap& tap : piece->taps.valid) piece->slots[tap.source - sources.begin] = 0;
  }
  const Range cols = piece->cols->sources;
  const int64_t row_size = cols.size() * plan_.SourceSize(piece->channels.size());
  int64_t num_slots = 0;
  for (int64_t i = 0; i < sources.size();) {
    if (piece->slots[i] < 0) {
      ++i;
      continue;
    }
    const int64_t begin = i, first_slot = num_slots;
    while (i < sources.size() && piece->slots[i] == 0) piece->slots[i++] = num_slots++;
    if (cols.size() == 0) continue;
    StripPart part = {
        piece->image, piece->channels, {sources.begin + begin, sources.begin + i}, cols};
    // Planes follow planes: the next piece's are as far away as this one's are long.
    if (plan_.source.format == DataFormat::kNCHW) {
      part.ahead = plan_.SourceSize(piece->channels.size()) * plan_.source.plane();
    }
    source_packer_.Pack(source_, part, piece->intermediate, piece->strip + first_slot * row_size);
  }
}

// Column cols->sources.begin of a source row.
template <class Stored>
auto ForwardEngine<Stored>::SourceRow(const Piece& piece, int64_t row) const -> const Compute* {
  if constexpr (std::is_same_v<Stored, Compute>) {
    if (plan_.source_in_place) {
      return source_ + plan_.source.AtPixel(piece.image, row, 0, piece.channels.begin);
    }
  }
  const int64_t slot = piece.slots[row - piece.first_row];
  return piece.strip + slot * piece.cols->sources.size() * plan_.SourceSize(piece.channels.size());
}

// The weights of term `term` (taps of the line, terms inside) of one row of the filter.
template <class Stored>
auto ForwardEngine<Stored>::Weights(const Piece& piece, const TapLine& line, int64_t row_tap,
                                    int64_t term) const -> const Compute* {
  if constexpr (std::is_same_v<Stored, Compute>) {
    if (plan_.source_in_place) {
      const int64_t tap = line.tap_first + term * line.tap_step;
      return filter_ + (row_tap * plan_.cols.kernel + tap) * plan_.result.c + piece.channels.begin;
    }
  }
  const int64_t taps_of_row = static_cast<int64_t>(packed_taps_.size());
  const int64_t at = (row_tap * taps_of_row + line.packed_tap) * plan_.tap_terms() + term;
  return piece.filter + at * plan_.ResultSize(piece.channels.size());
}

// Terms [begin, end) of one row of the filter as segments.
template <class Stored>
void ForwardEngine<Stored>::AddSegments(Piece* piece, const TapLine& line, const PointTap& tap,
                                        int64_t begin, int64_t end) const {
  const int64_t terms = plan_.tap_terms();
  const Compute* row = SourceRow(*piece, tap.source);
  const int64_t offset = line.source_first - piece->cols->sources.begin;
  const bool even = EvenTerms(line);
  for (int64_t term = begin; term < end;) {
    DepthwiseSegment<Compute> segment = {};
    int64_t last = end;
    if (even) {
      segment.source = row + offset * PixelStride(*piece);
      segment.origin = line.origin * terms + term;
    } else {
      segment.source = row;
      segment.origin =
          (offset + (line.origin + term / terms) * line.source_step) * terms + term % terms;
      last = std::min(end, RoundUp(term + 1, terms));
    }
    segment.num_taps = std::min(last - term, kMaxSegmentTaps);
    segment.filter = Weights(*piece, line, tap.tap, term);
    piece->segments.push_back(segment);
    term += segment.num_taps;
  }
}

// The segments and blocks of one line of the row whose taps are piece->taps.
template <class Stored>
void ForwardEngine<Stored>::FindSegments(Piece* piece, const TapLine& line) const {
  const int64_t terms = plan_.tap_terms(), row_terms = line.num_taps * terms;
  piece->segments.clear();
  piece->block_ends.clear();
  const auto add_block = [&](int64_t begin, int64_t end) {
    for (const PointTap& tap : piece->taps.valid) {
      const int64_t first = tap.index * row_terms;
      const int64_t from = std::max(begin - first, int64_t{0});
      const int64_t to = std::min(end - first, row_terms);
      if (from < to) AddSegments(piece, line, tap, from, to);
    }
    piece->block_ends.push_back(static_cast<int64_t>(piece->segments.size()));
  };
  const int64_t num_taps = piece->taps.num_taps * line.num_taps;
  if (num_taps * terms <= kBlockTerms) return add_block(0, num_taps * terms);
  for (const TapBlock& block : TapBlocks(num_taps, terms)) {
    add_block(block.tap_begin * terms + block.channel_begin,
              (block.tap_end - 1) * terms + block.channel_end);
  }
}

template <class Stored>
void ForwardEngine<Stored>::RunLine(Piece* piece, int64_t row, const TapLine& line) const {
  FindSegments(piece, line);
  const int64_t terms = plan_.tap_terms();
  const int64_t size = plan_.ResultSize(piece->channels.size());
  const bool even = EvenTerms(line);
  DepthwiseForwardRow<Compute> call = {};
  call.segments = piece->segments.data();
  call.block_ends = piece->block_ends.data();
  call.num_blocks = static_cast<int64_t>(piece->block_ends.size());
  call.count = line.count;
  call.source_stride = terms > 1 ? piece->channels.size() : line.source_step * PixelStride(*piece);
  call.num_cols = (even ? line.num_sources : piece->cols->sources.size()) * terms;
  call.stride = line.stride * terms * (even ? 1 : line.source_step);
  call.filter_stride = plan_.source_in_place ? line.tap_step * plan_.result.c : size;
  call.channels = size;
  call.round_to_odd = sizeof(Stored) == 2;
  int64_t pixel_stride = size;
  if (plan_.result_in_place) {
    const int64_t at =
        plan_.result.AtPixel(piece->image, row, line.result_first,
                             piece->channels.begin * (plan_.forward ? plan_.multiplier : 1));
    call.out = reinterpret_cast<Compute*>(result_) + at;
    pixel_stride = plan_.result.c;
  } else {
    const Range cols = piece->cols->results;
    call.out = piece->out +
               ((row - piece->rows.begin) * cols.size() + line.result_first - cols.begin) * size;
  }
  call.out_stride = line.result_step * pixel_stride;
  call.next = NextRows(*piece, line);
  kernels_.forward(call);
}

// The rows behind those that the current row reads; the image's last are followed by the next
// image's.
template <class Stored>
auto ForwardEngine<Stored>::NextRows(const Piece& piece, const TapLine& line) const
    -> DepthwiseNextRows<Compute> {
  DepthwiseNextRows<Compute> next = {};
  if (!plan_.source_in_place || piece.taps.valid.empty()) return next;
  const int64_t last = piece.image * plan_.source.h + piece.taps.valid.back().source;
  const int64_t count = std::min(plan_.forward ? plan_.rows.stride : 1, next.kMost);
  while (next.count < count && last + next.count + 1 < plan_.source.batch * plan_.source.h) {
    next.rows[next.count] = SourceRow(piece, piece.taps.valid.back().source + next.count + 1) +
                            line.source_first * plan_.source.c;
    ++next.count;
  }
  return next;
}

template <class Stored>
void ForwardEngine<Stored>::RunRow(Piece* piece, int64_t row) const {
  FindTaps(plan_.rows, row, &piece->taps);
  for (const TapLine& line : piece->cols->lines) RunLine(piece, row, line);
}

template <class Stored>
void ForwardEngine<Stored>::RunPiece(int64_t index) {
  BufferPool::Lease lease(&pool_);
  Piece piece = {};
  piece.filter = reinterpret_cast<Compute*>(lease.data());
  piece.strip = piece.filter + plan_.filter_size;
  piece.intermediate = piece.strip + plan_.strip_size;
  piece.out = piece.intermediate + plan_.intermediate_size;
  // NHWC: chunks of the same pixels follow each other, since they share lines.
  const int64_t num_chunks = plan_.chunks.count(), num_bands = plan_.row_bands * plan_.col_bands;
  const bool chunks_inside = plan_.source.format == DataFormat::kNHWC;
  const int64_t chunk = chunks_inside ? index % num_chunks : index / num_bands % num_chunks;
  const int64_t band = chunks_inside ? index / num_chunks % num_bands : index % num_bands;
  piece.cols = &bands_[band % plan_.col_bands];
  piece.rows = PartOf(plan_.rows.num_results(), plan_.row_bands, band / plan_.col_bands);
  piece.channels = plan_.chunks[chunk];
  piece.image = index / (num_chunks * num_bands);
  if (!plan_.source_in_place) {
    PackFilter(&piece);
    PackRows(&piece);
  }
  for (int64_t row = piece.rows.begin; row < piece.rows.end; ++row) RunRow(&piece, row);
  if (!plan_.result_in_place) {
    const int64_t per_channel = plan_.forward ? plan_.multiplier : 1;
    const Range channels = {piece.channels.begin * per_channel, piece.channels.end * per_channel};
    result_packer_.Unpack(piece.out, {piece.image, channels, piece.rows, piece.cols->results},
                          result_);
  }
}

void RunForward(const ConvArgs& args) {
  const ForwardPlan plan(args.problem, args.kernels, args.parallel.num_threads());
  VisitFloat(args.problem.dtype, [&](auto tag) {
    ForwardEngine<typename decltype(tag)::Type> engine(args, plan);
    args.parallel.For(plan.num_pieces(), [&](int64_t piece) { engine.RunPiece(piece); });
  });
}

std::string ForwardTiles(const Problem& problem, const KernelTable& kernels) {
  const ForwardPlan plan(problem, kernels, 1);
  return fmt::format("{} channels x {} rows a piece, {}", plan.chunks.widest(),
                     CeilDiv(plan.rows.num_results(), plan.row_bands),
                     plan.source_in_place ? "in place" : "through strips");
}

}  // namespace

const Algorithm kDepthwiseForwardAlgorithm = {
    .name = "direct",
    .summary = "depthwise forward and input gradient, lanes along channels, padding skipped",
    .accepts = [](const Problem&) { return true; },
    .scratch_bytes =
        [](const Problem& problem, const KernelTable& kernels, int num_threads) {
          return ForwardPlan(problem, kernels, num_threads).piece_bytes() * num_threads;
        },
    .tiles = ForwardTiles,
    .run = RunForward,
};

}  // namespace convgrad
