// How a forward convolution or an input gradient with lanes along pixels is cut: tiles, parts of an
// image's rows, the sizes of planes, the terms of each phase. Touches no data.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "base/memory.h"
#include "conv/axes/padded_planes.h"
#include "conv/axes/tap_sum.h"
#include "conv/conv2d/data/block_rows.h"
#include "conv/gemm/tiles.h"
#include "conv/move/staging.h"
#include "conv/move/stream_result.h"
#include "kernels/kernel_table.h"

namespace convgrad {

// True if a thread's planes, of one position's rows at the least, have room.
bool FitsPixelLanes(const TapSum& sum);

// Rows of result pixels follow each other without a gap, like the lanes do.
inline bool ResultIsPlanes(DataFormat format, const TapSum& sum, const PlaneAxis& cols) {
  return format == DataFormat::kNCHW && sum.row_phases.size() == 1 && sum.col_phases.size() == 1 &&
         cols.extent == sum.result_w;
}

// True if every position meets one source position, the same.
bool MeetsWholePlanes(const TapSum& sum);

// So many bytes of a cache hold one line of what begins every `step` bytes, where these begin near
// the same sets of it; 0 where they spread.
int64_t CrowdedBytes(int64_t step);

// The terms of a phase, the same for all of its pixels.
struct TermList {
  std::vector<GemmSegment> segments;
  std::vector<int64_t> block_ends;
};

// Numbers from a row of a filter, which is a channel of the result, to the next where it lies; and
// from term to term of a tap, tap to tap, group to group.
struct FilterSteps {
  int64_t row, term, tap, group;

  explicit FilterSteps(const TapSum& sum);
};

// An image in `count` parts, each with `positions` positions of every phase's rows.
struct RowParts {
  int64_t count, positions;
};

// The problem itself or, where every pixel of a plane meets its like alone, the same with planes of
// one column, whose rows can be cut anywhere.
Problem WithPlanesAsColumns(const Problem& problem);
// Rows of a part: whole numbers of `unit`, at most `most`, and for threads no fewer than `least`.
struct RowLimits {
  int64_t unit, least, most;
};
// `rows` rows of each image in parts, with equally much for each thread.
RowParts CutRows(int64_t batch, int64_t rows, const RowLimits& limits, int num_threads);
// Returns in how many shares, `most` or fewer, each of `tasks` tasks, at least one, is best cut for
// threads to get equally many.
int64_t EvenShares(int64_t tasks, int64_t most, int num_threads);

// Operands are held as Element: numbers of the compute type, or pairs of channels of bfloat16
// numbers, for sums that meet whole planes.
template <class Stored, class Element>
struct PixelLanesCut {
  using Compute = ComputeType<Stored>;
  static constexpr bool kPairs = std::is_same_v<Element, BFloat16Pair>;

  PixelLanesCut(const Problem& problem, const KernelTable& table, int num_threads);
  PixelLanesCut(const PixelLanesCut&) = delete;  // phases point into sum

  int64_t BlockElements() const { return num_terms * tile_rows; }  // of a row block
  // The filter is packed unless it is read where it lies, as it is where its blocks are rows.
  int64_t FilterElements() const {
    return block_rows || filter_steps ? 0 : sum.groups * row_blocks * BlockElements();
  }
  int64_t SourceElements() const {
    return (by_panels || block_rows ? sum.source_c : source.c) * channel_stride;
  }
  int64_t ResultElements() const { return result_in_place ? 0 : sum.result_c * result_stride; }
  // So many of `panels` side by side are one call of the micro-kernel: all where one block of rows
  // reads them where they lie.
  int64_t PanelsAtOnce(int64_t panels) const {
    const bool joins_all = source_in_place && row_blocks == 1;
    return std::max<int64_t>(1, joins_all ? panels : std::min(panels, few_panels));
  }
  // For the panels of a phase, the last of which is a call of its own, since it may be narrower.
  int64_t NumCalls(int64_t panels) const {
    return 1 + CeilDiv(panels - 1, PanelsAtOnce(panels - 1));
  }
  int64_t NumTasks() const { return sum.batch * parts.count * shares; }
  // The rows of a share, channels of a group.
  Range RowsOf(int64_t share) const {
    const Range blocks = ShareOf(row_blocks, shares, share);
    return {blocks.begin * tile_rows, std::min(blocks.end * tile_rows, sum.result_c)};
  }
  int64_t SumsPerThread() const { return int64_t{kMaxTileRows} * panel_cols * 2; }
  // Positions of a part of any phase, from the first to the last, padding between rows included.
  int64_t PartPositions() const {
    return (parts.positions - 1) * cols.extent + sum.col_phases.front().count;
  }
  // A row of block_rows has the sums of a part, between what columns beyond its own leave behind.
  int64_t BlockSumsStride() const {
    return RoundUp(PartPositions() + 2 * block_rows->most_shift + TileCols(), kernels.lanes);
  }
  int64_t BlockSums() const { return block_rows ? block_rows->num_sums * BlockSumsStride() : 0; }
  int64_t ScratchBytes() const;
  std::string Tiles() const;
  // Terms run along channels, so far apart, or, where there is one, along a row's taps.
  int64_t TermStep(int64_t stride) const { return sum.source_c > 1 ? stride : 1; }
  int64_t FilterTermStep() const { return filter_steps ? filter_steps->term : tile_rows; }
  int64_t TileCols() const { return TilesOfWidth(kernels, panel_cols).front().cols; }
  // Rows of a plane that `positions` positions along the rows of a phase need.
  int64_t PlaneRows(int64_t positions) const { return positions - MostPositions() + rows.extent; }

  const IndirectGemmKernels<Element>& kernels;
  const int num_threads;
  const bool near;  // all tensors; see KernelTable
  TapSum sum;
  const std::vector<TapPhase> phases;
  const int64_t num_terms;         // of all phases
  const DataShape source, result;  // channels of the source as elements
  const PlaneAxis rows, cols;
  const bool multiplies_padding;
  const bool result_is_planes;                    // a part's rows are neighbours in the result too
  const bool result_in_place;                     // and of the type that the micro-kernel gives it
  const bool streams_result;                      // around the caches, from where lines begin
  const bool result_is_far;                       // it is in place, and not in a cache
  const std::optional<BlockRows> block_rows;      // if blocks are rows of tiles, not channels
  const int64_t panel_cols;                       // pixels of a panel, at most
  const int64_t tile_rows, row_blocks;            // of the result's channels in a group
  const std::optional<FilterSteps> filter_steps;  // of one that is read where it lies
  const bool by_panels;               // 1x1 filters on planes: copied a panel at a time, if at all
  const bool source_in_place;         // and where they lie, but for what would reach past the end
  const RowParts parts;               // worked on at a time
  const int64_t shares;               // of the row blocks of a part, which threads take
  const int64_t plane_size;           // elements of one plane of a part
  const int64_t few_panels;           // that are copied together, or else read by one call
  const int64_t channel_stride;       // of all planes of a source channel, or of those panels
  const int64_t result_stride;        // of a result channel in a part
  const std::vector<TermList> terms;  // by phase, of the source as it is copied
  const std::vector<TermList> in_place;  // of the source where it lies

 private:
  int64_t MostPositions() const { return sum.row_phases.front().count; }
  int64_t NumPlanes() const { return std::ssize(rows.residues) * std::ssize(cols.residues); }
  bool TakesBlocksAsRows() const {
    return std::is_same_v<Stored, Element> && PaysToTakeBlocksAsRows(sum, phases, rows, cols);
  }
  bool StreamsResult(const Problem& problem) const;
  int64_t PanelCols() const;
  bool ReadsFilterInPlace() const;
  bool ServesInPlace(const KernelTable& table) const;
  RowParts Parts() const;
  int64_t Shares() const;
  int64_t FewPanels() const;
  int64_t ChannelStride() const;
  int64_t FilterTerm(const TapPhase& phase, int64_t tap) const;
  TermList ListTerms(size_t phase, int64_t stride) const;
  std::vector<TermList> ListAllTerms(int64_t stride) const;
};

template <class Stored, class Element>
PixelLanesCut<Stored, Element>::PixelLanesCut(const Problem& problem, const KernelTable& table,
                                              int num_threads_in)
    : kernels(table.Gemm<Element>()),
      num_threads(num_threads_in),
      near(problem.OperandBytes() + problem.ResultBytes() <= table.near_bytes * num_threads),
      sum(WithPlanesAsColumns(problem)),
      phases(kPairs ? PhasesInPairs(sum) : PhasesOf(sum)),
      num_terms(TermsOf(sum, phases)),
      source{problem.data_format, sum.source_h, sum.source_w, sum.source_c * sum.groups},
      result{problem.data_format, sum.result_h, sum.result_w, sum.result_c * sum.groups},
      rows(sum.row_phases),
      cols(sum.col_phases),
      multiplies_padding(MeetsPadding(sum)),
      result_is_planes(ResultIsPlanes(problem.data_format, sum, cols)),
      result_in_place(result_is_planes && (kPairs || std::is_same_v<Stored, Compute>)),
      streams_result(result_in_place && StreamsResult(problem)),
      result_is_far(result_in_place && !CachesHold(problem, num_threads)),
      block_rows(TakesBlocksAsRows() ? std::make_optional<BlockRows>(sum, phases, rows, cols)
                                     : std::nullopt),
      panel_cols(PanelCols()),
      tile_rows(SmallestTile(TilesOfWidth(kernels, panel_cols), sum.result_c).rows),
      row_blocks(CeilDiv(sum.result_c, tile_rows)),
      filter_steps(ReadsFilterInPlace() ? std::make_optional<FilterSteps>(sum) : std::nullopt),
      by_panels(result_is_planes && MeetsWholePlanes(sum)),
      source_in_place(!kPairs && result_in_place && by_panels && ServesInPlace(table)),
      parts(Parts()),
      shares(Shares()),
      plane_size(PlaneRows(parts.positions) * cols.extent),
      few_panels(FewPanels()),
      channel_stride(by_panels || block_rows ? few_panels * TileCols() : ChannelStride()),
      result_stride(result_in_place ? result.h * result.w : parts.positions * cols.extent),
      terms(ListAllTerms(channel_stride)),
      in_place(source_in_place ? ListAllTerms(source.h * source.w) : std::vector<TermList>()) {}

// Planes go around the caches, unless these hold all tensors.
template <class Stored, class Element>
bool PixelLanesCut<Stored, Element>::StreamsResult(const Problem& problem) const {
  return !(phases.size() == 1 && PaysToCache(problem, num_threads)) &&
         PaysToStreamPlanes(problem.ResultBytes(), result.h * result.w * int64_t{sizeof(Stored)},
                            kernels.lanes * int64_t{sizeof(Compute)});
}

// Whole lines of the result, where a tile has one: none is then written in two parts.
template <class Stored, class Element>
int64_t PixelLanesCut<Stored, Element>::PanelCols() const {
  constexpr int64_t kLineCols = kAlignment / int64_t{sizeof(Compute)};
  constexpr int64_t kMany = 1 << 16;
  const int64_t rows_of_sums = block_rows ? block_rows->MostRows() : sum.result_c;
  const int64_t widest = CutPanelsForRows(kernels, rows_of_sums, kMany).cols;
  if (block_rows) return widest;
  return result_in_place && widest > kLineCols ? widest - widest % kLineCols : widest;
}

// True where few pixels would read a packed filter: packing it takes longer than to find a tile's
// rows where they lie. In a forward pass these lie side by side, but terms far apart.
template <class Stored, class Element>
bool PixelLanesCut<Stored, Element>::ReadsFilterInPlace() const {
  constexpr int64_t kFewPixels = 1024, kPageBytes = 4096;
  if (!std::is_same_v<Stored, Element> || block_rows) return false;
  if (sum.batch * sum.result_h * sum.result_w > kFewPixels) return false;
  const int64_t term_bytes = FilterSteps(sum).term * int64_t{sizeof(Element)};
  return !sum.forward || CrowdedBytes(term_bytes) < kPageBytes;
}

// True where panels are best read as they lie. Copying one costs as much as a few blocks of rows
// lose to vectors across two lines, which narrow ones, with fewer multiply-adds to a load, lose
// more by. A single block reads each line once. Others find panels in the second-level cache, but
// for planes that begin in so few of its sets that their lines push each other out.
template <class Stored, class Element>
bool PixelLanesCut<Stored, Element>::ServesInPlace(const KernelTable& table) const {
  constexpr int64_t kFewBlocks = 25, kFewBlocksOfNarrow = 8;
  const int64_t plane_bytes = source.h * source.w * int64_t{sizeof(Compute)};
  const int64_t vector_bytes = kernels.lanes * int64_t{sizeof(Compute)};
  const bool across_lines = plane_bytes % vector_bytes != 0;
  const bool loses_more = vector_bytes < kLineBytes && across_lines;
  return row_blocks < (loses_more ? kFewBlocksOfNarrow : kFewBlocks) &&
         (row_blocks == 1 ||
          sum.source_c * CrowdedBytes(plane_bytes) < table.second_cache_bytes / 2);
}

template <class Stored, class Element>
RowParts PixelLanesCut<Stored, Element>::Parts() const {
  constexpr int64_t kPartBytes = 896 << 10;  // about the second-level cache
  // Blocks as rows meet a column of the source once, but rows that parts share twice: parts are as
  // large as planes that are copied, and larger where these would be of few rows.
  constexpr int64_t kLeastHalos = 8, kMostPartBytes = 8 << 20;
  const int64_t num_rows = MostPositions(), halo = rows.extent - num_rows;
  if (by_panels) {
    const RowLimits limits{panel_cols, panel_cols, RoundUp(num_rows, panel_cols)};
    return CutRows(sum.batch, num_rows, limits, num_threads);
  }
  const int64_t row_bytes = NumPlanes() * source.c * cols.extent * int64_t{sizeof(Element)};
  const int64_t result_rows = block_rows        ? block_rows->num_sums
                              : result_in_place ? 0
                                                : sum.result_c;
  const int64_t result_bytes = result_rows * cols.extent * int64_t{sizeof(Compute)};
  int64_t most = std::min(kPartBytes / std::max<int64_t>(1, row_bytes) - halo,
                          kPartBytes / std::max<int64_t>(1, result_bytes));
  if (block_rows) {
    most =
        std::max(most, std::min(kLeastHalos * halo, kMostPartBytes / (row_bytes + result_bytes)));
  }
  return CutRows(sum.batch, num_rows, {1, halo, most}, num_threads);
}

// Small planes of few images are too few parts for threads to get equally many. Each share copies
// the panel anew, if it is not read where it lies.
template <class Stored, class Element>
int64_t PixelLanesCut<Stored, Element>::Shares() const {
  constexpr int64_t kLeastBlocks = 8;
  if (!by_panels) return 1;
  return EvenShares(sum.batch * parts.count, std::max<int64_t>(1, row_blocks / kLeastBlocks),
                    num_threads);
}

// Panels that stay in the first cache, or, of short vectors, which take longer to need as much, in
// the second-level one, while all blocks of rows pass over them. A block so writes its planes in
// runs of several lines, in few pages at a time: planes that are no whole lines else share one with
// each panel's neighbour, which would have left the cache in between. A single block of rows reads
// best what is fetched one panel ahead.
template <class Stored, class Element>
int64_t PixelLanesCut<Stored, Element>::FewPanels() const {
  constexpr int64_t kFirstBytes = 32 << 10, kSecondBytes = 64 << 10;
  if (kPairs || block_rows || !result_in_place || row_blocks == 1) return 1;
  const bool fills_lines = kernels.lanes * int64_t{sizeof(Compute)} >= kLineBytes;
  const int64_t panel_bytes = sum.source_c * TileCols() * int64_t{sizeof(Element)};
  return std::max<int64_t>(1, (fills_lines ? kFirstBytes : kSecondBytes) / panel_bytes);
}

// Lanes of the last tile reach past the last pixel, in the last plane too. An odd number of lines
// between channels keeps them from meeting in one set of a cache.
template <class Stored, class Element>
int64_t PixelLanesCut<Stored, Element>::ChannelStride() const {
  return (CeilDiv(NumPlanes() * plane_size + TileCols(), int64_t{16}) | 1) * 16;
}

// A tap's first term of a row of the filter, packed or where it lies.
template <class Stored, class Element>
int64_t PixelLanesCut<Stored, Element>::FilterTerm(const TapPhase& phase, int64_t tap) const {
  if (!filter_steps) return (phase.first_term + tap * sum.source_c) * tile_rows;
  const int64_t num_cols = std::ssize(phase.cols->taps);
  const int64_t row = phase.rows->taps[static_cast<size_t>(tap / num_cols)];
  const int64_t col = phase.cols->taps[static_cast<size_t>(tap % num_cols)];
  return (row * sum.kernel_w + col) * filter_steps->tap;
}

template <class Stored, class Element>
TermList PixelLanesCut<Stored, Element>::ListTerms(size_t index, int64_t stride) const {
  TermList list;
  const TapPhase& phase = phases[index];
  const auto& row_taps = rows.taps[index / sum.col_phases.size()];
  const auto& col_taps = cols.taps[index % sum.col_phases.size()];
  const int64_t num_cols = std::ssize(col_taps);
  for (const TapBlock& block : phase.blocks) {
    const size_t block_begin = list.segments.size();
    for (int64_t tap = block.tap_begin; tap < block.tap_end; ++tap) {
      const auto& row = row_taps[static_cast<size_t>(tap / num_cols)];
      const auto& col = col_taps[static_cast<size_t>(tap % num_cols)];
      const int64_t plane = row.plane * std::ssize(cols.residues) + col.plane;
      const GemmSegment next = {FilterTerm(phase, tap) + block.channel_begin * FilterTermStep(),
                                block.channel_begin * stride + plane * plane_size +
                                    (row.index - rows.low) * cols.extent + col.index - cols.low,
                                block.channel_end - block.channel_begin};
      AppendTerms(next, {FilterTermStep(), TermStep(stride), phase.in_pairs}, block_begin,
                  list.segments);
    }
    list.block_ends.push_back(std::ssize(list.segments));
  }
  if (list.block_ends.empty()) list.block_ends.push_back(0);
  return list;
}

template <class Stored, class Element>
std::vector<TermList> PixelLanesCut<Stored, Element>::ListAllTerms(int64_t stride) const {
  std::vector<TermList> lists;
  for (size_t i = 0; i < phases.size(); ++i) lists.push_back(ListTerms(i, stride));
  return lists;
}

template <class Stored, class Element>
int64_t PixelLanesCut<Stored, Element>::ScratchBytes() const {
  return (FilterElements() + num_threads * SourceElements()) * int64_t{sizeof(Element)} +
         num_threads * ((ResultElements() + BlockSums()) * int64_t{sizeof(Compute)} +
                        SumsPerThread() * int64_t{sizeof(double)});
}

template <class Stored, class Element>
std::string PixelLanesCut<Stored, Element>::Tiles() const {
  const int64_t tallest = block_rows ? TilesOfWidth(kernels, panel_cols).front().rows : tile_rows;
  return fmt::format("{}x{} {} x pixels, {} bands of {} rows", tallest, panel_cols,
                     block_rows ? "blocks" : "channels", parts.count, parts.positions);
}

}  // namespace convgrad
