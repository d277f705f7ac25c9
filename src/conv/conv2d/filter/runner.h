// Runs a filter gradient's plan on the micro-kernel: its terms are output pixels, its rows and
// columns what the operands' class says.
#pragma once

#include <algorithm>
#include <atomic>
#include <deque>
#include <type_traits>
#include <vector>

#include "base/memory.h"
#include "conv/conv2d/filter/cut.h"
#include "conv/conv2d/filter/finish_result.h"
#include "conv/conv2d/filter/places.h"
#include "conv/conv2d/filter/stage.h"
#include "conv/move/stream_result.h"

namespace convgrad {

// `Operands` says where rows and columns lie: FilterGradientOperands or InputLanesOperands.
template <class Stored, class Operands>
class FilterGradientRunner {
 public:
  using Compute = ComputeType<Stored>;
  using Element = typename Operands::Element;
  using Pass = FilterCut::Pass;
  using Stage = FilterGradientStage<Stored, Operands>;

  // `front`: the lists of the cut's first pass and stage, null where stages are not listed.
  FilterGradientRunner(const ConvArgs& args, const FilterCut& cut, const StageLists* front);
  void Run();

 private:
  // The micro-kernel gives the result its final type.
  static constexpr bool kNarrows = std::is_same_v<Element, BFloat16Pair>;
  // The tiles of a panel: of row blocks with all their rows, and of the rest, if there is one.
  struct PanelTiles {
    int64_t num_cols;
    GemmTile<Element> whole, rest;
  };
  // Everything of a tile's place but its sums.
  struct Place {
    int64_t panel, row_block;  // panel of the pass
    int64_t group_in_pass;
    const PanelTiles* tiles;
    int64_t first;  // where the tile's first number is in the result
  };

  PanelTiles TilesOfPanel(int64_t num_cols) const;
  Place PlaceOf(const Pass& pass, const FilterCut::TilePlace& at) const;
  bool IsWhole(const Place& place) const { return place.row_block < whole_row_blocks_; }
  const GemmTile<Element>& TileOf(const Place& place) const {
    return IsWhole(place) ? place.tiles->whole : place.tiles->rest;
  }
  // The same place `blocks` row blocks further.
  void MoveRows(Place& place, int64_t blocks) const {
    place.row_block += blocks;
    place.first += blocks * cut_.sizes.tile_rows * RowPitch();
  }
  // Row blocks from this one on that one call of the micro-kernel may take: those of its size.
  int64_t BlocksAlike(const Place& place) const;
  // From one row of the result's matrix to the next.
  int64_t RowPitch() const { return cut_.inputs_in_lanes ? num_cols_ : held_.size(); }
  // True if the micro-kernel writes the result around the caches: then it is whole lines.
  bool StreamsResult() const {
    const ConvGeometry& g = cut_.geometry;
    const auto bytes = [](int64_t numbers) {
      return numbers * static_cast<int64_t>(sizeof(Element));
    };
    return cut_.sizes.stores_compute_type && !cut_.inputs_in_lanes &&
           bytes(g.group_out_c) % kLineBytes == 0 && cut_.PanelBytes() % kLineBytes == 0 &&
           PaysToStream(result_, bytes(cut_.ResultRows() * g.out_c), bytes(g.out_c));
  }
  // Sets where the result of so many row blocks goes.
  void SetResult(const Place& place, int64_t row_blocks, GemmTileArgs<Element>& args) const;
  // Stage after stage, which all threads pack and compute together.
  void RunStages(const Pass& pass);
  void RunStage(const Pass& pass);
  // Portion after portion, each by a thread that packs what it needs for itself.
  void DealPortions(const Pass& pass);
  void RunShare(const Pass& pass, const FilterCut::Share& share);
  struct Part {
    int64_t index, count;
  };
  void RunTask(const Pass& pass, const Stage& stage, int64_t first_run, int64_t last_run,
               const Part& part);
  // Tiles [begin, end) of one portion, as far as the stage has its blocks.
  void RunTiles(const Pass& pass, const Stage& stage, int64_t portion, int64_t begin, int64_t end);
  void RunGroup(const Pass& pass, const Stage& stage, int64_t portion, int64_t begin, int64_t end);
  void RunRowBlocks(const Stage& stage, const Place& place, int64_t row_blocks,
                    GemmTileArgs<Element>& args) const;
  // Adds the sums of blocks to those of their run, the runs' to the totals, which after the last
  // portion become the result.
  void FoldPortions(const Pass& pass, int64_t begin, int64_t end);
  void FinishTotal(const Place& place, double* total) const;

  double* SumsOf(int64_t portion, int64_t tile) {
    const int64_t at = cut_.one_call ? Parallel::ThreadIndex()
                                     : portion % cut_.portions_at_once * tiles_held_ + tile;
    return sums_.data() + at * cut_.sizes.tile_sums;
  }
  double* TotalOf(int64_t tile) { return totals_.data() + tile * cut_.sizes.tile_sums; }

  const ConvArgs& args_;
  const FilterCut& cut_;
  const IndirectGemmKernels<Element>& kernels_;
  const Parallel alone_{1};
  const ConvArgs args_alone_;
  std::deque<Stage> stages_;  // one, or where portions are dealt one of each thread
  const int64_t tiles_held_, num_cols_, whole_row_blocks_;
  const PanelTiles tiles_, last_tiles_;  // of all panels of a group, and of its last one
  AlignedArray<double> sums_, totals_;
  // A pass's columns of the result before they are rounded to 16 bits, or all of it before it is
  // turned (finish_result.h).
  AlignedArray<Compute> unfinished_;
  Compute* result_ = nullptr;
  Range held_;  // that are in result_, unless it is turned
  bool streams_ = false;
  std::vector<int64_t> result_rows_;  // the places of the matrix' rows in the result
  std::vector<PixelList> lists_;      // of each thread
};

template <class Stored, class Operands>
FilterGradientRunner<Stored, Operands>::FilterGradientRunner(const ConvArgs& args,
                                                             const FilterCut& cut,
                                                             const StageLists* front)
    : args_(args),
      cut_(cut),
      kernels_(args.kernels.Gemm<Element>()),
      args_alone_{args.problem, args.input,   args.filter, args.out_backprop,
                  args.result,  args.kernels, alone_},
      tiles_held_(cut.TilesOf(cut.passes.front())),
      num_cols_(FilterCut::NumCols(cut.geometry, cut.form)),
      whole_row_blocks_(cut.NumRows() / cut.sizes.tile_rows),
      tiles_(TilesOfPanel(cut.sizes.panels.ColsOf(0, num_cols_))),
      last_tiles_(TilesOfPanel(cut.sizes.panels.ColsOf(cut.sizes.panels.count - 1, num_cols_))),
      sums_((cut.one_call ? args.parallel.num_threads() : tiles_held_ * cut.portions_at_once) *
            cut.sizes.tile_sums),
      totals_(cut.NumRuns() > 1 ? tiles_held_ * cut.sizes.tile_sums : 0),
      held_{0, cut.geometry.out_c},
      result_rows_(static_cast<size_t>(cut.RowsHeld())),
      lists_(static_cast<size_t>(args.parallel.num_threads())) {
  for (int i = 0; i < (cut.deals_portions ? args.parallel.num_threads() : 1); ++i) {
    stages_.emplace_back(cut.deals_portions ? args_alone_ : args_, cut, front);
  }
  if constexpr (std::is_same_v<Stored, Compute>) {
    if (!cut.inputs_in_lanes) result_ = static_cast<Compute*>(args.result);
  }
  if (result_ == nullptr && !kNarrows) {
    unfinished_ = AlignedArray<Compute>(cut.UnfinishedElements());
    result_ = unfinished_.data();
  }
  streams_ = StreamsResult();
}

template <class Stored, class Operands>
void FilterGradientRunner<Stored, Operands>::Run() {
  for (const Pass& pass : cut_.passes) {
    if (cut_.RoundsResult()) held_ = cut_.ResultColumns(pass);
    for (size_t i = 0; i < result_rows_.size(); ++i) {
      result_rows_[i] = static_cast<int64_t>(i) * RowPitch();
    }
    std::fill_n(totals_.data(), totals_.size(), 0.0);
    if (cut_.deals_portions) {
      DealPortions(pass);
    } else {
      RunStages(pass);
    }
    if (cut_.RoundsResult()) RoundColumns<Stored>(args_, cut_, held_, result_);
  }
  if (cut_.inputs_in_lanes) TurnResult<Stored>(args_, cut_, num_cols_, result_);
}

template <class Stored, class Operands>
auto FilterGradientRunner<Stored, Operands>::TilesOfPanel(int64_t num_cols) const -> PanelTiles {
  const auto tiles = TilesOfWidth(kernels_, num_cols);
  const int64_t tile_rows = cut_.sizes.tile_rows, rest = cut_.NumRows() % tile_rows;
  return {num_cols, SmallestTile(tiles, tile_rows), SmallestTile(tiles, rest)};
}

template <class Stored, class Operands>
auto FilterGradientRunner<Stored, Operands>::PlaceOf(const Pass& pass,
                                                     const FilterCut::TilePlace& at) const
    -> Place {
  const ConvGeometry& g = cut_.geometry;
  const int64_t panels = pass.panel_end - pass.panel_begin;
  const int64_t panel = pass.panel_begin + at.panel % panels;  // of the group
  const int64_t group_in_pass = at.panel / panels;
  const int64_t group = pass.group_begin + group_in_pass;
  const int64_t matrix =
      cut_.inputs_in_lanes
          ? (group * cut_.tile_taps + at.tap) * g.group_out_c * num_cols_
          : at.tap * g.group_in_c * RowPitch() + group * g.group_out_c - held_.begin;
  const int64_t first =
      matrix + at.row_block * cut_.sizes.tile_rows * RowPitch() + panel * cut_.sizes.panels.cols;
  const bool last = panel + 1 == cut_.sizes.panels.count;
  return {at.panel, at.row_block, group_in_pass, last ? &last_tiles_ : &tiles_, first};
}

template <class Stored, class Operands>
int64_t FilterGradientRunner<Stored, Operands>::BlocksAlike(const Place& place) const {
  const auto& [cols, whole, rest] = *place.tiles;
  if (!IsWhole(place) || whole.rows != cut_.sizes.tile_rows) return 1;
  const bool all = cut_.row_blocks == whole_row_blocks_ || rest.rows == whole.rows;
  return (all ? cut_.row_blocks : whole_row_blocks_) - place.row_block;
}

template <class Stored, class Operands>
void FilterGradientRunner<Stored, Operands>::SetResult(const Place& place, int64_t row_blocks,
                                                       GemmTileArgs<Element>& args) const {
  const int64_t tile_rows = cut_.sizes.tile_rows;
  const int64_t last = cut_.NumRows() - (place.row_block + row_blocks - 1) * tile_rows;
  if constexpr (kNarrows) {
    args.narrowed = static_cast<Stored*>(args_.result) + place.first;
  } else {
    args.c = result_ + place.first;
  }
  args.c_rows = result_rows_.data();
  args.num_rows = std::min(tile_rows, last);
  args.num_cols = place.tiles->num_cols;
  args.odd = !cut_.sizes.stores_compute_type;
  args.stream = streams_;
}

template <class Stored, class Operands>
void FilterGradientRunner<Stored, Operands>::RunStages(const Pass& pass) {
  for (const PixelStage& stage : cut_.stages) {
    stages_.front().Load(pass, stage);
    RunStage(pass);
  }
}

template <class Stored, class Operands>
void FilterGradientRunner<Stored, Operands>::RunStage(const Pass& pass) {
  const Stage& stage = stages_.front();
  const int64_t block_begin = stage.pixels().block_begin, block_end = stage.pixels().block_end;
  const int64_t tiles = cut_.TilesOf(pass);
  const int64_t run_end = CeilDiv(block_end, kRunBlocks);
  for (int64_t run = block_begin / kRunBlocks; run < run_end; run += cut_.portions_at_once) {
    const int64_t last_run = std::min(run + cut_.portions_at_once, run_end);
    const int64_t tasks = cut_.TasksOf((last_run - run) * tiles);
    args_.parallel.For(tasks, [&](int64_t i) { RunTask(pass, stage, run, last_run, {i, tasks}); });
    if (cut_.NumRuns() == 1) continue;
    // The last run of the stage may go on in the next one.
    const int64_t complete = block_end == cut_.NumBlocks() ? run_end : block_end / kRunBlocks;
    FoldPortions(pass, run, std::min(last_run, complete));
  }
}

template <class Stored, class Operands>
void FilterGradientRunner<Stored, Operands>::DealPortions(const Pass& pass) {
  for (int64_t first = 0; first < cut_.NumPortions(); first += cut_.portions_at_once) {
    const int64_t last = std::min(first + cut_.portions_at_once, cut_.NumPortions());
    const auto shares = cut_.Shares(pass, first, last);
    args_.parallel.For(static_cast<int64_t>(shares.size()),
                       [&](int64_t i) { RunShare(pass, shares[static_cast<size_t>(i)]); });
    FoldPortions(pass, first, last);
  }
}

template <class Stored, class Operands>
void FilterGradientRunner<Stored, Operands>::RunShare(const Pass& pass,
                                                      const FilterCut::Share& share) {
  Stage& stage = stages_[static_cast<size_t>(Parallel::ThreadIndex())];
  for (const PixelStage& pixels : cut_.StagesOfPortion(share.portion)) {
    stage.Load(pass, pixels);
    RunTiles(pass, stage, share.portion, share.tile_begin, share.tile_end);
  }
}

// One of several parts, alike in tiles x blocks, of all tiles' runs [first_run, last_run).
template <class Stored, class Operands>
void FilterGradientRunner<Stored, Operands>::RunTask(const Pass& pass, const Stage& stage,
                                                     int64_t first_run, int64_t last_run,
                                                     const Part& part) {
  const int64_t tiles = cut_.TilesOf(pass);
  const int64_t first_block = stage.pixels().BlocksOf(first_run, kRunBlocks).begin;
  const int64_t work =
      tiles * (stage.pixels().BlocksOf(last_run - 1, kRunBlocks).end - first_block);
  for (int64_t run = first_run; run < last_run; ++run) {
    const auto blocks = stage.pixels().BlocksOf(run, kRunBlocks);
    const auto tile_at = [&](int64_t index) {
      const int64_t into = work * index / part.count - tiles * (blocks.begin - first_block);
      return std::min(tiles, CeilDiv(std::max<int64_t>(0, into), blocks.end - blocks.begin));
    };
    RunTiles(pass, stage, run, tile_at(part.index), tile_at(part.index + 1));
  }
  if (streams_) std::atomic_thread_fence(std::memory_order_seq_cst);
}

template <class Stored, class Operands>
void FilterGradientRunner<Stored, Operands>::RunTiles(const Pass& pass, const Stage& stage,
                                                      int64_t portion, int64_t begin, int64_t end) {
  for (int64_t tile = begin; tile < end;) {
    // Groups of row blocks are there to be read again by the next tap.
    const int64_t next = cut_.tile_taps == 1 ? end : std::min(cut_.PlaceOf(tile).next_group, end);
    RunGroup(pass, stage, portion, tile, next);
    tile = next;
  }
}

// Tiles [begin, end) of one group of row blocks, or of one tap, for one portion.
template <class Stored, class Operands>
void FilterGradientRunner<Stored, Operands>::RunGroup(const Pass& pass, const Stage& stage,
                                                      int64_t portion, int64_t begin, int64_t end) {
  const auto [first_block, last_block] = stage.pixels().BlocksOf(portion, cut_.portion_blocks);
  const FilterGradientAhead& ahead = stage.ahead();
  for (int64_t block = first_block; block < last_block; block += cut_.chunk_blocks) {
    const int64_t block_end = std::min(last_block, block + cut_.chunk_blocks);
    GemmTileArgs<Element> args{};
    args.resume = block > portion * cut_.portion_blocks;
    args.ahead_step = args.ahead_bytes = ahead.step();
    args.keep = cut_.NumPortions() > 1 || block_end < cut_.NumBlocks();
    args.sums_step = args.resume || args.keep ? cut_.sizes.tile_sums : 0;
    int64_t listed_tap = -1;
    for (int64_t tile = begin; tile < end;) {
      const FilterCut::TilePlace at = cut_.PlaceOf(tile);
      if (at.tap != listed_tap) {
        PixelList& own = lists_[static_cast<size_t>(Parallel::ThreadIndex())];
        stage.ListOf(block, block_end, at.tap, own).Give(args);
        listed_tap = at.tap;
      }
      Place place = PlaceOf(pass, at);
      for (const int64_t next = std::min(at.next_tap, end); tile < next;) {
        const int64_t row_blocks = std::min(next - tile, BlocksAlike(place));
        args.sums = SumsOf(portion, tile);
        args.ahead = ahead.At(block, block_end, tile);
        RunRowBlocks(stage, place, row_blocks, args);
        MoveRows(place, row_blocks);
        tile += row_blocks;
      }
    }
  }
}

template <class Stored, class Operands>
void FilterGradientRunner<Stored, Operands>::RunRowBlocks(const Stage& stage, const Place& place,
                                                          int64_t row_blocks,
                                                          GemmTileArgs<Element>& args) const {
  const StagePlaces& places = stage.places();
  args.num_tiles = row_blocks;
  args.a = stage.operands().rows() + places.Rows(place.group_in_pass);
  args.a_rows = stage.RowOffsets(place.row_block);
  args.a_step = places.row_step();
  args.b = stage.operands().columns() + places.Columns(place.panel);
  args.b_step = places.column_step();
  args.masked = cut_.sizes.masks_columns &&
                (cut_.inputs_in_lanes ? cut_.UsesInputInPlace() : cut_.UsesOutputInPlace());
  args.in_pairs = cut_.in_pairs;
  SetResult(place, row_blocks, args);
  TileOf(place).run(args);
}

template <class Stored, class Operands>
void FilterGradientRunner<Stored, Operands>::FoldPortions(const Pass& pass, int64_t begin,
                                                          int64_t end) {
  if (begin >= end) return;
  args_.parallel.For(cut_.TilesOf(pass), [&](int64_t i) {
    const Place place = PlaceOf(pass, cut_.PlaceOf(i));
    const int64_t count = int64_t{TileOf(place).rows} * TileOf(place).cols;
    double* total = cut_.NumRuns() > 1 ? TotalOf(i) : SumsOf(0, i);
    AddPortions(
        {begin, end}, cut_.portion_blocks, total,
        [&](int64_t portion) { return SumsOf(portion, i); },
        [&](const double* from, double* to) { kernels_.add_run(from, to, count); });
    if (end == cut_.NumPortions()) FinishTotal(place, total);
  });
}

template <class Stored, class Operands>
void FilterGradientRunner<Stored, Operands>::FinishTotal(const Place& place, double* total) const {
  GemmTileArgs<Element> args{};
  SetResult(place, 1, args);
  args.sums = total;
  kernels_.finish(args, TileOf(place).rows, TileOf(place).cols);
  if (streams_) std::atomic_thread_fence(std::memory_order_seq_cst);
}

}  // namespace convgrad
