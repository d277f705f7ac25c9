// How a forward convolution or an input gradient with lanes along channels is cut: panels of the
// filter, stages of the tensors, chunks of pixels. Touches no data.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "conv/axes/kept_positions.h"
#include "conv/axes/tap_sum.h"
#include "conv/gemm/class_segments.h"
#include "conv/gemm/tiles.h"
#include "conv/move/kept_staging.h"
#include "conv/move/staging.h"
#include "conv/move/stream_result.h"
#include "kernels/kernel_table.h"

namespace convgrad {

// A slab of the result and the rows of the source that it needs, copied in and out at a time where
// they are not used where they lie; and its pixels in chunks, over which tiles pass panel by panel.
struct ChannelLanesStage {
  Slab result;
  Range source_rows;
  SlabCuts chunks;

  Slab Source() const {
    return {result.image_begin, result.image_end, source_rows.begin, source_rows.end};
  }
};

// Stages and chunks go by these.
struct ChannelLanesNeeds {
  int64_t staged_bytes;  // of source and result as copied; 0 if neither is
  int64_t group_bytes;   // of one group's source, if groups are taken apart; else 0
  int64_t filter_bytes;  // of all panels
  int64_t num_panels, panels_per_pass;
  int64_t panels_together;  // that are packed at once; 0: none is
  bool last_is_narrow;      // so that its thread would have far less to do
  int64_t cached_pixels;    // MostChunkPixels
  int64_t num_phases;
  int num_threads;
};

struct ChannelLanesStages {
  const TapSum& sum;
  SlabCuts results;  // of the stages
  bool are_staged;   // else there is one, whose operands are used where they lie
  bool own;          // threads take whole stages; else they share each
  int64_t chunk_pixels;
  // So many panels threads pack and compute one by one, for the only chunk. A chunk's tiles are
  // dealt in shares, each with all panels that are left.
  int64_t own_panels;
  int64_t shares;

  int64_t size() const { return results.size(); }
  ChannelLanesStage operator[](int64_t index) const { return StageOf(results[index]); }
  // Calls visit(stage, count) as SlabCuts does: those alike have as many chunks, too.
  template <class Visit>
  void ForEachKind(const Visit& visit) const {
    results.ForEachKind([&](const Slab& slab, int64_t count) { visit(StageOf(slab), count); });
  }

 private:
  ChannelLanesStage StageOf(const Slab& slab) const {
    return {slab, are_staged ? SourceRows(sum, slab) : Range{0, sum.source_h},
            SlabCuts(slab, sum.result_w, chunk_pixels)};
  }
};

// Pixels of a chunk: enough for every class to fill its tiles and for a panel's way into the cache
// to pay, few enough for the source that they meet, of all groups, to stay in a cache from panel to
// panel; `near`, for most of it to stay in the first one.
int64_t MostChunkPixels(const TapSum& sum, int64_t source_c, bool near);
// `sum` must outlive them.
ChannelLanesStages CutStages(const TapSum& sum, const ChannelLanesNeeds& needs);

// Everything that follows from problem, kernels and threads. Operands are held as Element: numbers
// of the compute type, or pairs of bfloat16 numbers.
template <class Stored, class Element>
struct ChannelLanesCut {
  using Compute = ComputeType<Stored>;
  static constexpr bool kPairs = std::is_same_v<Element, BFloat16Pair>;

  ChannelLanesCut(const Problem& problem, const KernelTable& table, int num_threads);
  ChannelLanesCut(const ChannelLanesCut&) = delete;  // phases point into sum

  // From one pixel of the source and the result to the next, as the kernels see them.
  int64_t SourcePixel() const {
    const int64_t channels = groups_apart ? sum.source_c : source.c;
    return source_staged ? StagedPixel<Element>(channels) : channels;
  }
  int64_t ResultPixel() const {
    const int64_t channels = groups_apart ? sum.result_c : result.c;
    return result_staged ? StagedPixel<Compute>(channels) : channels;
  }
  // Tasks of a stage that threads take as their own.
  int64_t NumTasks() const { return groups_apart ? sum.groups : 1; }
  int64_t PanelElements() const { return TermsOf(sum, phases) * panels.cols; }
  int64_t NumPanels() const { return sum.groups * panels.count; }
  // A chunk's tasks are panels, and shares with each of the others, of which `most` are taken at a
  // time.
  int64_t PanelTasks(int64_t most) const {
    return stages.own_panels + stages.shares * std::min(most, NumPanels() - stages.own_panels);
  }
  // This much is packed at a time.
  int64_t PackedElements() const {
    const int64_t owned = stages.own_panels > 0 ? num_threads * panels_together : 0;
    return std::max(owned, std::min(panels_per_pass, NumPanels() - stages.own_panels)) *
           PanelElements();
  }
  int64_t SourceElements(const ChannelLanesStage& stage) const {
    return stage.Source().num_images() * stage.Source().num_rows() * source.w * SourcePixel();
  }
  int64_t ResultElements(const ChannelLanesStage& stage) const {
    return stage.result.num_images() * stage.result.num_rows() * result.w * ResultPixel();
  }
  int64_t SumsPerThread() const;
  // True if the panel from a channel of the result on is read where the filter lies: the widest
  // tile must not reach past its end.
  bool ReadsInPlace(int64_t channel, int64_t num_channels) const {
    return in_place &&
           channel + TilesOfWidth(kernels, num_channels).front().cols <= sum.result_c * sum.groups;
  }
  int64_t ScratchBytes() const;
  std::string Tiles() const;

  const IndirectGemmKernels<Element>& kernels;
  const int num_threads;
  TapSum sum;
  const bool source_staged, result_staged;    // else used where they lie
  const KeptPixels source_kept, result_kept;  // all, if it is not staged; `sum` knows no others
  const KeptPixels summed;             // of those pixels; where no phase has taps zeros are written
  const std::vector<TapPhase> phases;  // of summed pixels
  const DataShape source, result;      // of kept pixels; channels of the source as elements
  const Panels panels;                 // of one group
  const bool source_is_far;            // it is read where it lies, beyond the caches
  const bool streams_result;           // around the caches, from where lines begin
  const bool result_is_far;            // it is written where it lies, and not in a cache
  const bool streams_zeros;            // pixels without sums go around the caches
  const int64_t panels_together;       // that are packed at once
  const bool groups_apart;             // a task copies and computes the channels of one group
  const int64_t cached_pixels, panels_per_pass;
  const ChannelLanesStages stages;
  const SegmentTable segments;                 // of packed panels
  const std::optional<SegmentTable> in_place;  // of the filter where it lies

 private:
  static bool Crowds(const TapSum& sum);
  std::vector<TapPhase> SummedPhases();
  bool StreamsResult(const Problem& problem) const;
  bool FilterServesInPlace() const;
  int64_t PanelsTogether() const;
  SegmentSteps Steps(int64_t b) const {
    return {source.w * SourcePixel(), SourcePixel(), sum.source_c, b};
  }
  bool TakesGroupsApart() const;
  int64_t PanelsPerPass() const;
  ChannelLanesNeeds Needs() const;
  std::vector<int64_t> Parts() const;
};

template <class Stored, class Element>
ChannelLanesCut<Stored, Element>::ChannelLanesCut(const Problem& problem, const KernelTable& table,
                                                  int num_threads_in)
    : kernels(table.Gemm<Element>()),
      num_threads(num_threads_in),
      sum(problem),
      source_staged(problem.data_format == DataFormat::kNCHW ||
                    (kPairs ? sum.source_c % 2 != 0 : !std::is_same_v<Stored, Compute>) ||
                    Crowds(sum)),
      result_staged(problem.data_format == DataFormat::kNCHW ||
                    !(kPairs || std::is_same_v<Stored, Compute>)),
      source_kept(source_staged && !kPairs
                      ? KeepMetSource(sum)
                      : KeptPixels{AllPositions(sum.source_h), AllPositions(sum.source_w)}),
      result_kept(result_staged
                      ? KeepSummedResult(sum)
                      : KeptPixels{AllPositions(sum.result_h), AllPositions(sum.result_w)}),
      summed(SummedResult(sum)),
      phases(SummedPhases()),
      source{problem.data_format, sum.source_h, sum.source_w, sum.source_c * sum.groups},
      result{problem.data_format, sum.result_h, sum.result_w, sum.result_c * sum.groups},
      panels(CutPanels(kernels, sum.result_c)),
      source_is_far(!source_staged &&
                    problem.OperandBytes() + problem.ResultBytes() >= kTensorsLeaveTheCaches),
      streams_result(StreamsResult(problem)),
      result_is_far(!result_staged && !CachesHold(problem, num_threads)),
      streams_zeros(LeaveTheCaches(problem.ResultBytes(), num_threads)),
      panels_together(PanelsTogether()),
      groups_apart(TakesGroupsApart()),
      cached_pixels(MostChunkPixels(sum, source.c, streams_result && panels.count > 1)),
      panels_per_pass(PanelsPerPass()),
      stages(CutStages(sum, Needs())),
      segments(phases, Steps(panels.cols), Parts()),
      in_place(FilterServesInPlace() ? std::make_optional<SegmentTable>(
                                           phases, Steps(sum.result_c * sum.groups), Parts())
                                     : std::nullopt) {}

template <class Stored, class Element>
std::vector<TapPhase> ChannelLanesCut<Stored, Element>::SummedPhases() {
  auto of_summed = kPairs ? PhasesInPairs(sum) : PhasesOf(sum);
  if (!summed.all()) std::erase_if(of_summed, [](const auto& p) { return p.num_taps() == 0; });
  return of_summed;
}

// Panels of whole lines go around the caches, unless these hold all tensors.
template <class Stored, class Element>
bool ChannelLanesCut<Stored, Element>::StreamsResult(const Problem& problem) const {
  constexpr int64_t kStored = sizeof(Stored);
  if (result_staged || (sum.num_phases() == 1 && PaysToCache(problem, num_threads))) return false;
  return panels.cols * kStored % kLineBytes == 0 &&
         PaysToStream(problem.ResultBytes(), sum.result_c * kStored);
}

// A group's part of a tile's pixels meets in the same few sets of a cache where they are a large
// power of two apart, and takes few of their lines.
template <class Stored, class Element>
bool ChannelLanesCut<Stored, Element>::Crowds(const TapSum& sum) {
  constexpr int64_t kFewSetsStride = 2048, kFewLines = 2;
  const int64_t group_bytes = sum.source_c * int64_t{sizeof(Element)};
  const int64_t step = sum.col_phases.empty() ? 1 : sum.col_phases.front().source_step;
  return !kPairs && sum.groups > 1 && sum.kernel_h * sum.kernel_w > 1 &&
         step * sum.groups * group_bytes % kFewSetsStride == 0 &&
         group_bytes <= kFewLines * kLineBytes;
}

// In a forward pass the terms of a panel are rows of the filter, one behind the other, which few
// pixels read less often than a copy would: in several tiles, unless rows meet in few sets of the
// caches. Rows of whole lines are read at full speed, and a copy pays for many pixels of a thread
// alone. A line that belongs to two panels has to last from one to the next, which it does for few
// terms, again fewer where rows meet.
template <class Stored, class Element>
bool ChannelLanesCut<Stored, Element>::FilterServesInPlace() const {
  if (!sum.forward || !std::is_same_v<Stored, Element>) return false;
  const int64_t pixels = sum.batch * sum.result_h * sum.result_w;
  constexpr int64_t kFewSetsStride = 1024, kFewPixels = 16, kMostPixels = 128,
                    kMostOfWholeLines = 1024;
  const auto fills_lines = [](int64_t columns) {
    return columns * int64_t{sizeof(Element)} % kLineBytes == 0;
  };
  const bool crowds = sum.result_c * sum.groups * int64_t{sizeof(Element)} % kFewSetsStride == 0;
  if (!fills_lines(panels.cols)) {
    return pixels <= kFewPixels && TermsOf(sum, phases) <= (crowds ? 512 : 2048);
  }
  if (crowds) return pixels <= kFewPixels;
  return pixels <= (fills_lines(sum.result_c) ? kMostOfWholeLines * num_threads : kMostPixels);
}

// A line of the filter that belongs to two panels is read once for both.
template <class Stored, class Element>
int64_t ChannelLanesCut<Stored, Element>::PanelsTogether() const {
  const bool share_lines = panels.cols * int64_t{sizeof(Stored)} % kLineBytes != 0;
  const bool can = sum.forward && sum.groups == 1 && !kPairs && !FilterServesInPlace();
  return can && share_lines && panels.count > 1 ? 2 : 1;
}

inline constexpr int64_t kPackedBytes = int64_t{24} << 20;  // of the filter at a time

// Where the source is copied anyway: a group's numbers stay in a cache until they are used.
template <class Stored, class Element>
bool ChannelLanesCut<Stored, Element>::TakesGroupsApart() const {
  return source_staged && !kPairs && sum.groups > 1 && source_kept.all() && result_kept.all() &&
         NumPanels() * PanelElements() * int64_t{sizeof(Element)} <= kPackedBytes;
}

template <class Stored, class Element>
int64_t ChannelLanesCut<Stored, Element>::PanelsPerPass() const {
  if (groups_apart) return NumPanels();
  return std::clamp<int64_t>(
      kPackedBytes / std::max<int64_t>(1, PanelElements() * int64_t{sizeof(Element)}), 1,
      NumPanels());
}

template <class Stored, class Element>
ChannelLanesNeeds ChannelLanesCut<Stored, Element>::Needs() const {
  const int64_t bytes = sum.batch * (source.Image() * int64_t{sizeof(Element)} +
                                     result.Image() * int64_t{sizeof(Compute)});
  return {.staged_bytes = source_staged || result_staged ? bytes : 0,
          .group_bytes =
              groups_apart ? sum.batch * source.Image() / sum.groups * int64_t{sizeof(Element)} : 0,
          .filter_bytes = NumPanels() * PanelElements() * int64_t{sizeof(Element)},
          .num_panels = NumPanels(),
          .panels_per_pass = panels_per_pass,
          .panels_together = num_threads > 1 && FilterServesInPlace() ? 0 : panels_together,
          .last_is_narrow = sum.groups == 1 && 10 * NumPanels() * panels.cols > 11 * sum.result_c,
          .cached_pixels = cached_pixels,
          .num_phases = sum.num_phases(),
          .num_threads = num_threads};
}

// How many parts the blocks of each phase are taken in, so that a part of a panel stays in the
// second-level cache while tiles pass over it.
template <class Stored, class Element>
std::vector<int64_t> ChannelLanesCut<Stored, Element>::Parts() const {
  constexpr int64_t kPanelBytes = 640 << 10;
  std::vector<int64_t> parts;
  for (const TapPhase& phase : phases) {
    const int64_t bytes = phase.num_taps() * sum.source_c * panels.cols * int64_t{sizeof(Element)};
    parts.push_back(std::clamp<int64_t>(CeilDiv(bytes, kPanelBytes), 1,
                                        std::max<int64_t>(1, std::ssize(phase.blocks))));
  }
  return parts;
}

// One tile, or all tiles of a chunk where a phase is taken in parts.
template <class Stored, class Element>
int64_t ChannelLanesCut<Stored, Element>::SumsPerThread() const {
  const auto& tile = TilesOfWidth(kernels, panels.cols).front();
  int64_t tiles = 1;
  for (size_t i = 0; i < phases.size(); ++i) {
    if (segments.PartsOf(i) == 1) continue;
    const int64_t pixels = std::max(stages.chunk_pixels, sum.result_w);
    tiles = std::max(tiles, std::min(pixels, pixels / tile.rows + phases[i].num_classes()));
  }
  // The last panel may be narrower, and a tile of it larger.
  const int64_t last_cols = panels.ColsOf(panels.count - 1, sum.result_c);
  return std::max(tiles * SumsOfTile(tile), SumsOfTile(TilesOfWidth(kernels, last_cols).front()));
}

template <class Stored, class Element>
int64_t ChannelLanesCut<Stored, Element>::ScratchBytes() const {
  int64_t source_elements = 0, result_elements = 0;
  stages.ForEachKind([&](const ChannelLanesStage& stage, int64_t) {
    if (source_staged) source_elements = std::max(source_elements, SourceElements(stage));
    if (result_staged) result_elements = std::max(result_elements, ResultElements(stage));
  });
  const int64_t slabs = stages.own ? num_threads : 1;  // at a time
  return (PackedElements() + slabs * source_elements) * int64_t{sizeof(Element)} +
         slabs * result_elements * int64_t{sizeof(Compute)} +
         num_threads * (SumsPerThread() * int64_t{sizeof(double)} + segments.ScratchBytes() +
                        PlanesTogetherBytes<Stored>(result_kept));
}

template <class Stored, class Element>
std::string ChannelLanesCut<Stored, Element>::Tiles() const {
  const auto& tile = TilesOfWidth(kernels, panels.cols).front();
  int64_t blocks = 0;
  for (const TapPhase& phase : phases) blocks = std::max(blocks, int64_t{std::ssize(phase.blocks)});
  return fmt::format("{}x{} pixels x channels, {} panels, {} blocks", tile.rows, tile.cols,
                     NumPanels(), blocks);
}

}  // namespace convgrad
