// Depthwise forward and input gradient through strips: the pieces of a ForwardPlan. A piece goes
// down its rows and packs sources and unpacks results as it goes, so that memory works while the
// kernel does.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <vector>

#include "base/checked.h"
#include "conv/depthwise/algorithms.h"
#include "conv/depthwise/data/cost.h"
#include "conv/depthwise/data/direct_calls.h"
#include "conv/depthwise/data/direct_in_place.h"
#include "conv/depthwise/data/direct_plan.h"
#include "conv/move/stream_result.h"
#include "conv/plan/function_plan.h"

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
        row_kernels_(args.kernels.DepthwiseRows<Compute>()),
        pack_(args.kernels.Pack<Stored>()),
        source_packer_(args.kernels, plan.source, plan.by_plane, SourceForm(plan), plan.multiplier),
        result_packer_(args.kernels, plan.result, plan.by_plane, StripForm::kPlain, 1),
        source_pixels_(args.kernels, plan.source.AsRow(), true, SourceForm(plan), plan.multiplier),
        result_pixels_(args.kernels, plan.result.AsRow(), true, StripForm::kPlain, 1),
        source_(static_cast<const Stored*>(plan.forward ? args.input : args.out_backprop)),
        filter_(static_cast<const Stored*>(args.filter)),
        result_(static_cast<Stored*>(args.result)),
        stream_(plan.streams && IsLine(result_)),
        packed_taps_(PackedTaps(plan.cols)),
        bands_(ColBandsOf(plan)),
        pieces_(static_cast<size_t>(args.parallel.num_threads())) {}

  void RunPiece(int64_t index);

 private:
  // One piece while it runs. A thread keeps it for its next one, which often needs the same calls.
  struct Piece {
    explicit Piece(const ForwardPlan& plan);

    AlignedArray<std::byte> memory;
    Compute *filter, *strip, *intermediate, *out;

    int64_t image;
    Range channels = {0, 0}, rows = {0, 0};
    Range filter_of = {0, 0};  // the channels that the packed filter is of
    ForwardPlace<Compute> place = {};
    ForwardCallFinder<Compute> finder;
    std::vector<RowCalls<Compute>> calls;  // of all rows
    int64_t packed_rows, packed_pixels;    // of the sources
    int64_t waiting_rows, stored_pixels;   // of the results in `out`: how many, how many are stored
  };

  static StripForm SourceForm(const ForwardPlan& plan) {
    if (plan.multiplier == 1) return StripForm::kPlain;
    return plan.forward ? StripForm::kRepeated : StripForm::kParted;
  }

  Piece& PieceOfThread();
  bool HaveSameWeights(Range channels, Range others) const;
  void PackFilter(const Piece& piece) const;
  void PackTap(const Piece& piece, const Stored* from, Compute* to) const;
  void FindPlace(int64_t index, Piece* piece) const;
  void FindSlots(Piece* piece) const;
  void PackSources(Piece* piece, int64_t end_row) const;
  void PackPixels(Piece* piece, int64_t end_row) const;
  void PackResidues(const StripPart& part, const ForwardPlace<Compute>& place,
                    Compute* intermediate, Compute* strip) const;
  void PackRows(Piece* piece, int64_t end_row) const;
  void RunRow(Piece* piece, int64_t row, const RowCalls<Compute>& calls) const;
  void StoreResults(Piece* piece, int64_t end_row) const;

  // Planes of whole rows are packed and stored as pixels, whatever row they are of.
  bool ByPixel(const DataLayout& layout, Range cols) const {
    return layout.format == DataFormat::kNCHW && cols.size() == layout.w;
  }
  // The next piece's planes follow this one's, or are those of the next image.
  int64_t Ahead(const DataLayout& layout, int64_t num_planes) const {
    if (plan_.chunks_of_image > 0) num_planes = layout.c;
    return layout.format == DataFormat::kNCHW ? num_planes * layout.plane() : 0;
  }
  Range ResultChannels(const Piece& piece) const {
    const int64_t per_channel = plan_.forward ? plan_.multiplier : 1;
    return {piece.channels.begin * per_channel, piece.channels.end * per_channel};
  }

  const ForwardPlan& plan_;
  const DepthwiseKernels<Compute>& kernels_;
  const DepthwiseRowKernels<Compute>& row_kernels_;
  const PackKernels<Stored>& pack_;
  const StripPacker<Stored> source_packer_, result_packer_, source_pixels_, result_pixels_;
  const Stored* source_;
  const Stored* filter_;
  Stored* result_;
  const bool stream_;
  const std::vector<int64_t> packed_taps_;
  const std::vector<ColBand> bands_;
  std::vector<std::unique_ptr<Piece>> pieces_;  // by thread
};

template <class Stored>
ForwardEngine<Stored>::Piece::Piece(const ForwardPlan& plan)
    : memory(plan.piece_bytes()), finder(plan, place) {
  // Lanes beyond the channels are read.
  std::memset(memory.data(), 0, static_cast<size_t>(memory.size()));
  filter = reinterpret_cast<Compute*>(memory.data());
  strip = filter + plan.filter_size;
  intermediate = strip + plan.strip_size;
  out = intermediate + plan.intermediate_size;
}

template <class Stored>
auto ForwardEngine<Stored>::PieceOfThread() -> Piece& {
  std::unique_ptr<Piece>& piece = pieces_[static_cast<size_t>(Parallel::ThreadIndex())];
  if (piece == nullptr) piece = std::make_unique<Piece>(plan_);
  return *piece;
}

// Planes of NCHW are counted on into later images.
template <class Stored>
bool ForwardEngine<Stored>::HaveSameWeights(Range channels, Range others) const {
  const int64_t period =
      plan_.source.format == DataFormat::kNCHW ? plan_.num_channels() : INT64_MAX;
  return channels.size() == others.size() && (channels.begin - others.begin) % period == 0;
}

// filter[row][packed tap][m, if its terms are apart][lane] for the lanes of the piece's results.
template <class Stored>
void ForwardEngine<Stored>::PackFilter(const Piece& piece) const {
  const int64_t num_weights = plan_.forward ? plan_.result.c : plan_.source.c;
  Compute* to = piece.filter;
  for (int64_t row = 0; row < plan_.rows.kernel; ++row) {
    for (const int64_t tap : packed_taps_) {
      PackTap(piece, filter_ + (row * plan_.cols.kernel + tap) * num_weights, to);
      to += plan_.SourceSize(piece.channels.size());
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

// Numbers the source rows that any row of the piece reads; the others get no place in the strip.
template <class Stored>
void ForwardEngine<Stored>::FindSlots(Piece* piece) const {
  ForwardPlace<Compute>& place = piece->place;
  const Range sources = SourcesOf(plan_.rows, piece->rows);
  place.first_row = sources.begin;
  place.slots.assign(static_cast<size_t>(sources.size()), -1);
  PointTaps taps;
  for (int64_t row = piece->rows.begin; row < piece->rows.end; ++row) {
    FindTaps(plan_.rows, row, &taps);
    for (const PointTap& tap : taps.valid) place.slots[tap.source - sources.begin] = 0;
  }
  int64_t num_slots = 0;
  for (int64_t& slot : place.slots) {
    if (slot == 0) slot = num_slots++;
  }
}

// Sources before row `end_row`, and as many more as are packed together.
template <class Stored>
void ForwardEngine<Stored>::PackPixels(Piece* piece, int64_t end_row) const {
  const int64_t width = plan_.source.w, first = piece->place.first_row * width;
  const int64_t all = std::ssize(piece->place.slots) * width;
  const int64_t wanted = (end_row - piece->place.first_row) * width;
  const int64_t end = std::min(all, RoundUp(wanted, PixelsTogether(plan_.source.plane())));
  if (end <= piece->packed_pixels) return;
  const StripPart part = {piece->image,
                          piece->channels,
                          {0, 1},
                          {first + piece->packed_pixels, first + end},
                          Ahead(plan_.source, plan_.SourceSize(piece->channels.size()))};
  source_pixels_.Pack(source_, part, piece->intermediate,
                      piece->strip + piece->packed_pixels * piece->place.pixel_size);
  piece->packed_pixels = end;
}

// Columns that are `residues` apart, one after the other.
template <class Stored>
void ForwardEngine<Stored>::PackResidues(const StripPart& part, const ForwardPlace<Compute>& place,
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
void ForwardEngine<Stored>::PackRows(Piece* piece, int64_t end_row) const {
  const ForwardPlace<Compute>& place = piece->place;
  const Range cols = place.cols->sources;
  for (int64_t& i = piece->packed_rows; i < end_row - place.first_row;) {
    const int64_t begin = i;
    while (i < end_row - place.first_row && place.slots[i] >= 0) ++i;
    if (begin == i) {
      ++i;
      continue;
    }
    const StripPart part = {piece->image,
                            piece->channels,
                            {place.first_row + begin, place.first_row + i},
                            cols,
                            Ahead(plan_.source, plan_.SourceSize(piece->channels.size()))};
    if (place.cols->residues > 1) {
      PackResidues(part, place, piece->intermediate,
                   piece->strip + place.slots[begin] * place.row_size);
      continue;
    }
    source_packer_.Pack(source_, part, piece->intermediate,
                        piece->strip + place.slots[begin] * place.row_size);
  }
}

template <class Stored>
void ForwardEngine<Stored>::PackSources(Piece* piece, int64_t end_row) const {
  const Range cols = piece->place.cols->sources;
  if (cols.size() == 0) return;
  const bool all_rows = piece->place.slots.back() == std::ssize(piece->place.slots) - 1;
  if (all_rows && ByPixel(plan_.source, cols)) {
    PackPixels(piece, end_row);
  } else {
    PackRows(piece, end_row);
  }
}

template <class Stored>
void ForwardEngine<Stored>::RunRow(Piece* piece, int64_t row,
                                   const RowCalls<Compute>& calls) const {
  const ForwardPlace<Compute>& place = piece->place;
  Compute* out =
      piece->out + piece->waiting_rows * place.cols->results.size() * place.result_pixel_size;
  if (plan_.result_in_place) {
    out = reinterpret_cast<Compute*>(result_) + plan_.result.AtPixel(piece->image, row,
                                                                     place.cols->results.begin,
                                                                     ResultChannels(*piece).begin);
  }
  for (size_t i = 0; i < calls.lines.size(); ++i) {
    DepthwiseForwardRow<Compute> call = calls.lines[i].row;
    call.out = out + calls.lines[i].first_out * place.result_pixel_size;
    call.stream = stream_;
    row_kernels_.forward(call);
  }
  ++piece->waiting_rows;
}

// Stores what can be stored of the results before row `end_row`: pixels of planes as soon as they
// are as many as are stored together, other results when `out` is full.
template <class Stored>
void ForwardEngine<Stored>::StoreResults(Piece* piece, int64_t end_row) const {
  const Range cols = piece->place.cols->results;
  const Range rows = {end_row - piece->waiting_rows, end_row};
  const bool full = piece->waiting_rows == plan_.waiting_rows || end_row == piece->rows.end;
  StripPart part = {piece->image, ResultChannels(*piece), rows, cols};
  part.ahead = Ahead(plan_.result, part.channels.size());
  if (ByPixel(plan_.result, cols)) {
    const int64_t count = rows.size() * cols.size();
    const int64_t end = full ? count : count - count % PixelsTogether(plan_.result.plane());
    const int64_t first = rows.begin * cols.size(), begin = piece->stored_pixels;
    part.rows = {0, 1};
    part.cols = {first + begin, first + end};
    if (begin < end) {
      result_pixels_.Unpack(piece->out + begin * piece->place.result_pixel_size, part, result_);
    }
    piece->stored_pixels = end;
  } else if (full) {
    result_packer_.Unpack(piece->out, part, result_);
  }
  if (full) piece->waiting_rows = piece->stored_pixels = 0;
}

// Which piece it is, and where its numbers lie.
template <class Stored>
void ForwardEngine<Stored>::FindPlace(int64_t index, Piece* piece) const {
  const ForwardPiece next = plan_.PieceAt(index);
  ForwardPlace<Compute>& place = piece->place;
  const ColBand* cols = &bands_[static_cast<size_t>(next.col_band)];
  const Range rows = next.rows, channels = next.channels;
  const bool same_calls =
      cols == place.cols && rows == piece->rows && channels.size() == place.channels;
  piece->image = next.image;
  piece->channels = channels;
  piece->rows = rows;
  piece->packed_rows = piece->packed_pixels = piece->waiting_rows = piece->stored_pixels = 0;
  if (same_calls) return;
  place.cols = cols;
  place.channels = channels.size();
  place.result_pixel_size =
      plan_.result_in_place ? plan_.result.c : plan_.ResultSize(place.channels);
  place.source = piece->strip;
  place.pixel_size = plan_.SourceSize(place.channels);
  place.row_size = cols->sources.size() * place.pixel_size;
  place.filter = piece->filter;
  FindSlots(piece);
  piece->calls.resize(static_cast<size_t>(rows.size()));
  for (int64_t i = 0; i < rows.size(); ++i) piece->finder.Find(rows.begin + i, &piece->calls[i]);
}

template <class Stored>
void ForwardEngine<Stored>::RunPiece(int64_t index) {
  Piece& piece = PieceOfThread();
  FindPlace(index, &piece);
  if (!HaveSameWeights(piece.channels, piece.filter_of)) PackFilter(piece);
  piece.filter_of = piece.channels;
  for (int64_t row = piece.rows.begin; row < piece.rows.end; ++row) {
    const RowCalls<Compute>& calls = piece.calls[static_cast<size_t>(row - piece.rows.begin)];
    if (calls.sources_end > 0) PackSources(&piece, calls.sources_end);
    RunRow(&piece, row, calls);
    if (!plan_.result_in_place) StoreResults(&piece, row + 1);
  }
  if (stream_) std::atomic_thread_fence(std::memory_order_seq_cst);
}

void RunForward(const ConvArgs& args) {
  const ForwardPlan plan(args.problem, args.kernels, args.parallel.num_threads());
  if (plan.source_in_place) return RunForwardInPlace(args, plan);
  VisitFloat(args.problem.dtype, [&](auto tag) {
    ForwardEngine<typename decltype(tag)::Type> engine(args, plan);
    args.parallel.For(plan.num_pieces(), [&](int64_t piece) { engine.RunPiece(piece); });
  });
}

int64_t ForwardScratch(const Problem& problem, const KernelTable& kernels, int num_threads) {
  return ForwardPlan(problem, kernels, num_threads).piece_bytes() * num_threads;
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
    .can = [](const Problem&, const KernelTable&) { return true; },
    .cycles = DirectCycles,
    .plan = FunctionPlan<ForwardScratch, ForwardTiles, RunForward>::Make,
};

}  // namespace convgrad
