// Depthwise filter gradient of few channels, lanes along blocks of the canonical order: a vector
// holds the same channel and the same place in as many blocks as it has lanes, so that no lane is
// empty however few the channels are. Rows off the image, and places that shorter blocks don't
// have, are zeros and multiplied; whenever there is a NaN, the algorithm that skips them decides.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "base/checked.h"
#include "conv/canonical_order.h"
#include "conv/depthwise.h"
#include "conv/depthwise_strips.h"

namespace convgrad {
namespace {

// Sums of the runs that wait to be folded.
constexpr int64_t kWaitingBytes = int64_t{8} << 20;
// Sums and input rows of one group of blocks: what the second cache holds.
constexpr int64_t kGroupBytes = int64_t{512} << 10;

// What is dealt out. A unit is what lies in one row of memory: all channels (NHWC) or one (NCHW).
struct BlockLanesPlan {
  explicit BlockLanesPlan(const Problem& problem) : g(problem.geometry) {
    nhwc = problem.data_format == DataFormat::kNHWC;
    input = {problem.data_format, g.batch, g.in_h, g.in_w, g.in_c};
    output = {problem.data_format, g.batch, g.out_h, g.out_w, g.out_c};
    f64 = problem.dtype == DType::kFloat64;
    const std::vector<PixelBlock> of_image = PixelBlocks(1, g.out_h, g.out_w);
    const int64_t images_of_block = std::max<int64_t>(1, kBlockTerms / (g.out_h * g.out_w));
    most_images = std::min(g.batch, images_of_block);
    num_blocks = CeilDiv(g.batch, images_of_block) * std::ssize(of_image);
    for (const PixelBlock& block : of_image) {
      most_rows = std::max(most_rows, block.row_end - block.row_begin);
      most_cols = std::max(most_cols, block.col_end - block.col_begin);
    }
    whole_rows = most_cols == g.out_w;
    unit_in_c = nhwc ? g.in_c : 1;
    unit_out_c = nhwc ? g.out_c : g.group_out_c;
    num_units = nhwc ? 1 : g.in_c;
    in_rows = (most_rows - 1) * g.stride_h + (g.kernel_h - 1) * g.dilation_h + 1;
    in_cols =
        whole_rows ? g.in_w : (most_cols - 1) * g.stride_w + (g.kernel_w - 1) * g.dilation_w + 1;
  }

  const ConvGeometry& g;
  bool nhwc, f64;
  DataLayout input, output;
  int64_t num_blocks;
  int64_t most_images = 0, most_rows = 0, most_cols = 0;  // of a block
  bool whole_rows;  // else rows of a block are parts, which are put between zeros first
  int64_t unit_in_c, unit_out_c, num_units;
  // Of the input that belongs to a block: rows, numbered from the first that any tap may read, and
  // columns.
  int64_t in_rows, in_cols;

  int64_t num_taps() const { return g.kernel_h * g.kernel_w; }
  int64_t num_runs() const { return CeilDiv(num_blocks, kRunBlocks); }
  // Sums of a unit: [tap][channel], whole vectors.
  int64_t UnitSize(int64_t lanes) const { return RoundUp(num_taps() * unit_out_c, lanes); }
  // Elements of one piece of work, but for what parts of rows need.
  int64_t PieceSize(int64_t lanes) const {
    return (num_taps() * unit_out_c + in_rows * in_cols * unit_in_c + most_cols * unit_out_c) *
               lanes +
           UnitSize(lanes);
  }
};

template <class Stored>
class BlockLanesEngine {
 public:
  using Compute = ComputeType<Stored>;

  BlockLanesEngine(const ConvArgs& args, const BlockLanesPlan& plan)
      : plan_(plan),
        parallel_(args.parallel),
        kernels_(args.kernels.Depthwise<Compute>()),
        row_kernels_(args.kernels.DepthwiseRows<Compute>()),
        pack_(args.kernels.Pack<Stored>()),
        lanes_(kernels_.lanes),
        input_(static_cast<const Stored*>(args.input)),
        out_backprop_(static_cast<const Stored*>(args.out_backprop)),
        result_(static_cast<Stored*>(args.result)),
        blocks_(PixelBlocks(plan.g.batch, plan.g.out_h, plan.g.out_w)),
        pieces_(static_cast<size_t>(args.parallel.num_threads())) {}

  void Run();

 private:
  enum class RowState : int8_t { kUnknown, kAbsent, kPacked };

  // One thread's memory: [tap][channel][lane], [row][column][channel][lane],
  // [column][channel][lane] (NCHW: [channel][column][lane]), [tap][channel].
  struct Piece {
    explicit Piece(const BlockLanesPlan& plan, int64_t lanes)
        : sums(plan.num_taps() * plan.unit_out_c * lanes),
          input(plan.in_rows * plan.in_cols * plan.unit_in_c * lanes),
          output(plan.most_cols * plan.unit_out_c * lanes),
          block_sums(plan.UnitSize(lanes)),
          rows(static_cast<size_t>(plan.in_rows)),
          places(static_cast<size_t>(lanes)) {
      std::fill_n(block_sums.data(), block_sums.size(), Compute{0});  // all of it is folded
      if (plan.whole_rows) return;
      part_size = std::max(plan.in_cols * plan.unit_in_c, plan.most_cols * plan.unit_out_c);
      parts = AlignedArray<Stored>(part_size * lanes);
    }

    AlignedArray<Compute> sums, input, output, block_sums;
    std::vector<RowState> rows;  // of `input`
    std::vector<const Stored*> places;
    AlignedArray<Stored> parts;  // of a row of each lane, between zeros
    int64_t part_size = 0;
    std::vector<DepthwiseSegment<Compute>> segments;
    Range lane_blocks = {0, 0};   // the blocks that are lanes now
    int64_t unit = 0, image = 0;  // image: of each block
  };

  Piece& PieceOfThread();
  void RunPiece(int64_t unit, int64_t run, double* fold);
  const Stored* PlaceOf(Piece* piece, int64_t lane, const DataLayout& layout, int64_t channel,
                        int64_t image, int64_t row, Range cols) const;
  void PackOutputRow(Piece* piece, int64_t row) const;
  RowState PackInputRow(Piece* piece, int64_t row) const;
  void AddRow(Piece* piece, int64_t row) const;
  void AddChannel(Piece* piece, int64_t channel) const;
  void FoldBlocks(Piece* piece, double* fold) const;
  void Finish(int64_t unit, double* total) const;

  int64_t FoldSize() const { return plan_.UnitSize(lanes_) * (plan_.f64 ? 2 : 1); }
  double* Errors(double* fold) const { return plan_.f64 ? fold + plan_.UnitSize(lanes_) : nullptr; }

  const BlockLanesPlan& plan_;
  const Parallel& parallel_;
  const DepthwiseKernels<Compute>& kernels_;
  const DepthwiseRowKernels<Compute>& row_kernels_;
  const PackKernels<Stored>& pack_;
  const int64_t lanes_;
  const Stored* input_;
  const Stored* out_backprop_;
  Stored* result_;
  const std::vector<PixelBlock> blocks_;
  std::vector<std::unique_ptr<Piece>> pieces_;  // by thread
};

template <class Stored>
auto BlockLanesEngine<Stored>::PieceOfThread() -> Piece& {
  std::unique_ptr<Piece>& piece = pieces_[static_cast<size_t>(Parallel::ThreadIndex())];
  if (piece == nullptr) piece = std::make_unique<Piece>(plan_, lanes_);
  return *piece;
}

// Where the columns `cols` (which may lie off the image where rows are cut) of a row begin, for the
// lane's unit; null where there is no such row.
template <class Stored>
auto BlockLanesEngine<Stored>::PlaceOf(Piece* piece, int64_t lane, const DataLayout& layout,
                                       int64_t channel, int64_t image, int64_t row,
                                       Range cols) const -> const Stored* {
  const PixelBlock& block = blocks_[piece->lane_blocks.begin + lane];
  if (image >= block.image_end || row < 0 || row >= layout.h) return nullptr;
  const Stored* data = &layout == &plan_.input ? input_ : out_backprop_;
  const Stored* from = data + (plan_.nhwc ? layout.AtPixel(image, row, 0, 0)
                                          : layout.AtPlane(image * layout.c + channel, row, 0));
  if (plan_.whole_rows) return from;
  const int64_t size = plan_.nhwc ? layout.c : 1;
  Stored* part = piece->parts.data() + lane * piece->part_size;
  const int64_t begin = std::clamp<int64_t>(cols.begin, 0, layout.w);
  const int64_t end = std::clamp<int64_t>(cols.end, begin, layout.w);
  std::fill_n(part, piece->part_size, Stored{});
  std::copy_n(from + begin * size, (end - begin) * size, part + (begin - cols.begin) * size);
  return part;
}

// Row `row` of every lane's block.
template <class Stored>
void BlockLanesEngine<Stored>::PackOutputRow(Piece* piece, int64_t row) const {
  const int64_t num_rows = plan_.nhwc ? 1 : plan_.unit_out_c;
  const int64_t count = plan_.most_cols * plan_.unit_out_c / num_rows;
  for (int64_t m = 0; m < num_rows; ++m) {
    for (int64_t lane = 0; lane < lanes_; ++lane) {
      const Stored* place = nullptr;
      if (lane < piece->lane_blocks.size()) {
        const PixelBlock& block = blocks_[piece->lane_blocks.begin + lane];
        if (block.row_begin + row < block.row_end) {
          place = PlaceOf(piece, lane, plan_.output, piece->unit * num_rows + m,
                          block.image_begin + piece->image, block.row_begin + row,
                          {block.col_begin, block.col_end});
        }
      }
      piece->places[lane] = place;
    }
    pack_.gather_widen(piece->places.data(), count, piece->output.data() + m * count * lanes_,
                       lanes_, 0);
  }
}

// Row `row` of the input that belongs to every lane's block, if any has it.
template <class Stored>
auto BlockLanesEngine<Stored>::PackInputRow(Piece* piece, int64_t row) const -> RowState {
  const ConvGeometry& g = plan_.g;
  RowState& state = piece->rows[row];
  if (state != RowState::kUnknown) return state;
  state = RowState::kAbsent;
  for (int64_t lane = 0; lane < lanes_; ++lane) {
    piece->places[lane] = nullptr;
    if (lane >= piece->lane_blocks.size()) continue;
    const PixelBlock& block = blocks_[piece->lane_blocks.begin + lane];
    const int64_t first_col = block.col_begin * g.stride_w - g.pad_left;
    piece->places[lane] = PlaceOf(
        piece, lane, plan_.input, piece->unit, block.image_begin + piece->image,
        block.row_begin * g.stride_h - g.pad_top + row, {first_col, first_col + plan_.in_cols});
    if (piece->places[lane] != nullptr) state = RowState::kPacked;
  }
  if (state == RowState::kPacked) {
    const int64_t count = plan_.in_cols * plan_.unit_in_c;
    pack_.gather_widen(piece->places.data(), count, piece->input.data() + row * count * lanes_,
                       lanes_, 0);
  }
  return state;
}

// One channel of `output`, with the segments of channel 0.
template <class Stored>
void BlockLanesEngine<Stored>::AddChannel(Piece* piece, int64_t channel) const {
  const ConvGeometry& g = plan_.g;
  const int64_t in_channel = channel / g.group_out_c;
  for (DepthwiseSegment<Compute>& segment : piece->segments) {
    segment.source += in_channel * lanes_;
    segment.sums += channel * lanes_;
  }
  DepthwiseGradientRows<Compute> call = {};
  call.segments = piece->segments.data();
  call.num_segments = std::ssize(piece->segments);
  call.num_rows = 1;
  call.out_backprop = piece->output.data() + channel * lanes_ * (plan_.nhwc ? 1 : plan_.most_cols);
  call.out_backprop_stride = lanes_ * (plan_.nhwc ? plan_.unit_out_c : 1);
  call.count = plan_.most_cols;
  call.source_stride = plan_.unit_in_c * lanes_;
  call.num_cols = plan_.in_cols;
  call.sums_stride = plan_.unit_out_c * lanes_;
  call.stride = g.stride_w;
  call.dilation = g.dilation_w;
  call.channels = lanes_;
  row_kernels_.gradient(call);
  for (DepthwiseSegment<Compute>& segment : piece->segments) {
    segment.source -= in_channel * lanes_;
    segment.sums -= channel * lanes_;
  }
}

// The terms of row `row` of every lane's block.
template <class Stored>
void BlockLanesEngine<Stored>::AddRow(Piece* piece, int64_t row) const {
  const ConvGeometry& g = plan_.g;
  const int64_t row_size = plan_.in_cols * plan_.unit_in_c * lanes_;
  piece->segments.clear();
  for (int64_t row_tap = 0; row_tap < g.kernel_h; ++row_tap) {
    const int64_t in_row = row * g.stride_h + row_tap * g.dilation_h;
    if (PackInputRow(piece, in_row) == RowState::kAbsent) continue;
    for (int64_t tap = 0; tap < g.kernel_w; tap += kMaxSegmentTaps) {
      DepthwiseSegment<Compute> segment = {};
      segment.source = piece->input.data() + in_row * row_size;
      segment.sums = piece->sums.data() + (row_tap * g.kernel_w + tap) * plan_.unit_out_c * lanes_;
      segment.origin = tap * g.dilation_w - (plan_.whole_rows ? g.pad_left : 0);
      segment.num_taps = std::min(g.kernel_w - tap, kMaxSegmentTaps);
      piece->segments.push_back(segment);
    }
  }
  if (piece->segments.empty()) return;
  PackOutputRow(piece, row);
  for (int64_t channel = 0; channel < plan_.unit_out_c; ++channel) AddChannel(piece, channel);
}

// The sums of the lanes, one block after the other.
template <class Stored>
void BlockLanesEngine<Stored>::FoldBlocks(Piece* piece, double* fold) const {
  const int64_t count = plan_.num_taps() * plan_.unit_out_c;
  for (int64_t lane = 0; lane < piece->lane_blocks.size(); ++lane) {
    for (int64_t i = 0; i < count; ++i) {
      piece->block_sums[i] = piece->sums[i * lanes_ + lane];
    }
    kernels_.fold_block(piece->block_sums.data(), fold, Errors(fold), plan_.UnitSize(lanes_));
  }
}

template <class Stored>
void BlockLanesEngine<Stored>::RunPiece(int64_t unit, int64_t run, double* fold) {
  Piece& piece = PieceOfThread();
  piece.unit = unit;
  std::fill_n(fold, FoldSize(), 0.0);
  const int64_t last = std::min(plan_.num_blocks, (run + 1) * kRunBlocks);
  for (int64_t first = run * kRunBlocks; first < last; first += lanes_) {
    piece.lane_blocks = {first, std::min(first + lanes_, last)};
    std::fill_n(piece.sums.data(), piece.sums.size(), Compute{0});
    for (piece.image = 0; piece.image < plan_.most_images; ++piece.image) {
      std::fill(piece.rows.begin(), piece.rows.end(), RowState::kUnknown);
      for (int64_t row = 0; row < plan_.most_rows; ++row) AddRow(&piece, row);
    }
    FoldBlocks(&piece, fold);
  }
}

// The rounded sums of one unit into the result.
template <class Stored>
void BlockLanesEngine<Stored>::Finish(int64_t unit, double* total) const {
  AlignedArray<Compute> sums(plan_.UnitSize(lanes_));
  kernels_.finish(total, Errors(total), sums.data(), sums.size(), sizeof(Stored) == 2);
  for (int64_t tap = 0; tap < plan_.num_taps(); ++tap) {
    pack_.narrow(sums.data() + tap * plan_.unit_out_c,
                 result_ + tap * plan_.output.c + unit * plan_.unit_out_c, plan_.unit_out_c);
  }
}

template <class Stored>
void BlockLanesEngine<Stored>::Run() {
  const int64_t num_units = plan_.num_units, fold_size = FoldSize();
  const int64_t runs_at_once = std::clamp<int64_t>(
      kWaitingBytes / (num_units * fold_size * int64_t{sizeof(double)}), 1, plan_.num_runs());
  AlignedArray<double> totals(num_units * fold_size), runs(num_units * runs_at_once * fold_size);
  std::fill_n(totals.data(), totals.size(), 0.0);
  for (int64_t first = 0; first < plan_.num_runs(); first += runs_at_once) {
    const int64_t num_runs = std::min(runs_at_once, plan_.num_runs() - first);
    parallel_.For(num_units * num_runs, [&](int64_t i) {
      RunPiece(i / num_runs, first + i % num_runs, runs.data() + i * fold_size);
    });
    for (int64_t i = 0; i < num_units * num_runs; ++i) {
      double *run = runs.data() + i * fold_size, *total = totals.data() + i / num_runs * fold_size;
      kernels_.fold_run(run, Errors(run), total, Errors(total), plan_.UnitSize(lanes_));
    }
  }
  for (int64_t unit = 0; unit < num_units; ++unit) Finish(unit, totals.data() + unit * fold_size);
}

template <class Stored>
bool HasNaN(const void* result, int64_t count) {
  const auto* values = static_cast<const Stored*>(result);
  return std::any_of(values, values + count, [](Stored value) { return std::isnan(Widen(value)); });
}

void RunBlockLanes(const ConvArgs& args) {
  const BlockLanesPlan plan(args.problem);
  VisitFloat(args.problem.dtype, [&](auto tag) {
    using Stored = typename decltype(tag)::Type;
    BlockLanesEngine<Stored>(args, plan).Run();
    if (HasNaN<Stored>(args.result, plan.num_taps() * plan.output.c)) {
      kDepthwiseFilterAlgorithm.run(args);
    }
  });
}

// More blocks are at hand than channels, which would fill fewer lanes.
bool AcceptsBlockLanes(const Problem& problem) {
  constexpr int64_t kVectorBytes = 64;
  const int64_t compute_bytes = problem.dtype == DType::kFloat64 ? 8 : 4;
  const int64_t most_lanes = kVectorBytes / compute_bytes;
  const ConvGeometry& g = problem.geometry;
  // In NCHW every channel is gathered on its own.
  const bool nhwc = problem.data_format == DataFormat::kNHWC;
  if (g.out_c > (nhwc ? most_lanes - 1 : most_lanes * 2 / 3) ||
      g.out_c * g.batch * g.out_h * g.out_w == 0) {
    return false;
  }
  const BlockLanesPlan plan(problem);
  if (std::max(plan.in_rows, plan.in_cols) > kGroupBytes || plan.num_taps() > kGroupBytes) {
    return false;  // and products don't overflow
  }
  // Where rows are cut, every row of a block is packed with as many of the input as the filter has.
  if (!plan.whole_rows && 4 * g.out_c > most_lanes) return false;
  return std::min(plan.num_blocks, most_lanes) > g.out_c &&
         plan.PieceSize(most_lanes) * compute_bytes <= kGroupBytes;
}

int64_t BlockLanesScratch(const Problem& problem, const KernelTable& kernels, int num_threads) {
  const BlockLanesPlan plan(problem);
  const int64_t lanes = plan.f64 ? kernels.depthwise_f64.lanes : kernels.depthwise_f32.lanes;
  const int64_t folds = plan.num_units * plan.UnitSize(lanes) * (plan.f64 ? 16 : 8);
  const int64_t parts =
      plan.whole_rows ? 0 : (plan.in_cols * plan.unit_in_c + plan.unit_out_c * plan.most_cols);
  const int64_t bytes = (plan.PieceSize(lanes) + parts * lanes) * (plan.f64 ? 8 : 4) * num_threads +
                        folds + std::max(folds, std::min(kWaitingBytes, folds * plan.num_runs()));
  return std::max(bytes, kDepthwiseFilterAlgorithm.scratch_bytes(problem, kernels, num_threads));
}

std::string BlockLanesTiles(const Problem& problem, const KernelTable& kernels) {
  const BlockLanesPlan plan(problem);
  return fmt::format("{} blocks, {} at a time, {} channels a unit", plan.num_blocks,
                     plan.f64 ? kernels.depthwise_f64.lanes : kernels.depthwise_f32.lanes,
                     plan.unit_out_c);
}

}  // namespace

const Algorithm kDepthwiseFilterBlockLanes = {
    .name = "block-lanes",
    .summary = "depthwise filter gradient of few channels, lanes along blocks of pixels",
    .accepts = AcceptsBlockLanes,
    .scratch_bytes = BlockLanesScratch,
    .tiles = BlockLanesTiles,
    .run = RunBlockLanes,
};

}  // namespace convgrad
