// Runs the plan of a forward convolution or an input gradient with lanes along channels: stage by
// stage, panel by panel of the filter, chunk by chunk of pixels.
#pragma once

#include <algorithm>
#include <atomic>
#include <iterator>
#include <type_traits>
#include <vector>

#include "base/memory.h"
#include "conv/conv2d/data/channel_lanes_plan.h"
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
  using Cut = ChannelLanesPlan<Stored, Element>;

  ChannelLanesRunner(const ConvArgs& args, const Cut& plan)
      : args_(args),
        plan_(plan),
        pack_(args.kernels.Pack<Stored>()),
        packed_(plan.panels_per_pass * plan.PanelElements()),
        threads_(static_cast<size_t>(args.parallel.num_threads())) {
    for (auto& thread : threads_) thread.sums = AlignedArray<double>(plan.SumsPerThread());
  }

  void Run() {
    if (plan_.own_stages) {
      RunOwnStages();
    } else {
      RunSharedStages();
    }
  }

 private:
  // Source and result of a stage where they don't lie as the kernels see them.
  struct Slabs {
    AlignedArray<Element> source;
    AlignedArray<Compute> result;
  };
  struct ThreadScratch {
    SegmentList segments;
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

  // Threads take stages: none waits for another before the last one is done.
  void RunOwnStages() {
    PackPanels(0, plan_.NumPanels());
    args_.parallel.For(std::ssize(plan_.stages), [&](int64_t i) {
      const Slab& stage = plan_.stages[static_cast<size_t>(i)];
      ThreadScratch& scratch = Scratch();
      const Operands operands = Load(stage, scratch.slabs);
      for (const Slab& chunk : Chunks(stage)) {
        for (int64_t panel = 0; panel < plan_.NumPanels(); ++panel) {
          RunTask(operands, chunk, PanelAt(panel), PackedPanel(panel), scratch);
        }
      }
      Store(stage, operands);
    });
  }

  // Threads share the pixels and panels of one stage after the other.
  void RunSharedStages() {
    Slabs slabs;
    int64_t packed_from = -1;  // the first panel of the pass that is packed
    for (const Slab& stage : plan_.stages) {
      const Operands operands = Load(stage, slabs);
      const int64_t num_panels = plan_.NumPanels();
      for (int64_t first = 0; first < num_panels; first += plan_.panels_per_pass) {
        const int64_t count = std::min(plan_.panels_per_pass, num_panels - first);
        if (packed_from != first) PackPanels(first, count);
        packed_from = first;
        RunPass(operands, Chunks(stage), first, count);
      }
      Store(stage, operands);
    }
  }

  Element* PackedPanel(int64_t index) { return packed_.data() + index * plan_.PanelElements(); }

  FilterPanel PanelAt(int64_t panel) const {
    const Panels& panels = plan_.panels;
    const int64_t in_group = panel % panels.count;
    return {panel / panels.count, in_group * panels.cols,
            panels.ColsOf(in_group, plan_.sum.result_c), panels.cols};
  }

  // To the beginning of the packed panels.
  void PackPanels(int64_t first, int64_t count) {
    args_.parallel.For(count, [&](int64_t i) { PackPanel(PanelAt(first + i), PackedPanel(i)); });
  }
  std::vector<Slab> Chunks(const Slab& stage) const {
    return SplitSlab(stage, plan_.result.w, plan_.chunk_pixels);
  }

  bool StreamsResult() const;
  void PackPanel(const FilterPanel& panel, Element* to) const;
  Operands Load(const Slab& stage, Slabs& slabs) const;
  void LoadSource(const Slab& slab, Element* to) const;
  void Store(const Slab& stage, const Operands& operands) const;
  void RunPass(const Operands& operands, const std::vector<Slab>& chunks, int64_t first_panel,
               int64_t num_panels);
  void RunTask(const Operands& operands, const Slab& chunk, const FilterPanel& panel,
               const Element* packed, ThreadScratch& scratch) const;

  const ConvArgs& args_;
  const Cut& plan_;
  const PackKernels<Stored>& pack_;
  AlignedArray<Element> packed_;
  std::vector<ThreadScratch> threads_;
};

template <class Stored, class Element>
bool ChannelLanesRunner<Stored, Element>::StreamsResult() const {
  if (plan_.result_staged) return false;
  constexpr int64_t kStored = sizeof(Stored);
  return plan_.panels.cols * kStored % int64_t{kAlignment} == 0 &&
         PaysToStream(args_.result, plan_.sum.batch * plan_.result.Image() * kStored,
                      plan_.sum.result_c * kStored);
}

template <class Stored, class Element>
void ChannelLanesRunner<Stored, Element>::PackPanel(const FilterPanel& panel, Element* to) const {
  const auto* filter = static_cast<const Stored*>(args_.filter);
  if constexpr (Cut::kPairs) {
    PackFilterPairs(args_.kernels.pack_bf16_pairs, args_.problem, plan_.sum, plan_.phases, filter,
                    panel, to);
  } else {
    PackFilter(pack_, plan_.sum, plan_.phases, filter, panel, to);
  }
}

template <class Stored, class Element>
auto ChannelLanesRunner<Stored, Element>::Load(const Slab& stage, Slabs& slabs) const -> Operands {
  Operands operands;
  const RowRange rows = SourceRows(plan_.sum, stage);
  if (plan_.source_staged) {
    const int64_t need = plan_.SourceElements(stage);
    if (slabs.source.size() < need) slabs.source = AlignedArray<Element>(need);
    operands.source = slabs.source.data();
    operands.source_offsets =
        PixelOffsets(plan_.source, stage.image_begin, rows.begin, rows.end - rows.begin);
    LoadSource({stage.image_begin, stage.image_end, rows.begin, rows.end}, slabs.source.data());
  } else {
    operands.source =
        static_cast<const Element*>(plan_.sum.forward ? args_.input : args_.out_backprop);
    operands.source_offsets = PixelOffsets(plan_.source, 0, 0, plan_.source.h);
  }
  if (plan_.result_staged) {
    const int64_t need = plan_.ResultElements(stage);
    if (slabs.result.size() < need) slabs.result = AlignedArray<Compute>(need);
    operands.result = slabs.result.data();
    operands.result_offsets =
        PixelOffsets(plan_.result, stage.image_begin, stage.row_begin, stage.num_rows());
  } else {
    if constexpr (Cut::kPairs) {
      operands.narrowed = static_cast<Stored*>(args_.result);
    } else {
      operands.result = static_cast<Compute*>(args_.result);
    }
    operands.result_offsets = PixelOffsets(plan_.result, 0, 0, plan_.result.h);
  }
  return operands;
}

template <class Stored, class Element>
void ChannelLanesRunner<Stored, Element>::LoadSource(const Slab& slab, Element* to) const {
  const auto* source =
      static_cast<const Stored*>(plan_.sum.forward ? args_.input : args_.out_backprop);
  if constexpr (Cut::kPairs) {
    LoadSlabPairs(
        args_.parallel, args_.kernels.pack_bf16_pairs, plan_.source,
        plan_.sum.forward ? args_.problem.geometry.group_in_c : args_.problem.geometry.group_out_c,
        slab, source, to);
  } else {
    LoadKept(args_.parallel, pack_,
             KeptTensor(plan_.source_kept, plan_.source.format, plan_.source.c), slab, source, to);
  }
}

template <class Stored, class Element>
void ChannelLanesRunner<Stored, Element>::Store(const Slab& stage, const Operands& operands) const {
  if (!plan_.result_staged) return;
  const KeptTensor result(plan_.result_kept, plan_.result.format, plan_.result.c);
  const bool stream = plan_.result.format == DataFormat::kNCHW &&
                      PaysToStream(args_.result, args_.problem.ResultBytes(),
                                   result.whole.h * result.whole.w * int64_t{sizeof(Stored)});
  StoreKept(args_.parallel, args_.kernels, result, stage, operands.result,
            static_cast<Stored*>(args_.result), stream);
}

template <class Stored, class Element>
void ChannelLanesRunner<Stored, Element>::RunPass(const Operands& operands,
                                                  const std::vector<Slab>& chunks,
                                                  int64_t first_panel, int64_t num_panels) {
  args_.parallel.For(std::ssize(chunks) * num_panels, [&](int64_t i) {
    const int64_t panel = i % num_panels;
    RunTask(operands, chunks[static_cast<size_t>(i / num_panels)], PanelAt(first_panel + panel),
            PackedPanel(panel), Scratch());
  });
}

// One panel of channels for one chunk of pixels.
template <class Stored, class Element>
void ChannelLanesRunner<Stored, Element>::RunTask(const Operands& operands, const Slab& chunk,
                                                  const FilterPanel& panel, const Element* packed,
                                                  ThreadScratch& scratch) const {
  const TapSum& sum = plan_.sum;
  GemmTileArgs<Element> tile{};
  tile.a = operands.source + panel.group * sum.source_c;
  tile.a_step = 1;
  tile.b = packed;
  tile.b_step = plan_.panels.cols;
  tile.in_pairs = sum.in_pairs;
  tile.sums = scratch.sums.data();
  const int64_t first_channel = panel.group * sum.result_c + panel.first_channel;
  if (operands.narrowed != nullptr) {
    tile.narrowed = operands.narrowed + first_channel;
  } else {
    tile.c = operands.result + first_channel;
  }
  tile.num_cols = panel.num_channels;
  tile.odd = sizeof(Stored) == 2;
  tile.stream = StreamsResult();
  const auto tiles = TilesOfWidth(plan_.kernels, panel.num_channels);
  for (const TapPhase& phase : plan_.phases) {
    const int64_t parts = plan_.PartsOf(phase);
    const int64_t num_blocks = static_cast<int64_t>(phase.blocks.size());
    for (int64_t part = 0; part < parts; ++part) {
      tile.resume = part > 0;
      tile.keep = part + 1 < parts;
      RowGatherer<Element> gatherer(tiles, tile);
      for (const AxisClass& rows : phase.rows->classes) {
        for (const AxisClass& cols : phase.cols->classes) {
          scratch.segments.Build(phase, rows, cols, operands.source_offsets, sum.source_c,
                                 tile.b_step, num_blocks * part / parts,
                                 num_blocks * (part + 1) / parts);
          scratch.segments.Give(gatherer);
          RunClassPixels(chunk, phase, rows, cols, operands.source_offsets, operands.result_offsets,
                         gatherer);
        }
      }
    }
  }
  if (tile.stream) std::atomic_thread_fence(std::memory_order_seq_cst);
}

}  // namespace convgrad
