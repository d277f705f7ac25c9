// How a forward convolution or an input gradient with lanes along channels is cut: panels of the
// filter, stages of the tensors, chunks of pixels. Touches no data.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <type_traits>
#include <vector>

#include "conv/axes/kept_positions.h"
#include "conv/axes/tap_sum.h"
#include "conv/gemm/tiles.h"
#include "conv/move/bfloat16_pairs.h"
#include "conv/move/kept_staging.h"
#include "conv/move/staging.h"
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
// Threads take stages of their own where each gets some, that are worth a task and at least as
// large as a part of the filter.
inline constexpr int64_t kOwnStagesPerThread = 4;
inline constexpr int64_t kLeastOwnStageBytes = 16 << 10;
inline constexpr int64_t kLeastOwnPartOfFilter = 2;

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
  int64_t OwnStageBytes(int64_t bytes, int64_t filter_bytes) const;
  bool ServeThreads(const std::vector<Slab>& own) const;
  int64_t SumsPerThread() const;
  int64_t SourceElements(const Slab& stage) const;
  int64_t ResultElements(const Slab& stage) const;
  int64_t ScratchBytes() const;

  const IndirectGemmKernels<Element>& kernels;
  TapSum sum;
  bool source_staged, result_staged;    // else used where they lie
  KeptPixels source_kept, result_kept;  // all, if it is not staged; `sum` knows no others
  std::vector<TapPhase> phases;
  DataShape source, result;  // of kept pixels; channels of the source as elements
  Panels panels;             // of one group
  int64_t panels_per_pass;
  std::vector<Slab> stages;
  bool own_stages;  // threads take whole stages; else they share each
  int64_t chunk_pixels;
  int num_threads;
};

template <class Stored, class Element>
ChannelLanesPlan<Stored, Element>::ChannelLanesPlan(const Problem& problem,
                                                    const KernelTable& table, int num_threads_in)
    : kernels(table.Gemm<Element>()),
      sum(problem),
      source_staged(problem.data_format == DataFormat::kNCHW ||
                    (kPairs ? sum.source_c % 2 != 0 : !std::is_same_v<Stored, Compute>)),
      result_staged(problem.data_format == DataFormat::kNCHW ||
                    !(kPairs || std::is_same_v<Stored, Compute>)),
      source_kept(source_staged && !kPairs
                      ? KeepMetSource(sum)
                      : KeptPixels{AllPositions(sum.source_h), AllPositions(sum.source_w)}),
      result_kept(result_staged
                      ? KeepSummedResult(sum)
                      : KeptPixels{AllPositions(sum.result_h), AllPositions(sum.result_w)}),
      phases(PhasesOf(sum)),
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
    const auto stages_of = [&](int64_t stage_bytes) {
      const int64_t count = CeilDiv(bytes, stage_bytes);
      return SplitSlab(whole, sum.result_w, std::max<int64_t>(1, pixels / count));
    };
    const int64_t own_bytes = OwnStageBytes(bytes, filter_bytes);
    if (own_bytes > 0) stages = stages_of(own_bytes);
    own_stages = own_bytes > 0 && ServeThreads(stages);
    if (!own_stages) {
      stages = stages_of(
          std::min(std::max(kStageBytesPerThread * num_threads, filter_bytes), kMostStageBytes));
    }
  } else {
    stages = {whole};
    own_stages = false;
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
  const int64_t shared =
      num_threads == 1 || own_stages
          ? cached
          : CeilDiv(CeilDiv(pixels, std::ssize(stages)) * tasks, 4 * int64_t{num_threads});
  constexpr int64_t kFewestPixels = 48;  // a panel may come from the third-level cache for these
  chunk_pixels = std::min(cached, std::max<int64_t>(shared, kFewestPixels * num_phases));
}

// How much of so many bytes of source and result a stage of a thread's own should have; 0: threads
// share stages.
template <class Stored, class Element>
int64_t ChannelLanesPlan<Stored, Element>::OwnStageBytes(int64_t bytes,
                                                         int64_t filter_bytes) const {
  if (num_threads == 1 || panels_per_pass < NumPanels()) return 0;
  const int64_t own =
      std::min({std::max(kStageBytesPerThread, filter_bytes),
                bytes / (kOwnStagesPerThread * num_threads), kMostStageBytes / num_threads});
  const int64_t least = std::max(kLeastOwnStageBytes, filter_bytes / kLeastOwnPartOfFilter);
  return own >= least ? own : 0;
}

// Whether there are enough of these stages for threads to take, and they don't read much of the
// source more than once.
template <class Stored, class Element>
bool ChannelLanesPlan<Stored, Element>::ServeThreads(const std::vector<Slab>& own) const {
  if (std::ssize(own) < kOwnStagesPerThread * num_threads / 2) return false;
  int64_t read = 0;
  for (const Slab& stage : own) read += SourceElements(stage);
  return 2 * read <= 3 * sum.batch * source.Image();
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
  const int64_t slabs = own_stages ? num_threads : 1;  // at a time
  return (panels_per_pass * PanelElements() + slabs * source_elements) * int64_t{sizeof(Element)} +
         slabs * result_elements * int64_t{sizeof(Compute)} +
         num_threads * (SumsPerThread() * int64_t{sizeof(double)} + 2 * list_bytes +
                        PlanesTogetherBytes<Stored>(result_kept));
}

}  // namespace convgrad
