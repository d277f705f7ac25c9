// Filter gradients with lanes along blocks of the canonical order: a vector holds the same channel
// and the same place in as many blocks as it has lanes, so that no lane is empty however few the
// channels of a group are. Padding, and places that shorter blocks don't have, are zeros and
// multiplied; whenever there is a NaN, an algorithm that skips them decides.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "base/memory.h"
#include "base/parallel.h"
#include "conv/axes/pixel_sum.h"
#include "conv/conv2d/filter/algorithms.h"
#include "conv/conv2d/filter/units/block_lanes_cut.h"
#include "conv/conv2d/filter/units/block_lanes_packing.h"
#include "conv/conv2d/filter/units/unit_folds.h"
#include "conv/move/special_numbers.h"
#include "conv/plan/computed_plan.h"
#include "order/canonical_order.h"

namespace convgrad {
namespace {

template <class Stored>
class BlockLanesRunner;

// How blocks become lanes, for one type.
template <class Stored>
class BlockLanesPlan final : public Plan {
 public:
  using Compute = ComputeType<Stored>;

  BlockLanesPlan(const Problem& problem, const KernelTable& kernels, int num_threads)
      : num_threads_(num_threads),
        lanes_(kernels.VectorOuter<Compute>().lanes),
        cut_(problem),
        blocks_(cut_.geometry.batch, cut_.geometry.out_h, cut_.geometry.out_w),
        sums_(cut_, kernels.VectorOuter<Compute>()),
        folds_(cut_.num_units(), sums_.UnitSize(), cut_.num_blocks),
        row_offsets_(cut_.RowOffsets(sums_.row_tiles() * sums_.tile_rows)),
        segments_(cut_.Segments()) {}

  const BlockLanesCut& cut() const { return cut_; }
  const PixelBlockGrid& blocks() const { return blocks_; }
  const BlockLanesSums& sums() const { return sums_; }
  const std::vector<int64_t>& row_offsets() const { return row_offsets_; }
  const std::vector<GemmSegment>& segments() const { return segments_; }
  const UnitFolds<Compute>& folds() const { return folds_; }

  int64_t ScratchBytes() const override;
  Work CountWork() const override { return cut_.CountWork(sums_, lanes_); }
  std::string Tiles() const override {
    return fmt::format("{} blocks, {} at a time, {} groups a unit", cut_.num_blocks, lanes_,
                       cut_.unit_groups);
  }
  bool Run(const ConvArgs& args) const override {
    BlockLanesRunner<Stored>(args, *this).Run();
    return !HasNaN<Stored>(args.result, cut_.num_rows() * cut_.geometry.out_c);
  }

 private:
  const int num_threads_;
  const int64_t lanes_;
  const BlockLanesCut cut_;
  const PixelBlockGrid blocks_;
  const BlockLanesSums sums_;
  const UnitFolds<Compute> folds_;
  const std::vector<int64_t> row_offsets_;
  const std::vector<GemmSegment> segments_;  // the rows of a block
};

template <class Stored>
class BlockLanesRunner {
 public:
  using Compute = ComputeType<Stored>;

  BlockLanesRunner(const ConvArgs& args, const BlockLanesPlan<Stored>& plan)
      : plan_(plan),
        cut_(plan.cut()),
        sums_(plan.sums()),
        parallel_(args.parallel),
        folds_(args.kernels.Depthwise<Compute>()),
        pack_(args.kernels.Pack<Stored>()),
        gather_(args.kernels.Pack<Compute>().gather_widen),
        run_tile_(args.kernels.VectorOuter<Compute>().tiles[sums_.tile_index].run),
        lanes_(args.kernels.VectorOuter<Compute>().lanes),
        input_(static_cast<const Stored*>(args.input)),
        out_backprop_(static_cast<const Stored*>(args.out_backprop)),
        result_(static_cast<Stored*>(args.result)),
        pieces_(args.parallel) {}

  void Run();

 private:
  // One thread's memory.
  struct Piece {
    Piece(const BlockLanesPlan<Stored>& plan, const PackKernels<Stored>& pack, int64_t lanes)
        : packer(plan.cut(), plan.blocks(), pack, lanes),
          input(plan.cut().input.Vectors(plan.cut().most.images) * lanes),
          output((plan.cut().output.Vectors(plan.cut().most.images) + plan.sums().tile_cols) *
                 lanes),
          sums(plan.sums().UnitSize() * lanes),
          by_lane(plan.sums().UnitSize() * lanes) {
      // Places that nothing is put into stay zero: columns beside the image, what fills up vectors.
      std::fill_n(input.data(), input.size(), Compute{0});
      std::fill_n(output.data(), output.size(), Compute{0});
      std::fill_n(sums.data(), sums.size(), Compute{0});
    }

    BlockLanesPacker<Stored> packer;
    AlignedArray<Compute> input, output;  // as BlockLanesOperand says
    AlignedArray<Compute> sums, by_lane;  // [sum][lane], [lane][sum]
    int64_t num_blocks = 0;               // that are lanes now
  };

  void RunPiece(int64_t unit, int64_t run, double* fold);
  void Multiply(Piece* piece, int64_t group) const;
  void FoldBlocks(Piece* piece, double* fold) const;
  void Finish(int64_t unit, double* total) const;

  double* Errors(double* fold) const { return plan_.folds().Errors(fold); }

  const BlockLanesPlan<Stored>& plan_;
  const BlockLanesCut& cut_;
  const BlockLanesSums& sums_;
  const Parallel& parallel_;
  const DepthwiseKernels<Compute>& folds_;
  const PackKernels<Stored>& pack_;
  decltype(PackKernels<Compute>::gather_widen) gather_;
  void (*run_tile_)(const OuterTileArgs<Compute>&);
  const int64_t lanes_;
  const Stored* input_;
  const Stored* out_backprop_;
  Stored* result_;
  PerThread<Piece> pieces_;
};

// All tiles of a group.
template <class Stored>
void BlockLanesRunner<Stored>::Multiply(Piece* piece, int64_t group) const {
  const ConvGeometry& g = cut_.geometry;
  OuterTileArgs<Compute> call = {};
  call.a = piece->input.data() + group * g.group_in_c * lanes_;
  call.a_step = cut_.input.col_step * cut_.input.pixel;
  call.b = piece->output.data() + group * g.group_out_c * lanes_;
  call.b_step = cut_.output.pixel;
  call.segments = plan_.segments();
  call.sums = piece->sums.data() + group * sums_.GroupSize() * lanes_;
  for (int64_t col = 0; col < sums_.col_tiles(); ++col, call.b += sums_.tile_cols * lanes_) {
    call.a_rows = plan_.row_offsets().data();
    for (int64_t row = 0; row < sums_.row_tiles(); ++row, call.a_rows += sums_.tile_rows) {
      run_tile_(call);
      call.sums += sums_.TileSize() * lanes_;
    }
  }
}

// The sums of the lanes, one block after the other.
template <class Stored>
void BlockLanesRunner<Stored>::FoldBlocks(Piece* piece, double* fold) const {
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
void BlockLanesRunner<Stored>::RunPiece(int64_t unit, int64_t run, double* fold) {
  Piece& piece = pieces_.Own(plan_, pack_, lanes_);
  std::fill_n(fold, plan_.folds().Size(), 0.0);
  const int64_t last = std::min(cut_.num_blocks, (run + 1) * kRunBlocks);
  for (int64_t first = run * kRunBlocks; first < last; first += lanes_) {
    piece.num_blocks = std::min(lanes_, last - first);
    piece.packer.SetBlocks(first, piece.num_blocks);
    piece.packer.Pack(cut_.input, input_, unit, piece.input.data());
    piece.packer.Pack(cut_.output, out_backprop_, unit, piece.output.data());
    for (int64_t group = 0; group < cut_.GroupsOf(unit); ++group) Multiply(&piece, group);
    FoldBlocks(&piece, fold);
  }
}

// The rounded sums of one unit into the result.
template <class Stored>
void BlockLanesRunner<Stored>::Finish(int64_t unit, double* total) const {
  const int64_t group_c = sums_.cols, unit_c = cut_.unit_out_c();
  AlignedArray<Compute> sums(sums_.UnitSize()), ordered(sums_.rows * unit_c);
  folds_.finish(total, Errors(total), sums.data(), sums.size(), sizeof(Stored) == 2);
  const Compute* tile = sums.data();
  for (int64_t group = 0; group < cut_.GroupsOf(unit); ++group) {
    for (int64_t col = 0; col < group_c; col += sums_.tile_cols) {
      const int64_t cols = std::min(sums_.tile_cols, group_c - col);
      for (int64_t row = 0; row < sums_.rows; row += sums_.tile_rows, tile += sums_.TileSize()) {
        Compute* to = ordered.data() + row * unit_c + group * group_c + col;
        for (int64_t i = 0; i < std::min(sums_.tile_rows, sums_.rows - row); ++i) {
          std::copy_n(tile + i * sums_.tile_cols, cols, to + i * unit_c);
        }
      }
    }
  }
  for (int64_t row = 0; row < sums_.rows; ++row) {
    pack_.narrow(ordered.data() + row * unit_c, result_ + row * cut_.geometry.out_c + unit * unit_c,
                 cut_.GroupsOf(unit) * group_c);
  }
}

template <class Stored>
void BlockLanesRunner<Stored>::Run() {
  const int64_t num_units = cut_.num_units(), size = plan_.folds().Size();
  plan_.folds().Run(
      folds_,
      [&](int64_t first, int64_t num_runs, double* sums) {
        parallel_.For(num_units * num_runs, [&](int64_t i) {
          const int64_t unit = i / num_runs, run = i % num_runs;
          RunPiece(unit, first + run, sums + (run * num_units + unit) * size);
        });
      },
      [&](int64_t unit, double* total) { Finish(unit, total); });
}

template <class Stored>
int64_t BlockLanesPlan<Stored>::ScratchBytes() const {
  const BlockLanesOperand &in = cut_.input, &out = cut_.output;
  int64_t piece = in.Vectors(cut_.most.images) + out.Vectors(cut_.most.images) + sums_.tile_cols +
                  2 * sums_.UnitSize();
  if (!cut_.whole_rows) piece += std::max(in.cols * in.channels, out.cols * out.channels);
  const int64_t finished = sums_.UnitSize() + sums_.rows * cut_.unit_out_c();
  return (piece * lanes_ * num_threads_ + finished) * int64_t{sizeof(Compute)} +
         folds_.ScratchBytes();
}

bool CanBlockLanes(const Problem& problem, const KernelTable&) {
  const ConvGeometry& g = problem.geometry;
  if (InfoOf(problem.op).direction != Direction::kBackpropFilter || TermsInPairs(problem) ||
      !CanListPixelBlocks(g)) {
    return false;
  }
  if (std::min({g.batch, g.in_c, g.out_c, g.out_h, g.out_w, g.kernel_h, g.kernel_w}) == 0) {
    return false;  // nothing to plan
  }
  const BlockLanesCut cut(problem);
  // Parts of rows are put between zeros in one go, whole pixels at a time.
  const bool one_gather = problem.data_format == DataFormat::kNCHW ||
                          (cut.input.whole_pixels && cut.output.whole_pixels);
  return cut.Fits() && (cut.whole_rows || one_gather);
}

}  // namespace

const Algorithm kFilterBlockLanes = {
    .name = "block-lanes",
    .summary = "filter gradient of few channels, lanes along blocks of pixels",
    .can = CanBlockLanes,
    .plan = PlanStored<BlockLanesPlan>,
    .may_refuse_data = true,
};

}  // namespace convgrad
