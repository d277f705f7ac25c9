// How a filter gradient by tiles is cut: rows and columns of tiles, passes, stages, runs. Follows
// from problem, kernels and threads; touches no data.
#pragma once

#include <algorithm>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "base/memory.h"
#include "conv/axes/pixel_sum.h"
#include "conv/gemm/tile_counts.h"
#include "conv/move/grid_columns.h"
#include "conv/move/stream_result.h"
#include "conv/plan/work.h"
#include "kernels/kernel_table.h"
#include "problem/geometry.h"

namespace convgrad {

// The rows and columns of tiles.
enum class FilterForm {
  kApart,        // input channels of one tap, by output channels; padding is skipped
  kJoined,       // the same of all taps together; padding is multiplied
  kInputsApart,  // output channels, by input channels of one tap; padding is skipped
  kInputsJoined  // output channels, by taps and input channels; padding is multiplied
};

// Row blocks that are computed tap by tap together.
inline constexpr int64_t kMostGroupRowBlocks = 16;

// The result of one group is a matrix for each tap, or, joined, one for all taps. Its rows are cut
// into row blocks of a tile's rows, its columns into panels. Tiles are numbered in the order in
// which they are computed: panel by panel, in a panel some row blocks at a time, of these tap by
// tap.
struct FilterCut {
  struct Sizes {  // of the kernels
    int64_t tile_rows, tile_sums;
    Panels panels;             // of one group
    int64_t lanes;             // of a vector
    int64_t element_bytes;     // of an operand's element
    bool stores_compute_type;  // not a 16-bit type
    bool pairs;                // elements are pairs of output columns and what they meet
    bool masks_columns;        // no more of a panel is read than it has
    bool vectors_are_lines;    // else shorter
    int64_t near_bytes;        // see KernelTable
  };

  FilterCut(const Problem& problem, const Sizes& sizes, int num_threads, FilterForm form);

  static bool Joins(FilterForm form) {
    return form == FilterForm::kJoined || form == FilterForm::kInputsJoined;
  }
  static bool PutsInputsInLanes(FilterForm form) {
    return form == FilterForm::kInputsApart || form == FilterForm::kInputsJoined;
  }
  // True if all taps together are few enough: every pixel's numbers may be copied for each of them.
  static bool CanJoin(const ConvGeometry& g) {
    // The padded copy that taps meet, in each direction.
    constexpr int64_t kMostReach = int64_t{1} << 20;
    const int64_t rows = (g.out_h - 1) * g.stride_h + (g.kernel_h - 1) * g.dilation_h + 1;
    const int64_t cols = (g.out_w - 1) * g.stride_w + (g.kernel_w - 1) * g.dilation_w + 1;
    if (std::max(rows, cols) > kMostReach) return false;
    constexpr int64_t kMostTogether = 4096;
    return g.kernel_h * g.kernel_w * g.group_in_c <= kMostTogether;
  }
  // Rows and columns of a group's matrix.
  static int64_t NumRows(const ConvGeometry& g, FilterForm form) {
    if (PutsInputsInLanes(form)) return g.group_out_c;
    return (Joins(form) ? g.kernel_h * g.kernel_w : 1) * g.group_in_c;
  }
  static int64_t NumCols(const ConvGeometry& g, FilterForm form) {
    if (!PutsInputsInLanes(form)) return g.group_out_c;
    return (Joins(form) ? g.kernel_h * g.kernel_w : 1) * g.group_in_c;
  }

  // Groups, or panels of the only group, whose sums are held at a time.
  struct Pass {
    int64_t group_begin, group_end;
    int64_t panel_begin, panel_end;  // of each group
    int64_t num_groups() const { return group_end - group_begin; }
    int64_t num_panels() const { return num_groups() * (panel_end - panel_begin); }
    bool IsAsLargeAs(const Pass& other) const {
      return num_groups() == other.num_groups() && num_panels() == other.num_panels();
    }
  };
  // The columns of the result that a pass makes, unless inputs are in lanes.
  Range ResultColumns(const Pass& pass) const {
    const int64_t group_out_c = geometry.group_out_c, panel_cols = sizes.panels.cols;
    return {
        pass.group_begin * group_out_c + pass.panel_begin * panel_cols,
        (pass.group_end - 1) * group_out_c + std::min(group_out_c, pass.panel_end * panel_cols)};
  }

  int64_t NumRows() const { return NumRows(geometry, form); }
  // Rows with places of their own, as many as tiles meet: the last one may have surplus ones, and
  // those of a narrow panel more than a row block.
  int64_t RowsHeld() const { return row_blocks * sizes.tile_rows + kMaxTileRows; }
  // Rows of the result, [tap][input channel], by all groups' output channels.
  int64_t ResultRows() const { return num_taps * geometry.group_in_c; }
  int64_t NumBlocks() const { return static_cast<int64_t>(blocks.size()); }
  int64_t NumRuns() const { return CeilDiv(NumBlocks(), kRunBlocks); }
  int64_t NumPortions() const { return CeilDiv(NumBlocks(), portion_blocks); }
  int64_t PanelBytes() const { return sizes.panels.cols * sizes.element_bytes; }  // of a pixel
  // Pixels of out_backprop already hold the columns of every panel side by side, or are its rows.
  bool UsesOutputInPlace() const {
    if (!sizes.stores_compute_type) return false;
    if (format == DataFormat::kNCHW) return inputs_in_lanes;
    return inputs_in_lanes
               ? !PixelsCrowd(geometry.out_c)
               : PanelsServeInPlace(geometry.group_out_c, geometry.out_c, geometry.out_c);
  }
  // Where pixels are longer than a panel every tile that meets one pays for its distance, about as
  // much as it costs to copy one number, or far more where they crowd, or where a panel's part of
  // one is no whole lines: the first cache then holds too few of them. Packed, they are neighbours.
  // The last panel is of whole vectors unless columns are masked; of vectors that are lines it must
  // be as wide as the others, for narrower ones have not been measured in place.
  bool PanelsServeInPlace(int64_t group_channels, int64_t channels, int64_t distance) const {
    const int64_t least_cols = sizes.vectors_are_lines ? sizes.panels.cols : sizes.lanes;
    const bool whole = group_channels % least_cols == 0;
    if (!whole && !sizes.masks_columns) return false;
    constexpr int64_t kFewTiles = 12;
    const bool costly = PixelsCrowd(distance) || PanelBytes() % kLineBytes != 0;
    return channels == sizes.panels.cols ||
           tile_taps * row_blocks <= (costly ? kFewTiles : PanelBytes());
  }
  // Nothing of a stage is packed, or has to be fetched before it begins. Tiles of short vectors
  // wait for what lies beyond the second-level cache, others for what lies in a far third one.
  bool ReadsOperandsFromCaches() const {
    constexpr int64_t kNearBytes = 1 << 20;
    if (!UsesInputInPlace() || !UsesOutputInPlace()) return false;
    if (!sizes.vectors_are_lines) return operand_bytes <= kNearBytes;
    return !LeaveTheCaches(operand_bytes, num_threads) &&
           operand_bytes < sizes.near_bytes * num_threads;
  }
  // From one input pixel that a tap meets to the next one that it meets in a row, if there is one.
  int64_t InputDistance() const {
    return std::min(geometry.stride_w, geometry.in_w) * geometry.in_c;
  }
  // Pixels so many numbers apart, one behind the other, meet in so few sets of the caches that a
  // tile's lines are gone when the next tile comes for them: a cache has for them only the part of
  // its sets that multiples of their distance reach within a page. Other numbers have a quarter of
  // its 1 MiB.
  bool PixelsCrowd(int64_t distance) const {
    constexpr int64_t kPage = 4096, kCacheBytes = 768 << 10;
    return CallPixels() * std::gcd(distance * sizes.element_bytes, kPage) > kCacheBytes;
  }
  // Panels are read where they lie by so few tiles that a copy would cost more, though their lines
  // are gone when the next tile comes for them: then calls should meet few pixels.
  bool PanelsCrowdInPlace() const {
    if (format != DataFormat::kNHWC) return false;
    return inputs_in_lanes ? UsesInputInPlace() && PixelsCrowd(InputDistance())
                           : UsesOutputInPlace() && PixelsCrowd(geometry.out_c);
  }
  int64_t MostCallPixels() const;  // where one call makes a tile
  // Pixels that a call of the micro-kernel meets: all, or about a stage's.
  int64_t CallPixels() const;
  // More than the first cache has lines for, beside a panel.
  bool HasManyPixels() const {
    constexpr int64_t kFewPixels = 256;
    return NumPixels() > kFewPixels;
  }
  // Pixels of so many channels, one behind the other, lie on more pages than a processor keeps the
  // places of at hand, beside those of panels and results.
  bool LieOnManyPages(int64_t channels) const {
    constexpr int64_t kPage = 4096, kFewPages = 32;
    const int64_t bytes = std::clamp<int64_t>(channels * sizes.element_bytes, 1, kPage);
    return NumPixels() > kFewPages * kPage / bytes;
  }
  // From one packed pixel of so many numbers to the next: a line more than these where pixels would
  // else meet in few sets of the first cache.
  int64_t PackedPixel(int64_t numbers) const {
    constexpr int64_t kFewSetsBytes = 512;
    const bool crowd = numbers * sizes.element_bytes % kFewSetsBytes == 0;
    return numbers + (crowd ? kLineBytes / sizes.element_bytes : 0);
  }
  // Rows of tiles are planes.
  bool InputIsPlanar() const { return format == DataFormat::kNCHW && !joined && !inputs_in_lanes; }
  bool UsesInputInPlace() const {
    if (sizes.pairs) return InputIsPlanar() && PlanesHoldPairs();
    if (!sizes.stores_compute_type) return false;
    if (InputIsPlanar()) return true;
    if (joined || format == DataFormat::kNCHW) return false;
    if (!inputs_in_lanes) return PixelsServeAsRows();
    return PanelsServeInPlace(geometry.group_in_c, geometry.in_c, InputDistance());
  }
  // Pixels of NHWC are no longer than a panel's part of one, which every term reads as well, or
  // meet so few panels that a copy by channel blocks costs more than their distance. That holds for
  // short distances, and for any where panels are wide and all pixels are one call's: the copies of
  // stages stay in a cache.
  bool PixelsServeAsRows() const {
    constexpr int64_t kFewPanels = 6, kNearBytes = 512, kWideBytes = 128;
    if (geometry.in_c <= sizes.panels.cols) return true;
    if (tile_taps * sizes.panels.count > kFewPanels || PixelsCrowd(InputDistance())) return false;
    const bool near = InputDistance() * sizes.element_bytes <= kNearBytes;
    return near || (PanelBytes() >= kWideBytes && CallPixels() == NumPixels());
  }
  // The input's planes hold what the only tap of a filter row meets as pairs already.
  bool PlanesHoldPairs() const {
    const ConvGeometry& g = geometry;
    return g.kernel_w == 1 && g.stride_w == 1 && g.out_w == g.in_w && g.in_w % 2 == 0;
  }
  // Pixels are read where they lie, in order, by so few multiply-adds that to fetch them would take
  // as long: those of one tile, or some more by vectors whose lines come sooner.
  bool FewReadPixelsInPlace() const {
    const int64_t few = sizes.vectors_are_lines ? 64 : 16;
    const int64_t tiles = sizes.panels.count * row_blocks * tile_taps;
    return format == DataFormat::kNHWC && UsesInputInPlace() && UsesOutputInPlace() &&
           tiles * sizes.tile_rows * (sizes.panels.cols / sizes.lanes) <= few;
  }
  // The columns that a stage holds of a row of the input, and of out_backprop.
  GridColumns InputColumns() const {
    return {cols.first, cols.step, geometry.stride_w, geometry.in_w, cols.count};
  }
  GridColumns OutputColumns() const {
    return {0, sizes.pairs ? 2 : 1, 1, geometry.out_w, out_cols};
  }
  // Channels of the input that are packed side by side: those of a tile where tiles read them
  // often, for the little that they compute with them, else a cache line, so that packing moves
  // whole lines.
  int64_t ChannelBlock() const {
    const bool often = 10 * tile_taps * sizes.panels.count > PanelBytes();
    return std::min(geometry.group_in_c,
                    often ? sizes.tile_rows : kLineBytes / sizes.element_bytes);
  }
  // Numbers that a stage holds of one pixel of the input's grid, and of one of out_backprop, when
  // they are packed.
  int64_t InputWidth(const Pass& pass) const;
  int64_t OutputWidth(const Pass& pass) const;
  int64_t PixelNumbers(const Pass& pass) const;  // of both, for an output pixel
  int64_t TilesOf(const Pass& pass) const { return pass.num_panels() * row_blocks * tile_taps; }
  struct TilePlace {
    int64_t panel, row_block, tap;  // panel of the pass
    int64_t next_tap, next_group;   // the first tiles of another tap, and of other row blocks
  };
  TilePlace PlaceOf(int64_t tile) const;
  // The tiles of one portion that a thread takes at a time where portions are dealt.
  struct Share {
    int64_t portion, tile_begin, tile_end;
  };
  // Shares portions [first, last), whole but where a thread's part, alike in tiles x blocks, ends.
  std::vector<Share> Shares(const Pass& pass, int64_t first, int64_t last) const;
  // True if the pixels of both lie alike, and their portions' ends: what tiles meet is listed
  // alike.
  bool Alike(const PixelStage& a, const PixelStage& b) const;
  // The stages of a portion, where portions are dealt.
  std::span<const PixelStage> StagesOfPortion(int64_t portion) const;
  // The tasks of so many tiles: groups, or for threads smaller where there are few.
  int64_t TasksOf(int64_t tiles) const {
    const int64_t least = num_threads == 1 ? 1 : 8 * int64_t{num_threads};
    return std::min(tiles, std::max(least, CeilDiv(tiles, group_row_blocks * tile_taps)));
  }
  // Segments of a stage's pixels for one tap, at most.
  int64_t MostStageSegments() const;
  // The micro-kernel's results are rounded to 16 bits afterwards.
  bool RoundsResult() const {
    return !inputs_in_lanes && !sizes.stores_compute_type && !sizes.pairs;
  }
  // The result's numbers that are held before they are turned, or rounded to 16 bits.
  int64_t UnfinishedElements() const;
  // The rows of the grid that a stage's output rows meet.
  Slab GridSlab(const PixelStage& stage) const;
  // The rows of the padded input that they meet.
  Slab PaddedSlab(const PixelStage& stage) const;
  int64_t PaddedWidth() const {
    return (geometry.out_w - 1) * geometry.stride_w +
           (geometry.kernel_w - 1) * geometry.dilation_w + 1;
  }
  // Inputs joined: columns of the grid hold what a column of taps meets. Output pixels share them
  // where their taps' columns follow each other; else each has its own.
  static bool SharesColumns(const ConvGeometry& g) {
    return g.dilation_w == 1 && g.stride_w < g.kernel_w;
  }
  int64_t ColumnNumbers() const { return geometry.kernel_h * geometry.group_in_c; }
  int64_t ScratchBytes() const;
  std::string Tiles() const;

  // A stage's, packed.
  struct Elements {
    int64_t input = 0, output = 0;
    int64_t padded = 0;  // the padded input of all groups, from which the grid is filled
  };

  const ConvGeometry geometry;
  const DataFormat format;
  const Sizes sizes;
  const FilterForm form;
  const bool joined, inputs_in_lanes;  // that form
  const bool in_pairs;                 // terms are taken two by two, elements one by one
  const int num_threads;
  const int64_t operand_bytes;
  const int64_t out_cols;  // elements of a row of out_backprop
  const int64_t num_taps;
  const int64_t tile_taps;               // taps that are tiles of their own: all, or 1 when joined
  const int64_t row_blocks;              // of one group and tap
  const AxisGrid rows, cols;             // of the input; cols from elements of out_backprop
  const std::vector<PixelBlock> blocks;  // their columns count elements
  // The portion of a sum that has sums of its own: a run, or a single block.
  const int64_t portion_blocks;
  const bool one_call;             // of the micro-kernel makes a tile: no sums need to be kept
  const std::vector<Pass> passes;  // the first one is the widest
  // Threads take portions of their own, for which each packs the operands: nobody waits until
  // portions' sums are folded. Else all work on what they packed together.
  const bool deals_portions;
  const std::vector<PixelStage> stages;  // of every pass; those one thread packs end with portions
  const Elements most_elements;
  const int64_t chunk_blocks;      // taken by one call of the micro-kernel
  const int64_t group_row_blocks;  // whose input stays in a cache from tap to tap
  const int64_t portions_at_once;  // whose sums are held side by side; all, if they are no runs
  const bool lists_stages;  // what all tiles meet is listed once for a stage, else for each call

 private:
  static constexpr int64_t kSumBytes = int64_t{24} << 20;  // of tiles' sums

  int64_t NumPixels() const { return geometry.batch * geometry.out_h * out_cols; }
  AxisGrid MakeRows() const;
  AxisGrid MakeCols() const;
  std::vector<PixelBlock> MakeBlocks(bool pairs) const;
  // Pixels of the input's grid for each of out_backprop.
  int64_t GridPixels() const { return CeilDiv(rows.count * cols.count, geometry.out_h * out_cols); }
  // A stage of so many threads, beside sums of so many bytes.
  int64_t StageBytes(int64_t sum_bytes, int threads) const;
  int64_t ChunkBytes() const;  // of a panel, for one call of the micro-kernel
  bool OneCallSuffices() const;
  std::vector<Pass> CutPasses() const;
  int64_t GroupsOfPass() const;  // at most
  bool PaysToDealRuns() const;
  bool PaysToDealBlocks() const;
  std::vector<PixelStage> CutStages() const;
  Elements MostElements() const;
  int64_t GroupRowBlocks() const;
  int64_t PortionsAtOnce() const;
  int64_t MostBlockPixels() const;
  // The memory of tiles' sums: in a pass, and of the whole result.
  int64_t SumBytes() const;
  double AllSumBytes() const;
};

// The tiles of one group and tap, or of all taps where they are joined, with a form's elements:
// pairs wherever they may serve.
TileCounts TilesOfForm(const Problem& problem, const KernelTable& kernels, FilterForm form);

// The rows of neighbouring stages that both pack are counted once, and taps as if each met as many
// pixels as all do on average. What fetching ahead gains is left out, and what threads wait.
Work CountWork(const Problem& problem, const FilterCut& cut, const TileCounts& tiles);

}  // namespace convgrad
