// Depthwise filter gradient: units (a chunk of channels x some taps) whose block sums stay in the
// first cache, over runs of blocks of output pixels. Units and runs are dealt to threads; the sums
// of runs are kept apart and folded in order.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "base/checked.h"
#include "conv/depthwise.h"
#include "conv/depthwise_filter_plan.h"

namespace convgrad {
namespace {

// Element is what the kernel reads: Stored where both operands are in place, else Compute.
template <class Stored, class Element>
class FilterEngine {
 public:
  using Compute = ComputeType<Stored>;

  FilterEngine(const ConvArgs& args, const FilterPlan& plan)
      : plan_(plan),
        parallel_(args.parallel),
        kernels_(args.kernels.Depthwise<Compute>()),
        row_kernels_(args.kernels.DepthwiseRows<Element>()),
        pack_(args.kernels.Pack<Stored>()),
        input_packer_(args.kernels, plan.input, ByPlane(plan), InputForm(plan), plan.multiplier),
        output_packer_(args.kernels, plan.output, ByPlane(plan), StripForm::kPlain, 1),
        input_(static_cast<const Stored*>(args.input)),
        out_backprop_(static_cast<const Stored*>(args.out_backprop)),
        result_(static_cast<Stored*>(args.result)),
        pieces_(static_cast<size_t>(args.parallel.num_threads())),
        totals_(plan.units_at_once * plan.FoldSize()),
        runs_(plan.units_at_once * plan.runs_at_once * plan.FoldSize()) {}

  void Run();

 private:
  // The kernel's call for one row of a block.
  struct RowCall {
    DepthwiseGradientRow<Element> row;
    std::vector<DepthwiseSegment<Element>> segments;
    int64_t last_input;  // row that it reads
  };

  struct Strip {
    Compute* data;
    StripPart part, next;  // of the band's first image; what will probably follow
  };

  // One run of one unit while it is computed. A thread keeps it for its next one, which often needs
  // the same calls.
  struct Piece {
    explicit Piece(const FilterPlan& plan);

    AlignedArray<std::byte> memory;
    Compute *sums, *intermediate;
    Strip input, output;
    FilterUnit unit = {};
    PixelBlock bounds = {};      // of the band
    std::vector<int64_t> slots;  // of the part's input rows in the strip, or -1
    std::vector<RowCall> calls;  // of all rows of a band's blocks, or one where nothing is packed
  };

  static bool ByPlane(const FilterPlan& plan) { return plan.input.format == DataFormat::kNCHW; }
  static StripForm InputForm(const FilterPlan& plan) {
    return plan.multiplier == 1 ? StripForm::kPlain : StripForm::kRepeated;
  }

  Piece& PieceOfThread();
  void RunUnits(Range units);
  void RunPiece(int64_t unit, int64_t run, double* fold);
  void FindSlots(Piece* piece) const;
  StripPart InImage(StripPart part, const DataLayout& layout, int64_t image) const;
  StripPart InImage(const Strip& strip, const DataLayout& layout, int64_t image,
                    int64_t image_end) const;
  void PackInput(const Piece& piece, int64_t image) const;
  void PackOutput(const Piece& piece, int64_t image) const;
  void StartBand(Piece* piece, const Band& band, const FilterUnit& unit,
                 const FilterUnit& next_unit, const Band& next) const;
  void AddBand(Piece* piece, const Band& band, double* fold) const;
  const Element* InputRow(const Piece& piece, int64_t image, int64_t row) const;
  const Element* OutputRow(const Piece& piece, int64_t image, int64_t row, int64_t col) const;
  void FetchAhead(const Piece& piece, int64_t image, int64_t last, int64_t row,
                  DepthwiseGradientRow<Element>* call) const;
  void FindCall(const Piece& piece, const PixelBlock& block, int64_t image, int64_t row,
                RowCall* call) const;
  void AddSegments(const Piece& piece, const Element* source, int64_t row_tap, int64_t origin,
                   RowCall* call) const;
  void FoldRuns(Range units, int64_t num_runs);
  void OrderGroups(Compute* sums, int64_t count) const;
  void Finish(const FilterUnit& unit, double* total);

  double* Errors(double* fold) const { return plan_.f64 ? fold + plan_.UnitSize() : nullptr; }
  double* TotalOf(int64_t slot) { return totals_.data() + slot * plan_.FoldSize(); }
  double* RunOf(int64_t slot, int64_t run) {
    return runs_.data() + (slot * plan_.runs_at_once + run) * plan_.FoldSize();
  }

  const FilterPlan& plan_;
  const Parallel& parallel_;
  const DepthwiseKernels<Compute>& kernels_;
  const DepthwiseRowKernels<Element>& row_kernels_;
  const PackKernels<Stored>& pack_;
  const StripPacker<Stored> input_packer_, output_packer_;
  const Stored* input_;
  const Stored* out_backprop_;
  Stored* result_;
  std::vector<std::unique_ptr<Piece>> pieces_;  // by thread
  AlignedArray<double> totals_, runs_;
};

template <class Stored, class Element>
FilterEngine<Stored, Element>::Piece::Piece(const FilterPlan& plan) : memory(plan.piece_bytes()) {
  // Lanes beyond the channels are read.
  std::memset(memory.data(), 0, static_cast<size_t>(memory.size()));
  sums = reinterpret_cast<Compute*>(memory.data());
  input.data = sums + plan.UnitSize();
  output.data = input.data + plan.input_size;
  intermediate = output.data + plan.output_size;
}

template <class Stored, class Element>
auto FilterEngine<Stored, Element>::PieceOfThread() -> Piece& {
  std::unique_ptr<Piece>& piece = pieces_[static_cast<size_t>(Parallel::ThreadIndex())];
  if (piece == nullptr) piece = std::make_unique<Piece>(plan_);
  return *piece;
}

// Numbers the input rows that the band's outputs read with the unit's taps.
template <class Stored, class Element>
void FilterEngine<Stored, Element>::FindSlots(Piece* piece) const {
  const Range rows = piece->input.part.rows;
  const Dimension& d = plan_.rows;
  piece->slots.assign(static_cast<size_t>(rows.size()), -1);
  for (int64_t row = piece->bounds.row_begin; row < piece->bounds.row_end; ++row) {
    for (int64_t tap = piece->unit.row_taps.begin; tap < piece->unit.row_taps.end; ++tap) {
      const int64_t at = row * d.stride + tap * d.dilation - d.pad - rows.begin;
      if (at >= 0 && at < rows.size()) piece->slots[at] = 0;
    }
  }
  int64_t num_slots = 0;
  for (int64_t& slot : piece->slots) {
    if (slot == 0) slot = num_slots++;
  }
}

// The part moved to an image.
template <class Stored, class Element>
StripPart FilterEngine<Stored, Element>::InImage(StripPart part, const DataLayout& layout,
                                                 int64_t image) const {
  part.image = image;
  if (layout.format == DataFormat::kNCHW) {
    part.channels = {image * layout.c + part.channels.begin, image * layout.c + part.channels.end};
  }
  return part;
}

// A strip's part in an image, with what to fetch ahead: the following image of the band, or `next`.
template <class Stored, class Element>
StripPart FilterEngine<Stored, Element>::InImage(const Strip& strip, const DataLayout& layout,
                                                 int64_t image, int64_t image_end) const {
  StripPart here = InImage(strip.part, layout, image);
  if (!plan_.fetch_ahead) return here;
  const StripPart there = image + 1 < image_end ? InImage(strip.part, layout, image + 1)
                                                : InImage(strip.next, layout, strip.next.image);
  here.ahead = FirstElement(layout, there) - FirstElement(layout, here);
  return here;
}

// The numbered rows of one image, neighbours together.
template <class Stored, class Element>
void FilterEngine<Stored, Element>::PackInput(const Piece& piece, int64_t image) const {
  const StripPart part = InImage(piece.input, plan_.input, image, piece.bounds.image_end);
  const int64_t row_size = part.cols.size() * part.channels.size() * plan_.multiplier;
  if (part.cols.size() == 0) return;
  for (int64_t i = 0; i < part.rows.size();) {
    const int64_t begin = i;
    while (i < part.rows.size() && piece.slots[i] >= 0) ++i;
    if (begin == i) {
      ++i;
      continue;
    }
    StripPart rows = part;
    rows.rows = {part.rows.begin + begin, part.rows.begin + i};
    input_packer_.Pack(input_, rows, piece.intermediate,
                       piece.input.data + piece.slots[begin] * row_size);
  }
}

template <class Stored, class Element>
void FilterEngine<Stored, Element>::PackOutput(const Piece& piece, int64_t image) const {
  output_packer_.Pack(out_backprop_,
                      InImage(piece.output, plan_.output, image, piece.bounds.image_end),
                      piece.intermediate, piece.output.data);
}

// One row of taps of the unit over one source row.
template <class Stored, class Element>
void FilterEngine<Stored, Element>::AddSegments(const Piece& piece, const Element* source,
                                                int64_t row_tap, int64_t origin,
                                                RowCall* call) const {
  const Range taps = piece.unit.col_taps;
  const int64_t tap_size = plan_.TapSize(piece.unit.channels.size());
  for (int64_t tap = taps.begin; tap < taps.end; tap += kMaxSegmentTaps) {
    DepthwiseSegment<Element> segment = {};
    segment.source = source;
    segment.origin = origin + tap * plan_.cols.dilation;
    segment.num_taps = std::min(taps.end - tap, kMaxSegmentTaps);
    segment.sums =
        piece.sums +
        ((row_tap - piece.unit.row_taps.begin) * taps.size() + tap - taps.begin) * tap_size;
    call->segments.push_back(segment);
  }
}

// The first column that the strip, or the image, has of an input row.
template <class Stored, class Element>
auto FilterEngine<Stored, Element>::InputRow(const Piece& piece, int64_t image, int64_t row) const
    -> const Element* {
  const Range channels = piece.unit.channels;
  if (plan_.input_in_place) {
    return reinterpret_cast<const Element*>(input_) +
           plan_.input.AtPixel(image, row, 0, channels.begin);
  }
  const StripPart& part = piece.input.part;
  const int64_t pixel = piece.slots[row - part.rows.begin] * part.cols.size();
  return reinterpret_cast<const Element*>(piece.input.data) +
         pixel * channels.size() * plan_.multiplier;
}

// Column `col` of a row of out_backprop.
template <class Stored, class Element>
auto FilterEngine<Stored, Element>::OutputRow(const Piece& piece, int64_t image, int64_t row,
                                              int64_t col) const -> const Element* {
  const StripPart& part = piece.output.part;
  if (plan_.output_in_place) {
    return reinterpret_cast<const Element*>(out_backprop_) +
           plan_.output.AtPixel(image, row, col, part.channels.begin);
  }
  const int64_t pixel = (row - part.rows.begin) * part.cols.size() + col - part.cols.begin;
  return reinterpret_cast<const Element*>(piece.output.data) + pixel * part.channels.size();
}

// The rows behind those of the call, of tensors used in place; an image's last are followed by the
// next image's. `last` is the last input row of the call.
template <class Stored, class Element>
void FilterEngine<Stored, Element>::FetchAhead(const Piece& piece, int64_t image, int64_t last,
                                               int64_t row,
                                               DepthwiseGradientRow<Element>* call) const {
  const DataLayout &in = plan_.input, &out = plan_.output;
  DepthwiseNextRows<Element>& next = call->next;
  const int64_t behind = in.batch * in.h - 1 - (image * in.h + last);
  if (plan_.input_in_place) {
    for (; next.count < std::min({plan_.rows.stride, behind, next.kMost}); ++next.count) {
      next.rows[next.count] = InputRow(piece, image, last + next.count + 1);
    }
  }
  if (plan_.output_in_place && image * out.h + row + 1 < out.batch * out.h) {
    call->next_out_backprop.rows[0] = call->out_backprop + out.w * out.c;
    call->next_out_backprop.count = 1;
  }
}

template <class Stored, class Element>
void FilterEngine<Stored, Element>::FindCall(const Piece& piece, const PixelBlock& block,
                                             int64_t image, int64_t row, RowCall* call) const {
  const Dimension& rows = plan_.rows;
  const FilterUnit& unit = piece.unit;
  const int64_t size = unit.channels.size() * plan_.multiplier;
  const int64_t first_col = plan_.input_in_place ? 0 : piece.input.part.cols.begin;
  const TapRange valid = ValidTaps(row, rows.stride, rows.dilation, rows.pad, rows.kernel, rows.in);
  const int64_t origin = block.col_begin * plan_.cols.stride - plan_.cols.pad - first_col;
  call->segments.clear();
  for (int64_t tap = std::max(valid.first, unit.row_taps.begin);
       tap < std::min(valid.last, unit.row_taps.end); ++tap) {
    const int64_t in_row = row * rows.stride + tap * rows.dilation - rows.pad;
    AddSegments(piece, InputRow(piece, image, in_row), tap, origin, call);
    call->last_input = in_row;
  }
  DepthwiseGradientRow<Element>& kernel_row = call->row;
  kernel_row = {};
  kernel_row.segments = call->segments.data();
  kernel_row.num_segments = std::ssize(call->segments);
  kernel_row.out_backprop = OutputRow(piece, image, row, block.col_begin);
  kernel_row.out_backprop_stride = plan_.output_in_place ? plan_.output.c : size;
  kernel_row.count = block.col_end - block.col_begin;
  kernel_row.source_stride = plan_.input_in_place ? plan_.input.c : size;
  kernel_row.num_cols = plan_.input_in_place ? plan_.input.w : piece.input.part.cols.size();
  kernel_row.sums_stride = plan_.TapSize(unit.channels.size());
  kernel_row.stride = plan_.cols.stride;
  kernel_row.dilation = plan_.cols.dilation;
  kernel_row.channels = size;
}

// Finds where the band's strips and, unless those of the band before serve, its calls are.
template <class Stored, class Element>
void FilterEngine<Stored, Element>::StartBand(Piece* piece, const Band& band,
                                              const FilterUnit& unit, const FilterUnit& next_unit,
                                              const Band& next) const {
  const PixelBlock &b = band.bounds, &before = piece->bounds;
  const bool same_calls = before.row_begin == b.row_begin && before.row_end == b.row_end &&
                          before.col_begin == b.col_begin && before.col_end == b.col_end &&
                          piece->unit.row_taps == unit.row_taps &&
                          piece->unit.col_taps == unit.col_taps &&
                          piece->unit.channels.size() == unit.channels.size();
  piece->unit = unit;
  piece->bounds = b;
  piece->input.part = plan_.InputPart(unit, b);
  piece->output.part = plan_.OutputPart(unit.channels, b);
  piece->input.next = plan_.InputPart(next_unit, next.bounds);
  piece->output.next = plan_.OutputPart(next_unit.channels, next.bounds);
  if (plan_.output_in_place) piece->calls.resize(1);
  if (!plan_.input_in_place && !same_calls) FindSlots(piece);
  if (plan_.output_in_place || same_calls) return;
  size_t at = 0;
  for (int64_t i = band.begin; i < band.end; ++i) {
    const PixelBlock& block = plan_.blocks[i];
    for (int64_t row = block.row_begin; row < block.row_end; ++row) {
      if (at == piece->calls.size()) piece->calls.emplace_back();
      FindCall(*piece, block, b.image_begin, row, &piece->calls[at++]);
    }
  }
}

// The blocks of a band into `fold`. Either it is of one image, or it is one block, so that one
// image at a time needs to be in the strips.
template <class Stored, class Element>
void FilterEngine<Stored, Element>::AddBand(Piece* piece, const Band& band, double* fold) const {
  const FilterUnit& unit = piece->unit;
  const int64_t count =
      unit.row_taps.size() * unit.col_taps.size() * plan_.TapSize(unit.channels.size());
  for (int64_t image = band.bounds.image_begin; image < band.bounds.image_end; ++image) {
    if (!plan_.input_in_place) PackInput(*piece, image);
    if (!plan_.output_in_place) PackOutput(*piece, image);
    size_t at = 0;
    for (int64_t i = band.begin; i < band.end; ++i) {
      const PixelBlock& block = plan_.blocks[i];
      for (int64_t row = block.row_begin; row < block.row_end; ++row) {
        RowCall& call = piece->calls[plan_.output_in_place ? 0 : at++];
        if (plan_.output_in_place) FindCall(*piece, block, image, row, &call);
        if (call.segments.empty()) continue;
        FetchAhead(*piece, image, call.last_input, row, &call.row);
        row_kernels_.gradient(call.row);
      }
      if (image + 1 == block.image_end) {
        kernels_.fold_block(piece->sums, fold, Errors(fold), count);
      }
    }
  }
}

template <class Stored, class Element>
void FilterEngine<Stored, Element>::RunPiece(int64_t unit, int64_t run, double* fold) {
  Piece& piece = PieceOfThread();
  std::fill_n(piece.sums, plan_.UnitSize(), Compute{0});
  std::fill_n(fold, plan_.FoldSize(), 0.0);
  const FilterUnit this_unit = plan_.UnitAt(unit);
  const FilterUnit next_unit = plan_.UnitAt(unit + 1 < plan_.num_units() ? unit + 1 : 0);
  const std::vector<Band> bands = plan_.BandsOfRun(run);
  for (size_t i = 0; i < bands.size(); ++i) {
    const bool last = i + 1 == bands.size();
    StartBand(&piece, bands[i], this_unit, last ? next_unit : this_unit, bands[last ? 0 : i + 1]);
    AddBand(&piece, bands[i], fold);
  }
}

template <class Stored, class Element>
void FilterEngine<Stored, Element>::FoldRuns(Range units, int64_t num_runs) {
  parallel_.For(units.size(), [&](int64_t slot) {
    double* total = TotalOf(slot);
    for (int64_t run = 0; run < num_runs; ++run) {
      double* fold = RunOf(slot, run);
      kernels_.fold_run(fold, Errors(fold), total, Errors(total), plan_.UnitSize());
    }
  });
}

// The rounded sums of one unit into the result.
// Sums as the kernel leaves them, whole groups, in the order of the channels.
template <class Stored, class Element>
void FilterEngine<Stored, Element>::OrderGroups(Compute* sums, int64_t count) const {
  const int64_t group = row_kernels_.group, parts = row_kernels_.parts;
  if (parts == 1) return;
  std::vector<Compute> parted(static_cast<size_t>(group));
  for (Compute* first = sums; first != sums + count; first += group) {
    std::copy_n(first, group, parted.begin());
    for (int64_t i = 0; i < group; ++i) first[i] = parted[i % parts * (group / parts) + i / parts];
  }
}

template <class Stored, class Element>
void FilterEngine<Stored, Element>::Finish(const FilterUnit& unit, double* total) {
  const int64_t size = unit.channels.size() * plan_.multiplier;
  const int64_t tap_size = plan_.TapSize(unit.channels.size());
  AlignedArray<Compute> sums(tap_size);
  for (int64_t row = 0; row < unit.row_taps.size(); ++row) {
    for (int64_t col = 0; col < unit.col_taps.size(); ++col) {
      const int64_t at = (row * unit.col_taps.size() + col) * tap_size;
      double* error = plan_.f64 ? Errors(total) + at : nullptr;
      kernels_.finish(total + at, error, sums.data(), tap_size, sizeof(Stored) == 2);
      OrderGroups(sums.data(), tap_size);
      const int64_t tap =
          (unit.row_taps.begin + row) * plan_.cols.kernel + unit.col_taps.begin + col;
      Stored* to = result_ + tap * plan_.output.c + unit.channels.begin * plan_.multiplier;
      // The last vector of sums is of the last channels, wherever they begin.
      const int64_t whole = size < plan_.lanes ? size : size / plan_.lanes * plan_.lanes;
      pack_.narrow(sums.data(), to, whole);
      if (whole < size) {
        pack_.narrow(sums.data() + whole, to + size - plan_.lanes, plan_.lanes);
      }
    }
  }
}

template <class Stored, class Element>
void FilterEngine<Stored, Element>::RunUnits(Range units) {
  std::fill_n(totals_.data(), totals_.size(), 0.0);
  for (int64_t first = 0; first < plan_.num_runs(); first += plan_.runs_at_once) {
    const int64_t num_runs = std::min(plan_.runs_at_once, plan_.num_runs() - first);
    parallel_.For(units.size() * num_runs, [&](int64_t i) {
      const int64_t slot = i / num_runs, run = i % num_runs;
      RunPiece(units.begin + slot, first + run, RunOf(slot, run));
    });
    FoldRuns(units, num_runs);
  }
  parallel_.For(units.size(),
                [&](int64_t slot) { Finish(plan_.UnitAt(units.begin + slot), TotalOf(slot)); });
}

template <class Stored, class Element>
void FilterEngine<Stored, Element>::Run() {
  for (int64_t begin = 0; begin < plan_.num_units(); begin += plan_.units_at_once) {
    RunUnits({begin, std::min(plan_.num_units(), begin + plan_.units_at_once)});
  }
}

void RunFilter(const ConvArgs& args) {
  const FilterPlan plan(args.problem, args.kernels, args.parallel.num_threads());
  VisitFloat(args.problem.dtype, [&](auto tag) {
    using Stored = typename decltype(tag)::Type;
    if (plan.input_in_place) {
      FilterEngine<Stored, Stored>(args, plan).Run();
    } else {
      FilterEngine<Stored, ComputeType<Stored>>(args, plan).Run();
    }
  });
}

int64_t FilterScratch(const Problem& problem, const KernelTable& kernels, int num_threads) {
  const FilterPlan plan(problem, kernels, num_threads);
  return plan.piece_bytes() * num_threads +
         plan.units_at_once * (plan.runs_at_once + 1) * plan.FoldSize() * int64_t{sizeof(double)};
}

std::string FilterTiles(const Problem& problem, const KernelTable& kernels) {
  const FilterPlan plan(problem, kernels, 1);
  return fmt::format("{} channels x {} rows of taps a unit, {} blocks, {}", plan.chunks.widest(),
                     CeilDiv(plan.rows.kernel, plan.row_groups), plan.blocks.size(),
                     plan.input_in_place ? "in place" : "through strips");
}

}  // namespace

const Algorithm kDepthwiseFilterAlgorithm = {
    .name = "direct",
    .summary = "depthwise filter gradient, lanes along channels, padding skipped",
    .accepts = [](const Problem&) { return true; },
    .scratch_bytes = FilterScratch,
    .tiles = FilterTiles,
    .run = RunFilter,
};

}  // namespace convgrad
