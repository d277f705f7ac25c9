// Runs the plan of a grouped forward convolution or input gradient whose groups are packed one by
// one: every task packs the source of its group and slab, multiplies, and stores.
#pragma once

#include <algorithm>
#include <atomic>
#include <iterator>
#include <type_traits>
#include <vector>

#include "base/memory.h"
#include "conv/conv2d/data/group_lanes_plan.h"
#include "conv/gemm/class_segments.h"
#include "conv/move/filter_panel.h"
#include "conv/move/stream_result.h"
#include "conv/plan/algorithm.h"

namespace convgrad {

template <class Stored>
class GroupLanesRunner {
 public:
  using Compute = ComputeType<Stored>;

  GroupLanesRunner(const ConvArgs& args, const GroupLanesPlan<Stored>& plan)
      : args_(args),
        plan_(plan),
        pack_(args.kernels.Pack<Stored>()),
        source_(static_cast<const Stored*>(plan.sum.forward ? args.input : args.out_backprop)),
        filter_(plan.sum.groups * plan.panels.count * plan.PanelElements()),
        threads_(static_cast<size_t>(args.parallel.num_threads())) {}

  void Run() {
    const int64_t groups = plan_.sum.groups;
    args_.parallel.For(groups * plan_.panels.count, [&](int64_t i) {
      PackFilter(pack_, plan_.sum, plan_.phases, static_cast<const Stored*>(args_.filter),
                 PanelAt(i), PackedPanel(i));
    });
    // Groups of a slab one after the other: the lines that they share are then in a cache.
    args_.parallel.For(std::ssize(plan_.slabs) * groups, [&](int64_t i) {
      RunTask(plan_.slabs[static_cast<size_t>(i / groups)], i % groups);
    });
  }

 private:
  struct ThreadScratch {
    AlignedArray<Compute> source;  // [image][row][column][channel of the group]
    AlignedArray<Compute> result;  // likewise, unless it is written in place
    AlignedArray<double> sums;
    SegmentList segments;
  };

  Compute* PackedPanel(int64_t index) { return filter_.data() + index * plan_.PanelElements(); }

  // Panels of all groups, one group's behind the other's.
  FilterPanel PanelAt(int64_t index) const {
    const Panels& panels = plan_.panels;
    const int64_t in_group = index % panels.count;
    return {index / panels.count, in_group * panels.cols,
            panels.ColsOf(in_group, plan_.sum.result_c), panels.cols};
  }

  ThreadScratch& Scratch();
  void RunTask(const Slab& slab, int64_t group);
  void PackSource(const Slab& source, int64_t group, Compute* to) const;
  void RunPanel(const Slab& slab, const PixelOffsets& source, const FilterPanel& panel,
                const Compute* filter, ThreadScratch& scratch) const;
  void Store(const Slab& slab, int64_t group, const Compute* from) const;

  const ConvArgs& args_;
  const GroupLanesPlan<Stored>& plan_;
  const PackKernels<Stored>& pack_;
  const Stored* source_;
  AlignedArray<Compute> filter_;
  std::vector<ThreadScratch> threads_;
};

template <class Stored>
auto GroupLanesRunner<Stored>::Scratch() -> ThreadScratch& {
  ThreadScratch& scratch = threads_[static_cast<size_t>(Parallel::ThreadIndex())];
  if (scratch.sums.size() == 0) {
    scratch.source = AlignedArray<Compute>(plan_.SourceElements());
    scratch.result = AlignedArray<Compute>(plan_.ResultElements());
    scratch.sums = AlignedArray<double>(plan_.SumsPerThread());
  }
  return scratch;
}

template <class Stored>
void GroupLanesRunner<Stored>::RunTask(const Slab& slab, int64_t group) {
  ThreadScratch& scratch = Scratch();
  const RowRange rows = SourceRows(plan_.sum, slab);
  PackSource({slab.image_begin, slab.image_end, rows.begin, rows.end}, group,
             scratch.source.data());
  const PixelOffsets source({DataFormat::kNHWC, plan_.source.h, plan_.source.w, plan_.sum.source_c},
                            slab.image_begin, rows.begin, rows.end - rows.begin);
  for (int64_t i = 0; i < plan_.panels.count; ++i) {
    const int64_t panel = group * plan_.panels.count + i;
    RunPanel(slab, source, PanelAt(panel), PackedPanel(panel), scratch);
  }
  if (!plan_.in_place) Store(slab, group, scratch.result.data());
}

template <class Stored>
void GroupLanesRunner<Stored>::PackSource(const Slab& source, int64_t group, Compute* to) const {
  const DataShape& shape = plan_.source;
  const int64_t channels = plan_.sum.source_c, plane = shape.h * shape.w;
  const int64_t pixel = source.row_begin * shape.w, pixels = source.num_rows() * shape.w;
  for (int64_t n = source.image_begin; n < source.image_end; ++n, to += pixels * channels) {
    const Stored* image = source_ + n * shape.Image();
    if (shape.format == DataFormat::kNHWC) {
      pack_.copy_widen(image + pixel * shape.c + group * channels, shape.c, to, channels, pixels,
                       channels);
    } else {
      LoadPlanes(pack_, image + group * channels * plane + pixel, plane, channels, pixels, to,
                 channels);
    }
  }
}

template <class Stored>
void GroupLanesRunner<Stored>::RunPanel(const Slab& slab, const PixelOffsets& source,
                                        const FilterPanel& panel, const Compute* filter,
                                        ThreadScratch& scratch) const {
  const TapSum& sum = plan_.sum;
  GemmTileArgs<Compute> tile{};
  tile.a = scratch.source.data();
  tile.a_step = 1;
  tile.b = filter;
  tile.b_step = panel.cols;
  tile.in_pairs = sum.in_pairs;
  tile.sums = scratch.sums.data();
  tile.num_cols = panel.num_channels;
  tile.odd = sizeof(Stored) == 2;
  PixelOffsets result({DataFormat::kNHWC, plan_.result.h, plan_.result.w, sum.result_c},
                      slab.image_begin, slab.row_begin, slab.num_rows());
  if constexpr (std::is_same_v<Stored, Compute>) {
    if (plan_.in_place) {
      tile.c = static_cast<Compute*>(args_.result) + panel.group * sum.result_c;
      tile.stream = PaysToStream(args_.result, args_.problem.ResultBytes(),
                                 sum.result_c * int64_t{sizeof(Compute)});
      result = PixelOffsets(plan_.result, 0, 0, plan_.result.h);
    }
  }
  if (!plan_.in_place) tile.c = scratch.result.data();
  tile.c += panel.first_channel;
  RowGatherer<Compute> gatherer(TilesOfWidth(plan_.kernels, panel.num_channels), tile);
  for (const TapPhase& phase : plan_.phases) {
    for (const AxisClass& rows : phase.rows->classes) {
      for (const AxisClass& cols : phase.cols->classes) {
        scratch.segments.Build(phase, rows, cols, source, sum.source_c, tile.b_step, 0,
                               std::ssize(phase.blocks));
        scratch.segments.Give(gatherer);
        RunClassPixels(slab, phase, rows, cols, source, result, gatherer);
      }
    }
  }
  if (tile.stream) std::atomic_thread_fence(std::memory_order_seq_cst);
}

// [image][row][column][channel of the group] to where the result lies.
template <class Stored>
void GroupLanesRunner<Stored>::Store(const Slab& slab, int64_t group, const Compute* from) const {
  const DataShape& shape = plan_.result;
  const int64_t channels = plan_.sum.result_c, plane = shape.h * shape.w;
  const int64_t pixel = slab.row_begin * shape.w, pixels = slab.num_rows() * shape.w;
  const bool stream =
      PaysToStream(args_.result, args_.problem.ResultBytes(), plane * int64_t{sizeof(Stored)});
  for (int64_t n = slab.image_begin; n < slab.image_end; ++n) {
    Stored* image = static_cast<Stored*>(args_.result) + n * shape.Image();
    if (shape.format == DataFormat::kNCHW) {
      Stored* planes = image + group * channels * plane + pixel;
      if (stream) {
        pack_.transpose_stream(from, channels, planes, plane, pixels, channels);
        std::atomic_thread_fence(std::memory_order_seq_cst);
      } else {
        pack_.transpose_narrow(from, channels, planes, plane, pixels, channels, 0);
      }
      from += pixels * channels;
      continue;
    }
    Stored* to = image + pixel * shape.c + group * channels;
    for (int64_t i = 0; i < pixels; ++i, to += shape.c, from += channels) {
      pack_.narrow(from, to, channels);
    }
  }
}

}  // namespace convgrad
