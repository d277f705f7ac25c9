// How a forward convolution or an input gradient with lanes along images is cut: its parts
// (image_lanes_parts.h), the micro-kernel's tiles, the segments of each part's classes. Touches no
// data.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "base/checked.h"
#include "base/memory.h"
#include "conv/axes/tap_sum.h"
#include "conv/conv2d/data/image_lanes_parts.h"
#include "conv/conv2d/data/sliding_rows.h"
#include "conv/gemm/class_segments.h"
#include "conv/move/staging.h"
#include "kernels/kernel_table.h"

namespace convgrad {

inline constexpr int kMostImageTileRows = 8;

// The terms of tiles in parts whose pixels lie the same way, or of sums that slide.
struct PartLists {
  int64_t source_w, source_c;  // of the part
  std::optional<SegmentTable> segments;
  std::optional<SlidingTable> pieces;
};

// Everything that follows from problem, kernels and threads. The source is held as Element: numbers
// of the compute type, or pairs of bfloat16 numbers, of an even number of channels.
template <class Stored, class Element>
struct ImageLanesCut {
  using Compute = ComputeType<Stored>;
  static constexpr bool kPairs = std::is_same_v<Element, BFloat16Pair>;

  ImageLanesCut(const Problem& problem, const KernelTable& table, int num_threads);
  ImageLanesCut(const ImageLanesCut&) = delete;  // phases point into sum

  int64_t BlockElements() const { return TermsOf(sum, phases) * tile_cols; }
  int64_t FilterElements() const { return sum.groups * channel_blocks * BlockElements(); }
  int64_t SumsPerThread() const {
    const int64_t vectors = parts.slides ? parts.sliding_vectors
                                         : int64_t{kMostImageTileRows} * kernels.tiles.back().cols;
    return vectors * kernels.lanes * 2;
  }
  int64_t ScratchBytes() const;
  std::string Tiles() const;
  const PartLists& ListsOf(const ImageLanesPart& part) const;

  const VectorGemmKernels<Element>& kernels;
  const int num_threads;
  TapSum sum;
  const std::vector<TapPhase> phases;
  const ImageLanesParts parts;
  const DataShape source, result;                   // channels of the source as elements
  const int64_t channel_blocks, tile_cols;          // of a group's channels of the result
  const std::vector<VectorTile<Element>> tiles;     // of that many columns, most rows first
  const std::vector<SlidingTile<Element>> sliding;  // of the taps' rows, likewise, if sums slide
  const bool near;                                  // all tensors; see KernelTable

 private:
  std::vector<VectorTile<Element>> ChooseTiles() const;
  std::vector<SlidingTile<Element>> ChooseSlidingTiles() const;
  std::vector<PartLists> MakeLists() const;

  const std::vector<PartLists> lists_;
};

// The memory that one thread needs for its parts.
template <class Stored, class Element>
struct ImageLanesScratch {
  using Compute = ComputeType<Stored>;

  explicit ImageLanesScratch(const ImageLanesCut<Stored, Element>& cut)
      : source(cut.parts.source_vectors * cut.kernels.lanes),
        result(cut.parts.result_vectors * cut.kernels.lanes),
        sums(cut.SumsPerThread()),
        chains(cut.parts.sliding_vectors * cut.kernels.lanes) {}

  AlignedArray<Element> source;  // [row][column][channel of the chunk][lane]
  AlignedArray<Compute> result;  // the same of a strip's results
  AlignedArray<double> sums;
  AlignedArray<Compute> chains;  // of sums that slide
  SegmentList segments;
};

template <class Stored, class Element>
ImageLanesCut<Stored, Element>::ImageLanesCut(const Problem& problem, const KernelTable& table,
                                              int num_threads_in)
    : kernels(table.VectorGemm<Element>()),
      num_threads(num_threads_in),
      sum(problem),
      phases(kPairs ? PhasesInPairs(sum) : PhasesOf(sum)),
      parts(
          CutParts(sum, problem.data_format, kernels.lanes, int64_t{sizeof(Compute)}, num_threads)),
      source{problem.data_format, sum.source_h, sum.source_w, sum.source_c * sum.groups},
      result{problem.data_format, sum.result_h, sum.result_w, sum.result_c * sum.groups},
      channel_blocks(CeilDiv(sum.result_c, int64_t{kernels.tiles.back().cols})),
      tile_cols(CeilDiv(sum.result_c, channel_blocks)),
      tiles(ChooseTiles()),
      sliding(ChooseSlidingTiles()),
      near(problem.OperandBytes() + problem.ResultBytes() <= table.near_bytes * num_threads),
      lists_(MakeLists()) {}

template <class Stored, class Element>
int64_t ImageLanesCut<Stored, Element>::ScratchBytes() const {
  const int64_t vectors = parts.source_vectors + parts.result_vectors + parts.sliding_vectors;
  int64_t of_lists = 0;
  for (const PartLists& list : lists_) {
    of_lists = std::max(of_lists, list.segments ? list.segments->ScratchBytes() : 0);
  }
  // The terms of a block, before they are arranged for sums that slide.
  const int64_t arranged = parts.slides ? BlockElements() : 0;
  const int64_t of_thread = std::max(vectors * kernels.lanes * int64_t{sizeof(Compute)} +
                                         SumsPerThread() * int64_t{sizeof(double)} + of_lists,
                                     arranged * int64_t{sizeof(Element)});
  return FilterElements() * int64_t{sizeof(Element)} + num_threads * of_thread;
}

template <class Stored, class Element>
std::vector<VectorTile<Element>> ImageLanesCut<Stored, Element>::ChooseTiles() const {
  constexpr int64_t kReuseBytes = 24 << 10;  // that a first-level cache keeps
  constexpr int64_t kLeastSums = 8;          // of a tile, so that none waits for another
  std::vector<VectorTile<Element>> chosen;
  for (const auto& tile : kernels.tiles) {
    if (tile.cols == tile_cols) chosen.push_back(tile);
  }
  // A tile reads this between two neighbouring taps, which meet the same pixels but for one.
  const auto is_reused = [&](const VectorTile<Element>& tile) {
    return tile.rows * sum.source_c * kernels.lanes * int64_t{sizeof(Element)} <= kReuseBytes;
  };
  while (chosen.size() > 1 && !is_reused(chosen[0]) && is_reused(chosen[1]) &&
         chosen[1].rows * tile_cols >= kLeastSums) {
    chosen.erase(chosen.begin());
  }
  return chosen;
}

template <class Stored, class Element>
std::vector<SlidingTile<Element>> ImageLanesCut<Stored, Element>::ChooseSlidingTiles() const {
  std::vector<SlidingTile<Element>> chosen;
  for (const auto& tile : kernels.sliding) {
    if (parts.slides && tile.cols == std::ssize(sum.row_phases.front().taps)) {
      chosen.push_back(tile);
    }
  }
  return chosen;
}

// Parts differ in their width, and the last groups may be fewer.
template <class Stored, class Element>
std::vector<PartLists> ImageLanesCut<Stored, Element>::MakeLists() const {
  std::vector<PartLists> lists;
  for (int64_t i = 0; i < 2 * parts.col_blocks; ++i) {
    const int64_t chunk = i < parts.col_blocks ? 0 : parts.num_chunks - 1;
    const int64_t col = i % parts.col_blocks;
    const ImageLanesPart part = parts.PartAt((chunk * parts.col_blocks + col) * parts.row_parts);
    const int64_t w = parts.SourceCols(part).size(), c = part.num_groups * sum.source_c;
    if (std::ranges::any_of(
            lists, [&](const auto& list) { return list.source_w == w && list.source_c == c; })) {
      continue;
    }
    PartLists& list = lists.emplace_back(PartLists{w, c, {}, {}});
    if (parts.slides) {
      list.pieces.emplace(phases, sum.source_c, c);
    } else {
      list.segments.emplace(phases, SegmentSteps{w * c, c, sum.source_c, tile_cols});
    }
  }
  return lists;
}

template <class Stored, class Element>
const PartLists& ImageLanesCut<Stored, Element>::ListsOf(const ImageLanesPart& part) const {
  const int64_t w = parts.SourceCols(part).size(), c = part.num_groups * sum.source_c;
  return *std::ranges::find_if(
      lists_, [&](const auto& list) { return list.source_w == w && list.source_c == c; });
}

template <class Stored, class Element>
std::string ImageLanesCut<Stored, Element>::Tiles() const {
  return fmt::format("{}x{} pixels x {} of {} lanes, {} bands of {} rows an image",
                     parts.slides ? sliding.front().rows : tiles.front().rows,
                     parts.slides ? sliding.front().cols : tile_cols,
                     parts.slides ? "sliding rows" : "channels", kernels.lanes, parts.bands.count,
                     parts.bands.positions);
}

}  // namespace convgrad
