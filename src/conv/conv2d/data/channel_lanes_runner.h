// Runs a forward convolution or an input gradient with lanes along channels as it is cut:
// stage by stage, panel by panel of the filter, chunk by chunk of pixels.
#pragma once

#include <algorithm>
#include <atomic>
#include <iterator>
#include <type_traits>
#include <vector>

#include "base/memory.h"
#include "conv/conv2d/data/channel_lanes_cut.h"
#include "conv/gemm/class_pixels.h"
#include "conv/gemm/class_segments.h"
#include "conv/gemm/tiles.h"
#include "conv/move/bfloat16_pairs.h"
#include "conv/move/filter_panel.h"
#include "conv/move/kept_staging.h"
#include "conv/move/stream_result.h"
#include "conv/plan/algorithm.h"

namespace convgrad {

template <class Stored, class Element>
class ChannelLanesRunner {
 public:
  using Compute = ComputeType<Stored>;
  using Cut = ChannelLanesCut<Stored, Element>;

  ChannelLanesRunner(const ConvArgs& args, const Cut& cut)
      : args_(args),
        cut_(cut),
        pack_(args.kernels.Pack<Stored>()),
        packed_(cut.PackedElements()),
        threads_(static_cast<size_t>(args.parallel.num_threads())) {
    for (auto& thread : threads_) thread.sums = AlignedArray<double>(cut.SumsPerThread());
  }

  bool Run() {
    if (cut_.stages.own) {
      RunOwnStages();
    } else {
      RunSharedStages();
    }
    return true;
  }

 private:
  // Source and result of a stage where they don't lie as the kernels see them.
  struct Slabs {
    AlignedArray<Element> source;
    AlignedArray<Compute> result;
  };
  struct ThreadScratch {
    SegmentList segments;
    std::vector<Range> classes;
    AlignedArray<double> sums;
    Slabs slabs;  // of the thread's own stages
  };
  // Source and result of a stage as the kernels see them.
  struct Operands {
    const Element* source = nullptr;
    Compute* result = nullptr;
    BFloat16* narrowed = nullptr;  // of pairs, if the result is not staged
    PixelOffsets source_offsets{{}, 0, 0, 0}, result_offsets{{}, 0, 0, 0};
  };

  ThreadScratch& Scratch() { return threads_[static_cast<size_t>(Parallel::ThreadIndex())]; }

  // Threads take stages, or groups of them: none waits for another before the last one is done.
  // Groups of a stage follow each other: lines that they share are then in a cache.
  void RunOwnStages() {
    PackPanels(0, cut_.NumPanels());
    const int64_t tasks = cut_.NumTasks(), panels = cut_.NumPanels() / tasks;
    args_.parallel.For(cut_.stages.size() * tasks, [&](int64_t i) {
      const ChannelLanesStage stage = cut_.stages[i / tasks];
      const int64_t task = i % tasks;
      ThreadScratch& scratch = Scratch();
      const Operands operands = Load(stage, task, scratch.slabs);
      ZeroUnsummed(stage.result, operands);
      for (int64_t c = 0; c < stage.chunks.size(); ++c) {
        const Slab chunk = stage.chunks[c];
        for (int64_t panel = task * panels; panel < (task + 1) * panels; ++panel) {
          RunTask(operands, chunk, {0, 1}, PanelAt(panel), PackedPanel(panel), scratch);
        }
      }
      Store(stage, task, operands);
    });
  }

  // Threads share the pixels and panels of one stage after the other.
  void RunSharedStages() {
    Slabs slabs;
    int64_t packed_from = -1;  // the first panel of the pass that is packed
    for (int64_t i = 0; i < cut_.stages.size(); ++i) {
      const ChannelLanesStage stage = cut_.stages[i];
      const Operands operands = Load(stage, 0, slabs);
      ZeroUnsummed(stage.result, operands);
      const int64_t num_panels = cut_.NumPanels();
      RunOwnPanels(operands, stage);
      for (int64_t first = cut_.stages.own_panels; first < num_panels;
           first += cut_.panels_per_pass) {
        const int64_t count = std::min(cut_.panels_per_pass, num_panels - first);
        if (packed_from != first) PackPanels(first, count);
        packed_from = first;
        RunPass(operands, stage.chunks, first, count);
      }
      Store(stage, 0, operands);
    }
  }

  // The first panels of a stage's only chunk, packed by those who compute them.
  void RunOwnPanels(const Operands& operands, const ChannelLanesStage& stage) {
    const int64_t num_panels = cut_.stages.own_panels, together = cut_.panels_together;
    args_.parallel.For(CeilDiv(num_panels, together), [&](int64_t i) {
      const int64_t first = i * together, count = std::min(together, num_panels - first);
      const int64_t place = Parallel::ThreadIndex() * together;
      const Range all_terms = {0, TermsOf(cut_.sum, cut_.phases)};
      PackOnce(PanelAt(first, count), all_terms, PackedPanel(place));
      for (int64_t panel = 0; panel < count; ++panel) {
        RunTask(operands, stage.chunks[0], {0, 1}, PanelAt(first + panel),
                PackedPanel(place + panel), Scratch());
      }
    });
  }

  Element* PackedPanel(int64_t index) { return packed_.data() + index * cut_.PanelElements(); }

  // The channels of `count` neighbouring panels of a group.
  FilterPanel PanelAt(int64_t panel, int64_t count = 1) const {
    const Panels& panels = cut_.panels;
    const int64_t in_group = panel % panels.count, first = in_group * panels.cols;
    return {panel / panels.count, first, std::min(count * panels.cols, cut_.sum.result_c - first),
            panels.cols, cut_.PanelElements()};
  }

  int64_t FirstChannel(const FilterPanel& panel) const {
    return panel.group * cut_.sum.result_c + panel.first_channel;
  }
  bool ReadsInPlace(const FilterPanel& panel) const {
    return cut_.ReadsInPlace(FirstChannel(panel), panel.num_channels);
  }

  // The first of these panels goes to the beginning of the packed ones.
  void PackPanels(int64_t first, int64_t count) {
    const int64_t num_terms = TermsOf(cut_.sum, cut_.phases), together = cut_.panels_together;
    ForPanelParts(args_.parallel, CeilDiv(count, together), num_terms,
                  [&](int64_t i, const Range& terms) {
                    const int64_t begin = i * together;
                    PackOnce(PanelAt(first + begin, std::min(together, count - begin)), terms,
                             PackedPanel(begin));
                  });
  }
  // Panels that are read where the filter lies need no copy.
  void PackOnce(const FilterPanel& panels, const Range& terms, Element* to) const {
    if (ReadsInPlace(panels)) return;
    PackPanel<Stored>(args_, cut_.sum, cut_.phases, panels, terms, to);
  }

  // A slab's shape as it is copied, `pixel` numbers a pixel.
  static DataShape Innermost(const DataShape& shape, int64_t pixel) {
    return {DataFormat::kNHWC, shape.h, shape.w, pixel};
  }
  Operands Load(const ChannelLanesStage& stage, int64_t task, Slabs& slabs) const;
  void LoadSource(const Slab& slab, int64_t task, Element* to) const;
  void Store(const ChannelLanesStage& stage, int64_t task, const Operands& operands) const;
  void ZeroUnsummed(const Slab& slab, const Operands& operands) const;
  void RunPass(const Operands& operands, const SlabCuts& chunks, int64_t first_panel,
               int64_t num_panels);
  void RunTask(const Operands& operands, const Slab& chunk, const TileShare& share,
               const FilterPanel& panel, const Element* packed, ThreadScratch& scratch) const;

  const ConvArgs& args_;
  const Cut& cut_;
  const PackKernels<Stored>& pack_;
  AlignedArray<Element> packed_;
  std::vector<ThreadScratch> threads_;
};

template <class Stored, class Element>
auto ChannelLanesRunner<Stored, Element>::Load(const ChannelLanesStage& stage, int64_t task,
                                               Slabs& slabs) const -> Operands {
  Operands operands;
  if (cut_.source_staged) {
    const Slab rows = stage.Source();
    const int64_t need = cut_.SourceElements(stage);
    if (slabs.source.size() < need) slabs.source = AlignedArray<Element>(need);
    operands.source = slabs.source.data();
    operands.source_offsets = PixelOffsets(Innermost(cut_.source, cut_.SourcePixel()),
                                           rows.image_begin, rows.row_begin, rows.num_rows());
    LoadSource(rows, task, slabs.source.data());
  } else {
    operands.source = static_cast<const Element*>(args_.Source(cut_.sum.forward));
    operands.source_offsets = PixelOffsets(cut_.source, 0, 0, cut_.source.h);
  }
  if (cut_.result_staged) {
    const int64_t need = cut_.ResultElements(stage);
    if (slabs.result.size() < need) slabs.result = AlignedArray<Compute>(need);
    operands.result = slabs.result.data();
    operands.result_offsets =
        PixelOffsets(Innermost(cut_.result, cut_.ResultPixel()), stage.result.image_begin,
                     stage.result.row_begin, stage.result.num_rows());
  } else {
    if constexpr (Cut::kPairs) {
      operands.narrowed = static_cast<Stored*>(args_.result);
    } else {
      operands.result = static_cast<Compute*>(args_.result);
    }
    operands.result_offsets = PixelOffsets(cut_.result, 0, 0, cut_.result.h);
  }
  return operands;
}

template <class Stored, class Element>
void ChannelLanesRunner<Stored, Element>::LoadSource(const Slab& slab, int64_t task,
                                                     Element* to) const {
  const auto* source = static_cast<const Stored*>(args_.Source(cut_.sum.forward));
  const CopiedPixels<Element> copied{to, cut_.SourcePixel()};
  if constexpr (Cut::kPairs) {
    LoadSlabPairs(
        args_.parallel, args_.kernels.pack_bf16_pairs, cut_.source,
        cut_.sum.forward ? args_.problem.geometry.group_in_c : args_.problem.geometry.group_out_c,
        slab, source, copied);
  } else if (cut_.groups_apart) {
    LoadSlab(args_.parallel, pack_, cut_.source, slab,
             {task * cut_.sum.source_c, cut_.sum.source_c}, source, copied);
  } else {
    LoadKept(args_.parallel, pack_, KeptTensor(cut_.source_kept, cut_.source.format, cut_.source.c),
             slab, source, copied);
  }
}

template <class Stored, class Element>
void ChannelLanesRunner<Stored, Element>::Store(const ChannelLanesStage& stage, int64_t task,
                                                const Operands& operands) const {
  if (!cut_.result_staged) return;
  const KeptTensor result(cut_.result_kept, cut_.result.format, cut_.result.c);
  const bool stream =
      cut_.result.format == DataFormat::kNCHW
          ? PaysToStreamPlanes(args_.result, args_.problem.ResultBytes(),
                               result.whole.h * result.whole.w * int64_t{sizeof(Stored)},
                               cut_.kernels.lanes * int64_t{sizeof(Compute)})
          : cut_.streams_zeros && !cut_.result_kept.all();
  const CopiedPixels<const Compute> copied{operands.result, cut_.ResultPixel()};
  auto* to = static_cast<Stored*>(args_.result);
  if (cut_.groups_apart) {
    return StoreSlab(args_.parallel, pack_, cut_.result, stage.result,
                     {task * cut_.sum.result_c, cut_.sum.result_c}, copied, to, stream);
  }
  StoreKept(args_.parallel, args_.kernels, result, stage.result, copied, to, stream);
}

template <class Stored, class Element>
void ChannelLanesRunner<Stored, Element>::ZeroUnsummed(const Slab& slab,
                                                       const Operands& operands) const {
  const bool stream = cut_.streams_zeros && !cut_.result_staged;
  const auto zero = [&](auto* result) {
    ZeroDropped(args_.parallel, args_.kernels, cut_.summed, slab, operands.result_offsets, result,
                stream);
  };
  operands.narrowed != nullptr ? zero(operands.narrowed) : zero(operands.result);
}

template <class Stored, class Element>
void ChannelLanesRunner<Stored, Element>::RunPass(const Operands& operands, const SlabCuts& chunks,
                                                  int64_t first_panel, int64_t num_panels) {
  const int64_t shares = cut_.stages.shares;
  args_.parallel.For(chunks.size() * shares * num_panels, [&](int64_t i) {
    const int64_t panel = i % num_panels, share = i / num_panels % shares;
    RunTask(operands, chunks[i / num_panels / shares], {share, shares},
            PanelAt(first_panel + panel), PackedPanel(panel), Scratch());
  });
}

// One panel of channels for a share of a chunk's pixels.
template <class Stored, class Element>
void ChannelLanesRunner<Stored, Element>::RunTask(const Operands& operands, const Slab& chunk,
                                                  const TileShare& share, const FilterPanel& panel,
                                                  const Element* packed,
                                                  ThreadScratch& scratch) const {
  const TapSum& sum = cut_.sum;
  GemmTileArgs<Element> tile{};
  tile.a = operands.source + (cut_.groups_apart ? 0 : panel.group * sum.source_c);
  tile.a_step = 1;
  tile.b = packed;
  tile.b_step = cut_.panels.cols;
  const SegmentTable* segment_table = &cut_.segments;
  if constexpr (std::is_same_v<Stored, Element>) {
    if (ReadsInPlace(panel)) {
      tile.b = static_cast<const Stored*>(args_.filter) + FirstChannel(panel);
      tile.b_step = sum.result_c * sum.groups;
      segment_table = &*cut_.in_place;
    }
  }
  // The first panel of a chunk leaves its source near.
  tile.far = cut_.source_is_far && panel.first_channel == 0;
  tile.in_pairs = sum.in_pairs;
  tile.sums = scratch.sums.data();
  const bool alone = cut_.groups_apart && cut_.result_staged;
  const int64_t first_channel = alone ? panel.first_channel : FirstChannel(panel);
  if (operands.narrowed != nullptr) {
    tile.narrowed = operands.narrowed + first_channel;
  } else {
    tile.c = operands.result + first_channel;
  }
  tile.num_cols = panel.num_channels;
  tile.odd = sizeof(Stored) == 2;
  tile.stream = cut_.streams_result && IsLine(args_.result);
  const auto tiles = TilesOfWidth(cut_.kernels, panel.num_channels);
  CutShare(cut_.phases, chunk, tiles.front().rows, share, scratch.classes);
  const Range* of_phase = scratch.classes.data();
  for (size_t i = 0; i < cut_.phases.size(); ++i) {
    const int64_t parts = cut_.segments.PartsOf(i);
    for (int64_t part = 0; part < parts; ++part) {
      tile.resume = part > 0;
      tile.keep = part + 1 < parts;
      tile.fetches_result = cut_.result_is_far && !tile.stream && !tile.keep;
      const Range* pixels = of_phase;
      RowGatherer<Element> gatherer(cut_.kernels, tile);
      segment_table->ForClasses(
          i, part, scratch.segments,
          [&](const AxisClass& rows, const AxisClass& cols, const SegmentList& segments) {
            segments.Give(gatherer);
            RunClassPixels(*pixels++, chunk, cut_.phases[i], rows, cols, operands.source_offsets,
                           operands.result_offsets, gatherer);
          });
    }
    of_phase += cut_.phases[i].num_classes();
  }
  if (tile.stream) std::atomic_thread_fence(std::memory_order_seq_cst);
}

}  // namespace convgrad
