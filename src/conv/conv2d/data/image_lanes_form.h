// What a forward convolution or an input gradient with lanes along images is made of: its sums, how
// they are cut (image_lanes_plan.h), the micro-kernel's tiles. Touches no data.
#pragma once

#include <cstdint>
#include <type_traits>
#include <vector>

#include "base/checked.h"
#include "base/memory.h"
#include "conv/axes/tap_sum.h"
#include "conv/conv2d/data/image_lanes_plan.h"
#include "conv/gemm/class_segments.h"
#include "conv/move/staging.h"
#include "kernels/kernel_table.h"

namespace convgrad {

inline constexpr int kMostImageTileRows = 8;
inline constexpr int64_t kReuseBytes = 24 << 10;  // that a first-level cache keeps
inline constexpr int64_t kLeastSums = 8;          // of a tile, so that none waits for another

// Everything that follows from problem, kernels and threads. The source is held as Element: numbers
// of the compute type, or pairs of bfloat16 numbers, of an even number of channels.
template <class Stored, class Element>
struct ImageLanesForm {
  using Compute = ComputeType<Stored>;
  static constexpr bool kPairs = std::is_same_v<Element, BFloat16Pair>;

  ImageLanesForm(const Problem& problem, const KernelTable& table, int num_threads_in)
      : kernels(table.VectorGemm<Element>()),
        sum(problem),
        phases(CountedPhases()),
        source{problem.data_format, sum.source_h, sum.source_w, sum.source_c * sum.groups},
        result{problem.data_format, sum.result_h, sum.result_w, sum.result_c * sum.groups},
        cuts(sum, problem.data_format, kernels.lanes, int64_t{sizeof(Compute)}, num_threads_in),
        num_threads(num_threads_in) {
    const int64_t widest = kernels.tiles.back().cols;
    channel_blocks = CeilDiv(sum.result_c, widest);
    tile_cols = CeilDiv(sum.result_c, channel_blocks);
    for (const auto& tile : kernels.tiles) {
      if (tile.cols == tile_cols) tiles.push_back(tile);
    }
    while (tiles.size() > 1 && ReuseBytes(tiles[0]) > kReuseBytes &&
           ReuseBytes(tiles[1]) <= kReuseBytes && tiles[1].rows * tile_cols >= kLeastSums) {
      tiles.erase(tiles.begin());
    }
    if (!cuts.slides) return;
    for (const auto& tile : kernels.sliding) {
      if (tile.cols == static_cast<int64_t>(sum.row_phases.front().taps.size())) {
        sliding.push_back(tile);
      }
    }
  }
  ImageLanesForm(const ImageLanesForm&) = delete;  // phases point into sum

  // What a tile reads between two neighbouring taps, which meet the same pixels but for one.
  int64_t ReuseBytes(const VectorTile<Element>& tile) const {
    return tile.rows * sum.source_c * kernels.lanes * int64_t{sizeof(Element)};
  }

  std::vector<TapPhase> CountedPhases() {
    std::vector<TapPhase> counted = PhasesOf(sum);
    if constexpr (kPairs) CountInPairs(sum, counted);
    return counted;
  }

  int64_t BlockElements() const { return TermsOf(sum, phases) * tile_cols; }
  int64_t FilterElements() const { return sum.groups * channel_blocks * BlockElements(); }
  int64_t SumsPerThread() const {
    const int64_t vectors = cuts.slides ? cuts.sliding_vectors
                                        : int64_t{kMostImageTileRows} * kernels.tiles.back().cols;
    return vectors * kernels.lanes * 2;
  }
  int64_t ScratchBytes() const {
    const int64_t vectors = cuts.source_vectors + cuts.result_vectors + cuts.sliding_vectors;
    return (FilterElements() + num_threads * vectors * kernels.lanes) * int64_t{sizeof(Compute)} +
           num_threads * SumsPerThread() * int64_t{sizeof(double)};
  }

  const VectorGemmKernels<Element>& kernels;
  TapSum sum;
  std::vector<TapPhase> phases;
  DataShape source, result;  // channels of the source as elements
  ImageLanesCuts cuts;
  int64_t channel_blocks, tile_cols;          // of a group's channels of the result
  std::vector<VectorTile<Element>> tiles;     // of that many columns, most rows first
  std::vector<SlidingTile<Element>> sliding;  // of the taps' rows, likewise, if sums slide
  int num_threads;
};

// What one thread needs for its parts.
template <class Stored, class Element>
struct ImageLanesScratch {
  using Compute = ComputeType<Stored>;

  void Allocate(const ImageLanesForm<Stored, Element>& plan) {
    const ImageLanesCuts& cuts = plan.cuts;
    source = AlignedArray<Element>(cuts.source_vectors * plan.kernels.lanes);
    result = AlignedArray<Compute>(cuts.result_vectors * plan.kernels.lanes);
    sums = AlignedArray<double>(plan.SumsPerThread());
    chains = AlignedArray<Compute>(cuts.sliding_vectors * plan.kernels.lanes);
  }

  AlignedArray<Element> source;  // [row][column][channel of the chunk][lane]
  AlignedArray<Compute> result;  // the same of a strip's results
  AlignedArray<double> sums;
  AlignedArray<Compute> chains;  // of sums that slide
  SegmentList segments;
};

}  // namespace convgrad
