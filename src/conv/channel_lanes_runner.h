// Runs the plan of a forward convolution or an input gradient with lanes along channels: stage by
// stage, panel by panel of the filter, chunk by chunk of pixels.
#pragma once

#include <algorithm>
#include <atomic>
#include <type_traits>
#include <vector>

#include "base/memory.h"
#include "conv/algorithm.h"
#include "conv/bfloat16_pairs.h"
#include "conv/channel_lanes_plan.h"
#include "conv/class_segments.h"
#include "conv/filter_panel.h"
#include "conv/gemm_tiles.h"
#include "conv/stream_result.h"

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
    int64_t packed_from = -1;  // the first panel of the pass that is packed
    for (const Slab& stage : plan_.stages) {
      Load(stage);
      const int64_t num_panels = plan_.NumPanels();
      for (int64_t first = 0; first < num_panels; first += plan_.panels_per_pass) {
        const int64_t count = std::min(plan_.panels_per_pass, num_panels - first);
        if (packed_from != first) {
          args_.parallel.For(count,
                             [&](int64_t i) { PackPanel(PanelAt(first + i), PackedPanel(i)); });
        }
        packed_from = first;
        RunPass(stage, first, count);
      }
      Store(stage);
    }
  }

 private:
  struct ThreadScratch {
    SegmentList segments;
    AlignedArray<double> sums;
  };
  Element* PackedPanel(int64_t index) { return packed_.data() + index * plan_.PanelElements(); }

  FilterPanel PanelAt(int64_t panel) const {
    const Panels& panels = plan_.panels;
    const int64_t in_group = panel % panels.count;
    return {panel / panels.count, in_group * panels.cols,
            panels.ColsOf(in_group, plan_.sum.result_c), panels.cols};
  }

  bool StreamsResult() const;
  void PackPanel(const FilterPanel& panel, Element* to) const;
  void Load(const Slab& stage);
  void LoadSource(const Slab& slab);
  void Store(const Slab& stage);
  void RunPass(const Slab& stage, int64_t first_panel, int64_t num_panels);
  void RunTask(const Slab& chunk, const FilterPanel& panel, const Element* packed);

  const ConvArgs& args_;
  const Cut& plan_;
  const PackKernels<Stored>& pack_;
  AlignedArray<Element> packed_;
  std::vector<ThreadScratch> threads_;

  // The source and result of the current stage as the kernels see them.
  AlignedArray<Element> source_scratch_;
  AlignedArray<Compute> result_scratch_;
  const Element* source_ = nullptr;
  Compute* result_ = nullptr;
  BFloat16* narrowed_ = nullptr;  // of pairs, if it is not staged
  PixelOffsets source_offsets_{{}, 0, 0, 0}, result_offsets_{{}, 0, 0, 0};
};

template <class Stored, class Element>
bool ChannelLanesRunner<Stored, Element>::StreamsResult() const {
  return !plan_.result_staged && narrowed_ == nullptr &&
         PaysToStream(result_, plan_.sum.batch * plan_.result.Image() * int64_t{sizeof(Compute)},
                      plan_.sum.result_c * int64_t{sizeof(Compute)});
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
void ChannelLanesRunner<Stored, Element>::Load(const Slab& stage) {
  const RowRange rows = SourceRows(plan_.sum, stage);
  if (plan_.source_staged) {
    const int64_t need = plan_.SourceElements(stage);
    if (source_scratch_.size() < need) source_scratch_ = AlignedArray<Element>(need);
    source_ = source_scratch_.data();
    source_offsets_ =
        PixelOffsets(plan_.source, stage.image_begin, rows.begin, rows.end - rows.begin);
    LoadSource({stage.image_begin, stage.image_end, rows.begin, rows.end});
  } else {
    source_ = static_cast<const Element*>(plan_.sum.forward ? args_.input : args_.out_backprop);
    source_offsets_ = PixelOffsets(plan_.source, 0, 0, plan_.source.h);
  }
  if (plan_.result_staged) {
    const int64_t need = plan_.ResultElements(stage);
    if (result_scratch_.size() < need) result_scratch_ = AlignedArray<Compute>(need);
    result_ = result_scratch_.data();
    result_offsets_ =
        PixelOffsets(plan_.result, stage.image_begin, stage.row_begin, stage.num_rows());
  } else {
    if constexpr (Cut::kPairs) {
      narrowed_ = static_cast<Stored*>(args_.result);
    } else {
      result_ = static_cast<Compute*>(args_.result);
    }
    result_offsets_ = PixelOffsets(plan_.result, 0, 0, plan_.result.h);
  }
}

template <class Stored, class Element>
void ChannelLanesRunner<Stored, Element>::LoadSource(const Slab& slab) {
  const auto* source =
      static_cast<const Stored*>(plan_.sum.forward ? args_.input : args_.out_backprop);
  if constexpr (Cut::kPairs) {
    LoadSlabPairs(
        args_.parallel, args_.kernels.pack_bf16_pairs, plan_.source,
        plan_.sum.forward ? args_.problem.geometry.group_in_c : args_.problem.geometry.group_out_c,
        slab, source, source_scratch_.data());
  } else {
    LoadSlab(args_.parallel, pack_, plan_.source, slab, source, source_scratch_.data());
  }
}

template <class Stored, class Element>
void ChannelLanesRunner<Stored, Element>::Store(const Slab& stage) {
  if (!plan_.result_staged) return;
  constexpr int64_t kStored = sizeof(Stored);
  const bool stream = plan_.result.format == DataFormat::kNCHW &&
                      PaysToStream(args_.result, plan_.sum.batch * plan_.result.Image() * kStored,
                                   plan_.result.h * plan_.result.w * kStored);
  StoreSlab(args_.parallel, pack_, plan_.result, stage, result_scratch_.data(),
            static_cast<Stored*>(args_.result), stream);
}

template <class Stored, class Element>
void ChannelLanesRunner<Stored, Element>::RunPass(const Slab& stage, int64_t first_panel,
                                                  int64_t num_panels) {
  const std::vector<Slab> chunks = SplitSlab(stage, plan_.result.w, plan_.chunk_pixels);
  args_.parallel.For(static_cast<int64_t>(chunks.size()) * num_panels, [&](int64_t i) {
    const int64_t panel = i % num_panels;
    RunTask(chunks[static_cast<size_t>(i / num_panels)], PanelAt(first_panel + panel),
            PackedPanel(panel));
  });
}

// One panel of channels for one chunk of pixels.
template <class Stored, class Element>
void ChannelLanesRunner<Stored, Element>::RunTask(const Slab& chunk, const FilterPanel& panel,
                                                  const Element* packed) {
  const TapSum& sum = plan_.sum;
  ThreadScratch& scratch = threads_[static_cast<size_t>(Parallel::ThreadIndex())];
  GemmTileArgs<Element> tile{};
  tile.a = source_ + panel.group * sum.source_c;
  tile.a_step = 1;
  tile.b = packed;
  tile.b_step = plan_.panels.cols;
  tile.in_pairs = sum.in_pairs;
  tile.sums = scratch.sums.data();
  const int64_t first_channel = panel.group * sum.result_c + panel.first_channel;
  if (narrowed_ != nullptr) {
    tile.narrowed = narrowed_ + first_channel;
  } else {
    tile.c = result_ + first_channel;
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
          scratch.segments.Build(phase, rows, cols, source_offsets_, sum.source_c, tile.b_step,
                                 num_blocks * part / parts, num_blocks * (part + 1) / parts);
          scratch.segments.Give(gatherer);
          RunClassPixels(chunk, phase, rows, cols, source_offsets_, result_offsets_, gatherer);
        }
      }
    }
  }
  if (tile.stream) std::atomic_thread_fence(std::memory_order_seq_cst);
}

}  // namespace convgrad
