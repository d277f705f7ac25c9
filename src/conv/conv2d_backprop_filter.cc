// The micro-kernel's terms are output pixels: rows of its tiles come from the input, columns from
// out_backprop.
#include "conv/conv2d_backprop_filter.h"

#include <algorithm>
#include <cmath>
#include <type_traits>
#include <vector>

#include "base/memory.h"
#include "conv/filter_gradient_operands.h"
#include "conv/filter_gradient_plan.h"

namespace convgrad {
namespace {

using Plan = FilterGradientPlan;
using Pass = FilterGradientPlan::Pass;

template <class Stored>
Plan MakePlan(const Problem& problem, const KernelTable& table, int num_threads, bool joined) {
  using Compute = ComputeType<Stored>;
  const auto& kernels = table.Gemm<Compute>();
  const Panels panels = CutPanels(kernels, problem.geometry.group_out_c);
  const GemmTile<Compute>& tile = TilesOfWidth(kernels, panels.cols).front();
  return Plan(
      problem,
      {tile.rows, SumsOfTile(tile), panels, sizeof(Compute), std::is_same_v<Stored, Compute>},
      num_threads, joined);
}

// The terms of some blocks for one tap: runs of pixels along output rows.
class PixelList {
 public:
  template <class Operands>
  void Build(const Plan& plan, const Operands& operands, int64_t first_block, int64_t last_block,
             int64_t tap) {
    segments_.clear();
    block_ends_.clear();
    for (int64_t i = first_block; i < last_block; ++i) {
      AppendBlock(plan, operands, plan.blocks[static_cast<size_t>(i)], tap);
      block_ends_.push_back(static_cast<int64_t>(segments_.size()));
    }
  }

  template <class Compute>
  void Give(GemmTileArgs<Compute>& tile) const {
    tile.segments = segments_.data();
    tile.block_ends = block_ends_.data();
    tile.num_blocks = static_cast<int64_t>(block_ends_.size());
  }

 private:
  // The output positions of [begin, end) whose tap is on the grid.
  static Slab ColsOnGrid(const AxisGrid& grid, int64_t tap, int64_t begin, int64_t end) {
    const int64_t at = grid.offset + tap * grid.dilation;  // index for position 0
    const int64_t first = at >= 0 ? 0 : CeilDiv(-at, grid.stride);
    const int64_t last = at >= grid.count ? 0 : CeilDiv(grid.count - at, grid.stride);
    return {0, 0, std::max(begin, first), std::min(end, last)};
  }

  template <class Operands>
  void AppendBlock(const Plan& plan, const Operands& operands, const PixelBlock& block,
                   int64_t tap) {
    const int64_t r = tap / plan.geometry.kernel_w, t = tap % plan.geometry.kernel_w;
    const Slab cols = ColsOnGrid(plan.cols, t, block.col_begin, block.col_end);
    if (cols.row_begin >= cols.row_end) return;
    const size_t block_begin = segments_.size();
    const TermSteps steps{operands.input_step(), plan.OutputStep(), plan.in_pairs};
    // Without its partner before it the first column stands alone.
    const int64_t alone = plan.in_pairs ? (cols.row_begin - block.col_begin) % 2 : 0;
    for (int64_t n = block.image_begin; n < block.image_end; ++n) {
      for (int64_t i = block.row_begin; i < block.row_end; ++i) {
        const int64_t row = plan.rows.IndexOf(i, r);
        if (row < 0 || row >= plan.rows.count) continue;
        const int64_t a = operands.InputPixel(n, row, plan.cols.IndexOf(cols.row_begin, t));
        const int64_t b = operands.OutputPixel(n, i, cols.row_begin);
        if (alone > 0) segments_.push_back({a, b, 1});
        const int64_t length = cols.row_end - cols.row_begin - alone;
        if (length == 0) continue;
        AppendTerms({a + alone * steps.a, b + alone * steps.b, length}, steps, block_begin,
                    segments_);
      }
    }
  }

  std::vector<GemmSegment> segments_;
  std::vector<int64_t> block_ends_;
};

template <class Stored>
class Runner {
 public:
  using Compute = ComputeType<Stored>;

  Runner(const ConvArgs& args, const Plan& plan);
  void Run();

 private:
  // Everything of a tile's place but its sums.
  struct Place {
    int64_t panel, row_block;  // panel of the pass
    int64_t group_in_pass;
    GemmTile<Compute> tile;
    int64_t num_rows, num_cols;
    int64_t first_row;  // of the result's matrix: (tap * group_in_c + channel)
    int64_t first_col;
  };

  Place PlaceOf(const Pass& pass, int64_t tile_index) const;
  void SetResult(const Place& place, GemmTileArgs<Compute>& args, int64_t* c_rows) const;
  void RunStage(const Pass& pass, const PixelStage& stage);
  struct BlockRange {
    int64_t begin, end;
  };
  // Those of a run that are in a stage.
  static BlockRange BlocksOf(const PixelStage& stage, int64_t run) {
    return {std::max(run * kRunBlocks, stage.block_begin),
            std::min((run + 1) * kRunBlocks, stage.block_end)};
  }
  struct Part {
    int64_t index, count;
  };
  void RunTask(const Pass& pass, const PixelStage& stage, int64_t first_run, int64_t last_run,
               const Part& part);
  void RunTiles(const Pass& pass, const PixelStage& stage, int64_t run, int64_t begin, int64_t end);
  void RunTile(const Place& place, GemmTileArgs<Compute>& args) const;
  void FoldRuns(const Pass& pass, int64_t run_begin, int64_t run_end);
  void FinishTotals(const Pass& pass);

  double* SumsOf(int64_t run, int64_t tile) {
    const int64_t at =
        plan_.one_call ? Parallel::ThreadIndex() : run % plan_.runs_at_once * tiles_held_ + tile;
    return sums_.data() + at * plan_.sizes.tile_sums;
  }
  double* TotalOf(int64_t tile) { return totals_.data() + tile * plan_.sizes.tile_sums; }

  const ConvArgs& args_;
  const Plan& plan_;
  const IndirectGemmKernels<Compute>& kernels_;
  FilterGradientOperands<Stored> operands_;
  const int64_t tiles_held_;
  AlignedArray<double> sums_, totals_;
  AlignedArray<Compute> unrounded_;  // the result before it becomes 16 bits
  Compute* result_;
  std::vector<PixelList> lists_;  // of each thread
};

template <class Stored>
Runner<Stored>::Runner(const ConvArgs& args, const Plan& plan)
    : args_(args),
      plan_(plan),
      kernels_(args.kernels.Gemm<Compute>()),
      operands_(args, plan),
      tiles_held_(plan.TilesOf(plan.passes.front())),
      sums_((plan.one_call ? args.parallel.num_threads() : tiles_held_ * plan.runs_at_once) *
            plan.sizes.tile_sums),
      totals_(plan.NumRuns() > 1 ? tiles_held_ * plan.sizes.tile_sums : 0),
      lists_(static_cast<size_t>(args.parallel.num_threads())) {
  if constexpr (std::is_same_v<Stored, Compute>) {
    result_ = static_cast<Compute*>(args.result);
  } else {
    unrounded_ = AlignedArray<Compute>(plan.ResultElements());
    result_ = unrounded_.data();
  }
}

template <class Stored>
void Runner<Stored>::Run() {
  for (const Pass& pass : plan_.passes) {
    std::fill_n(totals_.data(), totals_.size(), 0.0);
    for (const PixelStage& stage : plan_.stages) {
      operands_.Pack(pass, stage);
      RunStage(pass, stage);
    }
    if (plan_.NumRuns() > 1) FinishTotals(pass);
  }
  if constexpr (!std::is_same_v<Stored, Compute>) {
    args_.kernels.Pack<Stored>().narrow(result_, static_cast<Stored*>(args_.result),
                                        unrounded_.size());
  }
}

template <class Stored>
auto Runner<Stored>::PlaceOf(const Pass& pass, int64_t tile_index) const -> Place {
  const ConvGeometry& g = plan_.geometry;
  Place place;
  const Plan::TilePlace at = plan_.PlaceOf(tile_index);
  place.row_block = at.row_block;
  place.panel = at.panel;
  const int64_t panels = pass.panel_end - pass.panel_begin;
  const int64_t panel = pass.panel_begin + place.panel % panels;  // of the group
  place.group_in_pass = place.panel / panels;
  const int64_t row = place.row_block * plan_.sizes.tile_rows;
  place.num_rows = std::min(plan_.sizes.tile_rows, plan_.NumRows() - row);
  place.num_cols = plan_.sizes.panels.ColsOf(panel, g.group_out_c);
  place.first_row = at.tap * g.group_in_c + row;
  place.first_col =
      (pass.group_begin + place.group_in_pass) * g.group_out_c + panel * plan_.sizes.panels.cols;
  place.tile = SmallestTile(TilesOfWidth(kernels_, place.num_cols), place.num_rows);
  return place;
}

template <class Stored>
void Runner<Stored>::SetResult(const Place& place, GemmTileArgs<Compute>& args,
                               int64_t* c_rows) const {
  for (int64_t i = 0; i < place.num_rows; ++i) {
    c_rows[i] = (place.first_row + i) * plan_.geometry.out_c + place.first_col;
  }
  args.c = result_;
  args.c_rows = c_rows;
  args.num_rows = place.num_rows;
  args.num_cols = place.num_cols;
  args.odd = !plan_.sizes.stores_compute_type;
}

template <class Stored>
void Runner<Stored>::RunStage(const Pass& pass, const PixelStage& stage) {
  const int64_t tiles = plan_.TilesOf(pass);
  const int64_t run_end = CeilDiv(stage.block_end, kRunBlocks);
  for (int64_t run = stage.block_begin / kRunBlocks; run < run_end; run += plan_.runs_at_once) {
    const int64_t last_run = std::min(run + plan_.runs_at_once, run_end);
    const int64_t tasks = plan_.TasksOf((last_run - run) * tiles);
    args_.parallel.For(tasks, [&](int64_t i) { RunTask(pass, stage, run, last_run, {i, tasks}); });
    if (plan_.NumRuns() == 1) continue;
    // The last run of the stage may go on in the next one.
    const int64_t num_blocks = static_cast<int64_t>(plan_.blocks.size());
    const int64_t complete = stage.block_end == num_blocks ? run_end : stage.block_end / kRunBlocks;
    FoldRuns(pass, run, std::min(last_run, complete));
  }
}

// One of several parts, alike in tiles x blocks, of all tiles' runs [first_run, last_run).
template <class Stored>
void Runner<Stored>::RunTask(const Pass& pass, const PixelStage& stage, int64_t first_run,
                             int64_t last_run, const Part& part) {
  const int64_t tiles = plan_.TilesOf(pass);
  const int64_t first_block = BlocksOf(stage, first_run).begin;
  const int64_t work = tiles * (BlocksOf(stage, last_run - 1).end - first_block);
  for (int64_t run = first_run; run < last_run; ++run) {
    const BlockRange blocks = BlocksOf(stage, run);
    const auto tile_at = [&](int64_t index) {
      const int64_t into = work * index / part.count - tiles * (blocks.begin - first_block);
      return std::min(tiles, CeilDiv(std::max<int64_t>(0, into), blocks.end - blocks.begin));
    };
    const int64_t end = tile_at(part.index + 1);
    for (int64_t tile = tile_at(part.index); tile < end;) {
      const int64_t next = std::min(plan_.PlaceOf(tile).next_group, end);
      RunTiles(pass, stage, run, tile, next);
      tile = next;
    }
  }
}

// Tiles [begin, end) of one group of row blocks, for one run.
template <class Stored>
void Runner<Stored>::RunTiles(const Pass& pass, const PixelStage& stage, int64_t run, int64_t begin,
                              int64_t end) {
  PixelList& list = lists_[static_cast<size_t>(Parallel::ThreadIndex())];
  const int64_t num_blocks = static_cast<int64_t>(plan_.blocks.size());
  const auto [first_block, last_block] = BlocksOf(stage, run);
  for (int64_t block = first_block; block < last_block; block += plan_.chunk_blocks) {
    const int64_t block_end = std::min(last_block, block + plan_.chunk_blocks);
    GemmTileArgs<Compute> args{};
    args.resume = block > run * kRunBlocks;
    args.ahead_step = operands_.ahead_step();
    args.keep = plan_.NumRuns() > 1 || block_end < num_blocks;
    for (int64_t tile = begin; tile < end;) {
      const Plan::TilePlace place = plan_.PlaceOf(tile);
      list.Build(plan_, operands_, block, block_end, place.tap);
      list.Give(args);
      for (const int64_t next = std::min(place.next_tap, end); tile < next; ++tile) {
        args.sums = SumsOf(run, tile);
        args.ahead = operands_.Ahead(block, block_end, tile);
        RunTile(PlaceOf(pass, tile), args);
      }
    }
  }
}

template <class Stored>
void Runner<Stored>::RunTile(const Place& place, GemmTileArgs<Compute>& args) const {
  int64_t a_rows[kMaxTileRows], c_rows[kMaxTileRows];
  for (int64_t i = 0; i < place.tile.rows; ++i) {
    a_rows[i] = operands_.RowOffset(place.row_block * plan_.sizes.tile_rows +
                                    std::min(i, place.num_rows - 1));
  }
  args.a = operands_.Input(place.group_in_pass);
  args.a_rows = a_rows;
  args.a_step = operands_.input_step();
  args.b = operands_.Output(place.panel);
  args.b_step = plan_.OutputStep();
  args.in_pairs = plan_.in_pairs;
  SetResult(place, args, c_rows);
  place.tile.run(args);
}

template <class Stored>
void Runner<Stored>::FoldRuns(const Pass& pass, int64_t run_begin, int64_t run_end) {
  args_.parallel.For(plan_.TilesOf(pass), [&](int64_t i) {
    const Place place = PlaceOf(pass, i);
    for (int64_t run = run_begin; run < run_end; ++run) {
      kernels_.add_run(SumsOf(run, i), TotalOf(i), int64_t{place.tile.rows} * place.tile.cols);
    }
  });
}

template <class Stored>
void Runner<Stored>::FinishTotals(const Pass& pass) {
  args_.parallel.For(plan_.TilesOf(pass), [&](int64_t i) {
    const Place place = PlaceOf(pass, i);
    int64_t c_rows[kMaxTileRows];
    GemmTileArgs<Compute> args{};
    SetResult(place, args, c_rows);
    args.sums = TotalOf(i);
    kernels_.finish(args, place.tile.rows, place.tile.cols);
  });
}

template <class Stored>
void RunPlan(const ConvArgs& args, bool joined) {
  const Plan plan =
      MakePlan<Stored>(args.problem, args.kernels, args.parallel.num_threads(), joined);
  Runner<Stored>(args, plan).Run();
}

bool HasPadding(const Problem& problem) {
  const ConvGeometry& g = problem.geometry;
  return g.pad_top > 0 || g.pad_bottom > 0 || g.pad_left > 0 || g.pad_right > 0;
}

template <class Stored>
bool HasNaN(const void* result, int64_t count) {
  const auto* values = static_cast<const Stored*>(result);
  return std::any_of(values, values + count, [](Stored value) { return std::isnan(Widen(value)); });
}

bool IsFilterGradient(const Problem& problem) {
  return InfoOf(problem.op).direction == Direction::kBackpropFilter;
}

// Joining pays when one tap's channels can't fill a tile, unless much of the work would be padding.
bool AcceptsJoined(const Problem& problem) {
  constexpr int64_t kFewChannels = 24;
  const ConvGeometry& g = problem.geometry;
  if (!IsFilterGradient(problem) || g.group_in_c > kFewChannels) return false;
  if (g.kernel_h * g.kernel_w == 1) return false;
  const double all_terms = static_cast<double>(g.batch * g.out_h * g.out_w) *
                           static_cast<double>(g.kernel_h * g.kernel_w * g.group_in_c * g.out_c);
  return static_cast<double>(problem.ValidTerms()) * 1.3 >= all_terms;
}

void RunApart(const ConvArgs& args) {
  VisitFloat(args.problem.dtype,
             [&](auto tag) { RunPlan<typename decltype(tag)::Type>(args, /*joined=*/false); });
}

// A zero of the padding times an infinity or a NaN of out_backprop is a NaN that does not belong in
// the sum; whenever there is a NaN, the form without padding decides.
void RunJoined(const ConvArgs& args) {
  VisitFloat(args.problem.dtype, [&](auto tag) {
    using Stored = typename decltype(tag)::Type;
    RunPlan<Stored>(args, /*joined=*/true);
    const int64_t count = *CheckedProduct(args.problem.ResultShape());
    if (HasPadding(args.problem) && HasNaN<Stored>(args.result, count)) {
      RunPlan<Stored>(args, /*joined=*/false);
    }
  });
}

int64_t ScratchBytesOf(const Problem& problem, const KernelTable& kernels, int num_threads,
                       bool joined) {
  return VisitFloat(problem.dtype, [&](auto tag) {
    return MakePlan<typename decltype(tag)::Type>(problem, kernels, num_threads, joined)
        .ScratchBytes();
  });
}

std::string TilesOfPlan(const Problem& problem, const KernelTable& kernels, bool joined) {
  return VisitFloat(problem.dtype, [&](auto tag) {
    return MakePlan<typename decltype(tag)::Type>(problem, kernels, 1, joined).Tiles();
  });
}

}  // namespace

const Algorithm kConv2DFilterTapsApart = {
    .name = "taps-apart",
    .summary = "tiles of input by output channels of each tap, padding skipped",
    .accepts = IsFilterGradient,
    .scratch_bytes =
        [](const Problem& problem, const KernelTable& kernels, int num_threads) {
          return ScratchBytesOf(problem, kernels, num_threads, false);
        },
    .tiles = [](const Problem& problem,
                const KernelTable& kernels) { return TilesOfPlan(problem, kernels, false); },
    .run = RunApart,
};

const Algorithm kConv2DFilterTapsJoined = {
    .name = "taps-joined",
    .summary = "tiles across taps, for few input channels",
    .accepts = AcceptsJoined,
    .scratch_bytes =
        [](const Problem& problem, const KernelTable& kernels, int num_threads) {
          return std::max(ScratchBytesOf(problem, kernels, num_threads, true),
                          ScratchBytesOf(problem, kernels, num_threads, false));
        },
    .tiles = [](const Problem& problem,
                const KernelTable& kernels) { return TilesOfPlan(problem, kernels, true); },
    .run = RunJoined,
};

}  // namespace convgrad
