// Filter gradients with lanes along blocks of the canonical order: a vector holds the same channel
// and the same place in as many blocks as it has lanes, so that no lane is empty however few the
// channels of a group are. Padding, and places that shorter blocks don't have, are zeros and
// multiplied; whenever there is a NaN, an algorithm that skips them decides.
#include "conv/conv2d/filter/block_lanes.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "base/checked.h"
#include "base/memory.h"
#include "conv/conv2d/filter/block_lanes_packing.h"
#include "conv/conv2d/filter/block_lanes_plan.h"
#include "conv/conv2d/filter/tile_forms.h"
#include "conv/move/has_nan.h"
#include "conv/plan/function_plan.h"

namespace convgrad {
namespace {

template <class Stored>
class BlockLanesEngine {
 public:
  using Compute = ComputeType<Stored>;

  BlockLanesEngine(const ConvArgs& args, const BlockLanesPlan& plan)
      : plan_(plan),
        parallel_(args.parallel),
        folds_(args.kernels.Depthwise<Compute>()),
        pack_(args.kernels.Pack<Stored>()),
        gather_(args.kernels.Pack<Compute>().gather_widen),
        sums_(plan, args.kernels.VectorOuter<Compute>().tiles),
        run_tile_(args.kernels.VectorOuter<Compute>().tiles[sums_.tile_index].run),
        lanes_(args.kernels.VectorOuter<Compute>().lanes),
        input_(static_cast<const Stored*>(args.input)),
        out_backprop_(static_cast<const Stored*>(args.out_backprop)),
        result_(static_cast<Stored*>(args.result)),
        pieces_(static_cast<size_t>(args.parallel.num_threads())) {
    PlaceRows();
    PlaceSegments();
  }

  void Run();

 private:
  // One thread's memory.
  struct Piece {
    Piece(const BlockLanesPlan& plan, const BlockLanesSums& unit_sums,
          const PackKernels<Stored>& pack, int64_t lanes)
        : packer(plan, pack, lanes),
          input(plan.input.Vectors(plan.most_images) * lanes),
          output((plan.output.Vectors(plan.most_images) + unit_sums.tile_cols) * lanes),
          sums(unit_sums.UnitSize() * lanes),
          by_lane(unit_sums.UnitSize() * lanes) {
      // What nothing is put into stays zero: columns beside the image, what fills up vectors.
      std::fill_n(input.data(), input.size(), Compute{0});
      std::fill_n(output.data(), output.size(), Compute{0});
      std::fill_n(sums.data(), sums.size(), Compute{0});
    }

    BlockLanesPacker<Stored> packer;
    AlignedArray<Compute> input, output;  // as BlockLanesOperand says
    AlignedArray<Compute> sums, by_lane;  // [sum][lane], [lane][sum]
    int64_t num_blocks = 0;               // that are lanes now
  };

  void PlaceRows();
  void PlaceSegments();
  Piece& PieceOfThread();
  void RunPiece(int64_t unit, int64_t run, double* fold);
  void Multiply(Piece* piece, int64_t group) const;
  void FoldBlocks(Piece* piece, double* fold) const;
  void Finish(int64_t unit, double* total) const;

  bool f64() const { return sizeof(Compute) == sizeof(double); }
  int64_t FoldSize() const { return sums_.UnitSize() * (f64() ? 2 : 1); }
  double* Errors(double* fold) const { return f64() ? fold + sums_.UnitSize() : nullptr; }

  const BlockLanesPlan& plan_;
  const Parallel& parallel_;
  const DepthwiseKernels<Compute>& folds_;
  const PackKernels<Stored>& pack_;
  decltype(PackKernels<Compute>::gather_widen) gather_;
  const BlockLanesSums sums_;
  void (*run_tile_)(const OuterTileArgs<Compute>&);
  const int64_t lanes_;
  const Stored* input_;
  const Stored* out_backprop_;
  Stored* result_;
  // Where the rows of a group's sums begin in its input; surplus ones repeat the last.
  std::vector<int64_t> rows_;
  std::vector<GemmSegment> segments_;           // the rows of a block
  std::vector<std::unique_ptr<Piece>> pieces_;  // by thread
};

template <class Stored>
void BlockLanesEngine<Stored>::PlaceRows() {
  const ConvGeometry& g = plan_.geometry;
  const BlockLanesOperand& form = plan_.input;
  for (int64_t row_tap = 0; row_tap < g.kernel_h; ++row_tap) {
    for (int64_t col_tap = 0; col_tap < g.kernel_w; ++col_tap) {
      const int64_t pixel = row_tap * g.dilation_h * form.cols + col_tap * g.dilation_w;
      for (int64_t c = 0; c < g.group_in_c; ++c) rows_.push_back(pixel * form.pixel + c);
    }
  }
  rows_.resize(static_cast<size_t>(sums_.row_tiles() * sums_.tile_rows), rows_.back());
}

template <class Stored>
void BlockLanesEngine<Stored>::PlaceSegments() {
  const BlockLanesOperand &in = plan_.input, &out = plan_.output;
  for (int64_t image = 0; image < plan_.most_images; ++image) {
    for (int64_t row = 0; row < plan_.most_rows; ++row) {
      const int64_t in_row = image * in.rows + row * in.row_step;
      const int64_t out_row = image * out.rows + row;
      segments_.push_back(
          {in_row * in.cols * in.pixel, out_row * out.cols * out.pixel, plan_.most_cols});
    }
  }
}

template <class Stored>
auto BlockLanesEngine<Stored>::PieceOfThread() -> Piece& {
  std::unique_ptr<Piece>& piece = pieces_[static_cast<size_t>(Parallel::ThreadIndex())];
  if (piece == nullptr) piece = std::make_unique<Piece>(plan_, sums_, pack_, lanes_);
  return *piece;
}

// All tiles of a group.
template <class Stored>
void BlockLanesEngine<Stored>::Multiply(Piece* piece, int64_t group) const {
  const ConvGeometry& g = plan_.geometry;
  OuterTileArgs<Compute> call = {};
  call.a = piece->input.data() + group * g.group_in_c * lanes_;
  call.a_step = plan_.input.col_step * plan_.input.pixel;
  call.b = piece->output.data() + group * g.group_out_c * lanes_;
  call.b_step = plan_.output.pixel;
  call.segments = segments_;
  call.sums = piece->sums.data() + group * sums_.GroupSize() * lanes_;
  for (int64_t col = 0; col < sums_.col_tiles(); ++col, call.b += sums_.tile_cols * lanes_) {
    call.a_rows = rows_.data();
    for (int64_t row = 0; row < sums_.row_tiles(); ++row, call.a_rows += sums_.tile_rows) {
      run_tile_(call);
      call.sums += sums_.TileSize() * lanes_;
    }
  }
}

// The sums of the lanes, one block after the other.
template <class Stored>
void BlockLanesEngine<Stored>::FoldBlocks(Piece* piece, double* fold) const {
  std::vector<const Compute*> from(static_cast<size_t>(lanes_));
  const int64_t size = sums_.UnitSize();
  for (int64_t first = 0; first < size; first += lanes_) {
    for (int64_t i = 0; i < lanes_; ++i) from[i] = piece->sums.data() + (first + i) * lanes_;
    gather_(from.data(), lanes_, piece->by_lane.data() + first, size, 0);
  }
  for (int64_t lane = 0; lane < piece->num_blocks; ++lane) {
    folds_.fold_block(piece->by_lane.data() + lane * size, fold, Errors(fold), size);
  }
}

template <class Stored>
void BlockLanesEngine<Stored>::RunPiece(int64_t unit, int64_t run, double* fold) {
  Piece& piece = PieceOfThread();
  std::fill_n(fold, FoldSize(), 0.0);
  const int64_t last = std::min<int64_t>(std::ssize(plan_.blocks), (run + 1) * kRunBlocks);
  for (int64_t first = run * kRunBlocks; first < last; first += lanes_) {
    piece.num_blocks = std::min(lanes_, last - first);
    piece.packer.SetBlocks(first, piece.num_blocks);
    piece.packer.Pack(plan_.input, input_, unit, piece.input.data());
    piece.packer.Pack(plan_.output, out_backprop_, unit, piece.output.data());
    for (int64_t group = 0; group < plan_.GroupsOf(unit); ++group) Multiply(&piece, group);
    FoldBlocks(&piece, fold);
  }
}

// The rounded sums of one unit into the result.
template <class Stored>
void BlockLanesEngine<Stored>::Finish(int64_t unit, double* total) const {
  const int64_t group_c = sums_.cols, unit_c = plan_.unit_out_c();
  AlignedArray<Compute> sums(sums_.UnitSize()), ordered(sums_.rows * unit_c);
  folds_.finish(total, Errors(total), sums.data(), sums.size(), sizeof(Stored) == 2);
  for (int64_t row = 0; row < sums_.rows; ++row) {
    for (int64_t c = 0; c < unit_c; ++c) {
      const int64_t group = c / group_c, col = c % group_c;
      const int64_t tile = (group * sums_.col_tiles() + col / sums_.tile_cols) * sums_.row_tiles() +
                           row / sums_.tile_rows;
      ordered[row * unit_c + c] =
          sums[tile * sums_.TileSize() + row % sums_.tile_rows * sums_.tile_cols +
               col % sums_.tile_cols];
    }
    pack_.narrow(ordered.data() + row * unit_c,
                 result_ + row * plan_.geometry.out_c + unit * unit_c,
                 plan_.GroupsOf(unit) * group_c);
  }
}

template <class Stored>
void BlockLanesEngine<Stored>::Run() {
  const int64_t num_units = plan_.num_units(), fold_size = FoldSize();
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
      folds_.fold_run(run, Errors(run), total, Errors(total), sums_.UnitSize());
    }
  }
  for (int64_t unit = 0; unit < num_units; ++unit) Finish(unit, totals.data() + unit * fold_size);
}

bool RunBlockLanes(const ConvArgs& args) {
  const BlockLanesPlan plan(args.problem);
  return VisitFloat(args.problem.dtype, [&](auto tag) {
    using Stored = typename decltype(tag)::Type;
    BlockLanesEngine<Stored>(args, plan).Run();
    return !HasNaN<Stored>(args.result, plan.num_rows() * plan.geometry.out_c);
  });
}

// Depthwise: more blocks are at hand than channels, which would fill fewer lanes. In NCHW every
// channel is gathered on its own.
bool HasFewChannels(const BlockLanesPlan& plan) {
  const ConvGeometry& g = plan.geometry;
  const bool nhwc = plan.input.shape.format == DataFormat::kNHWC;
  return g.group_in_c == 1 && g.out_c < (nhwc ? plan.most_lanes : plan.most_lanes * 2 / 3 + 1) &&
         g.out_c < std::min<int64_t>(plan.most_lanes, std::ssize(plan.blocks));
}

bool CanBlockLanes(const Problem& problem, const KernelTable&) {
  const ConvGeometry& g = problem.geometry;
  if (InfoOf(problem.op).direction != Direction::kBackpropFilter || TermsInPairs(problem)) {
    return false;
  }
  if (std::min({g.batch, g.in_c, g.out_c, g.out_h, g.out_w, g.kernel_h, g.kernel_w}) == 0) {
    return false;  // nothing to plan
  }
  const BlockLanesPlan plan(problem);
  // Parts of rows are put between zeros in one go, whole pixels at a time.
  const bool one_gather = problem.data_format == DataFormat::kNCHW ||
                          (plan.input.whole_pixels && plan.output.whole_pixels);
  return plan.Fits() && (plan.whole_rows || one_gather);
}

bool BlockLanesWin(const Problem& problem, const KernelTable& kernels) {
  const ConvGeometry& g = problem.geometry;
  const BlockLanesPlan plan(problem);
  // Where rows are cut, every row of a block is packed with as many of the input as the filter has.
  if (!plan.whole_rows) return HasFewChannels(plan) && 4 * g.out_c <= plan.most_lanes;
  if (g.group_in_c > 1) {
    return plan.Cycles(kernels.vector_bytes) < LeastCyclesByChannels(problem, kernels);
  }
  constexpr double kGain = 0.8;  // that rough counts must promise
  return HasFewChannels(plan) || plan.CyclesPerPixel() < kGain * plan.CyclesByChannels();
}

template <class Compute>
int64_t ScratchBytes(const BlockLanesPlan& plan, const VectorOuterKernels<Compute>& kernels,
                     int num_threads) {
  const BlockLanesSums sums(plan, kernels.tiles);
  const BlockLanesOperand &in = plan.input, &out = plan.output;
  int64_t piece = in.Vectors(plan.most_images) + out.Vectors(plan.most_images) + sums.tile_cols +
                  2 * sums.UnitSize();
  if (!plan.whole_rows) piece += std::max(in.cols * in.channels, out.cols * out.channels);
  const int64_t folds =
      plan.num_units() * sums.UnitSize() * (sizeof(Compute) == sizeof(double) ? 16 : 8);
  return piece * kernels.lanes * static_cast<int64_t>(sizeof(Compute)) * num_threads + folds +
         std::max(folds, std::min(kWaitingBytes, folds * plan.num_runs()));
}

int64_t BlockLanesScratch(const Problem& problem, const KernelTable& kernels, int num_threads) {
  const BlockLanesPlan plan(problem);
  return problem.dtype == DType::kFloat64 ? ScratchBytes(plan, kernels.outer_f64, num_threads)
                                          : ScratchBytes(plan, kernels.outer_f32, num_threads);
}

std::string BlockLanesTiles(const Problem& problem, const KernelTable& kernels) {
  const BlockLanesPlan plan(problem);
  return fmt::format("{} blocks, {} at a time, {} groups a unit", plan.blocks.size(),
                     kernels.vector_bytes / plan.element_bytes, plan.unit_groups);
}

}  // namespace

const Algorithm kFilterBlockLanes = {
    .name = "block-lanes",
    .summary = "filter gradient of few channels, lanes along blocks of pixels",
    .can = CanBlockLanes,
    .wins = BlockLanesWin,
    .plan = FunctionPlan<BlockLanesScratch, BlockLanesTiles, RunBlockLanes>::Make,
    .may_refuse_data = true,
};

}  // namespace convgrad
