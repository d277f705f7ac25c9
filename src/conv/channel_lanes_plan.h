// How a forward convolution or an input gradient with lanes along channels is cut: panels of the
// filter, stages of the tensors, chunks of pixels. Touches no data.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "conv/bfloat16_pairs.h"
#include "conv/gemm_tiles.h"
#include "conv/staging.h"
#include "conv/tap_sum.h"
#include "kernels/kernel_table.h"

namespace convgrad {

// Terms of a chunk of blocks: a panel's part that should stay in the second-level cache while tiles
// pass over it.
inline constexpr int64_t kPanelBytes = 640 << 10;
inline constexpr int64_t kPackedBytes = int64_t{24} << 20;  // of filter panels at a time
// Source and result slabs at a time: copied, used and copied back while in cache, but no smaller
// than the filter, which every stage reads anew.
inline constexpr int64_t kStageBytesPerThread = int64_t{3} << 19;
inline constexpr int64_t kMostStageBytes = int64_t{36} << 20;

// Everything that follows from problem, kernels and threads: how the work is cut. Operands are held
// as Element: numbers of the compute type, or pairs of bfloat16 numbers.
template <class Stored, class Element>
struct ChannelLanesPlan {
  using Compute = ComputeType<Stored>;
  static constexpr bool kPairs = std::is_same_v<Element, BFloat16Pair>;

  ChannelLanesPlan(const Problem& problem, const KernelTable& table, int num_threads);

  int64_t PanelElements() const { return TermsOf(sum, phases) * panels.cols; }
  int64_t NumPanels() const { return sum.groups * panels.count; }
  int64_t PartsOf(const TapPhase& phase) const;
  int64_t SumsPerThread() const;
  int64_t SourceElements(const Slab& stage) const;
  int64_t ResultElements(const Slab& stage) const;
  int64_t ScratchBytes() const;

  const IndirectGemmKernels<Element>& kernels;
  TapSum sum;
  std::vector<TapPhase> phases;
  DataShape source, result;           // channels of the source as elements
  bool source_staged, result_staged;  // else used where they lie
  Panels panels;                      // of one group
  int64_t panels_per_pass;
  std::vector<Slab> stages;
  int64_t chunk_pixels;
  int num_threads;
};

template <class Stored, class Element>
ChannelLanesPlan<Stored, Element>::ChannelLanesPlan(const Problem& problem,
                                                    const KernelTable& table, int num_threads_in)
    : kernels(table.Gemm<Element>()),
      sum(problem),
      phases(PhasesOf(sum)),
      source_staged(problem.data_format == DataFormat::kNCHW ||
                    (kPairs ? sum.source_c % 2 != 0 : !std::is_same_v<Stored, Compute>)),
      result_staged(problem.data_format == DataFormat::kNCHW ||
                    !(kPairs || std::is_same_v<Stored, Compute>)),
      panels(CutPanels(kernels, sum.result_c)),
      num_threads(num_threads_in) {
  if constexpr (kPairs) CountInPairs(sum, phases);
  source = {problem.data_format, sum.source_h, sum.source_w, sum.source_c * sum.groups};
  result = {problem.data_format, sum.result_h, sum.result_w, sum.result_c * sum.groups};
  panels_per_pass = std::clamp<int64_t>(
      kPackedBytes / std::max<int64_t>(1, PanelElements() * int64_t{sizeof(Element)}), 1,
      NumPanels());
  const Slab whole{0, sum.batch, 0, sum.result_h};
  const int64_t pixels = sum.batch * sum.result_h * sum.result_w;
  if (source_staged || result_staged) {
    const int64_t bytes = sum.batch * (source.Image() * int64_t{sizeof(Element)} +
                                       result.Image() * int64_t{sizeof(Compute)});
    const int64_t filter_bytes = NumPanels() * PanelElements() * int64_t{sizeof(Element)};
    const int64_t stage_bytes =
        std::min(std::max(kStageBytesPerThread * num_threads, filter_bytes), kMostStageBytes);
    stages =
        SplitSlab(whole, sum.result_w, std::max<int64_t>(1, pixels / CeilDiv(bytes, stage_bytes)));
  } else {
    stages = {whole};
  }
  // Enough pixels for every class to fill its tiles and for a panel's way into the cache to pay,
  // few enough for the source, of all groups, to stay in a cache from panel to panel.
  const int64_t num_phases = static_cast<int64_t>(phases.size());
  const int64_t cached =
      std::clamp<int64_t>((int64_t{1} << 18) / source.c, 1024, 16384) * num_phases;
  // A panel that serves one chunk only is packed just before. Several threads would wait for each
  // other at the end of each pass.
  if (num_threads == 1 && pixels <= cached) panels_per_pass = 1;
  const int64_t tasks = std::min(NumPanels(), panels_per_pass);  // of each chunk
  const int64_t shared = num_threads == 1
                             ? cached
                             : CeilDiv(CeilDiv(pixels, static_cast<int64_t>(stages.size())) * tasks,
                                       4 * int64_t{num_threads});
  constexpr int64_t kFewestPixels = 48;  // a panel may come from the third-level cache for these
  chunk_pixels = std::min(cached, std::max<int64_t>(shared, kFewestPixels * num_phases));
}

// How many parts the blocks of a phase are taken in, so that a part of a panel fits the cache.
template <class Stored, class Element>
int64_t ChannelLanesPlan<Stored, Element>::PartsOf(const TapPhase& phase) const {
  const int64_t bytes = phase.num_taps() * sum.source_c * panels.cols * int64_t{sizeof(Element)};
  return std::clamp<int64_t>(CeilDiv(bytes, kPanelBytes), 1,
                             std::max<int64_t>(1, static_cast<int64_t>(phase.blocks.size())));
}

// One tile, or all tiles of a chunk where a phase is taken in parts.
template <class Stored, class Element>
int64_t ChannelLanesPlan<Stored, Element>::SumsPerThread() const {
  const auto& tile = TilesOfWidth(kernels, panels.cols).front();
  int64_t tiles = 1;
  for (const TapPhase& phase : phases) {
    if (PartsOf(phase) == 1) continue;
    const int64_t pixels = std::max(chunk_pixels, sum.result_w);
    const int64_t classes = static_cast<int64_t>(phase.rows->classes.size()) *
                            static_cast<int64_t>(phase.cols->classes.size());
    tiles = std::max(tiles, std::min(pixels, pixels / tile.rows + classes));
  }
  // The last panel may be narrower, and a tile of it larger.
  const int64_t last_cols = panels.ColsOf(panels.count - 1, sum.result_c);
  return std::max(tiles * SumsOfTile(tile), SumsOfTile(TilesOfWidth(kernels, last_cols).front()));
}

template <class Stored, class Element>
int64_t ChannelLanesPlan<Stored, Element>::SourceElements(const Slab& stage) const {
  const RowRange rows = SourceRows(sum, stage);
  return stage.num_images() * (rows.end - rows.begin) * source.w * source.c;
}

template <class Stored, class Element>
int64_t ChannelLanesPlan<Stored, Element>::ResultElements(const Slab& stage) const {
  return stage.num_images() * stage.num_rows() * result.w * result.c;
}

template <class Stored, class Element>
int64_t ChannelLanesPlan<Stored, Element>::ScratchBytes() const {
  int64_t source_elements = 0, result_elements = 0;
  for (const Slab& stage : stages) {
    if (source_staged) source_elements = std::max(source_elements, SourceElements(stage));
    if (result_staged) result_elements = std::max(result_elements, ResultElements(stage));
  }
  int64_t list_bytes = 0;
  for (const TapPhase& phase : phases) {
    const int64_t segments = std::max(phase.num_taps() * (sum.in_pairs ? 2 : 1),
                                      static_cast<int64_t>(phase.blocks.size()));
    list_bytes = std::max(list_bytes, segments * int64_t{sizeof(GemmSegment) + sizeof(int64_t)});
  }
  return (panels_per_pass * PanelElements() + source_elements) * int64_t{sizeof(Element)} +
         result_elements * int64_t{sizeof(Compute)} +
         num_threads * (SumsPerThread() * int64_t{sizeof(double)} + 2 * list_bytes);
}

}  // namespace convgrad
