// Runs a forward convolution or an input gradient with lanes along pixels as it is cut: rows of the
// micro-kernel are channels of the result, columns its pixels, row after row of a plane without a
// break. For that the source is copied into padded planes where a tap is one fixed distance. Where
// a pixel meets one pixel, as under 1x1 filters, its planes are read as they lie, or panel by
// panel.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <type_traits>

#include "base/memory.h"
#include "base/parallel.h"
#include "conv/conv2d/data/block_rows_runner.h"
#include "conv/conv2d/data/pixel_lanes_cut.h"
#include "conv/conv2d/data/plane_packer.h"
#include "conv/gemm/tiles.h"
#include "conv/move/bfloat16_pairs.h"
#include "conv/move/filter_panel.h"
#include "conv/move/special_numbers.h"
#include "conv/move/stream_result.h"
#include "conv/plan/algorithm.h"

namespace convgrad {

template <class Stored, class Element>
class PixelLanesRunner {
 public:
  using Compute = ComputeType<Stored>;
  using Cut = PixelLanesCut<Stored, Element>;
  static constexpr bool kPairs = Cut::kPairs;
  // The micro-kernel gives these.
  using Result = std::conditional_t<kPairs, Stored, Compute>;

  PixelLanesRunner(const ConvArgs& args, const Cut& cut)
      : args_(args),
        cut_(cut),
        pack_(args.kernels.Pack<Stored>()),
        source_(static_cast<const Stored*>(args.Source(cut.sum.forward))),
        threads_(args.parallel) {}

  // False where the filter forbids to multiply padding.
  bool Run();

 private:
  struct ThreadScratch {
    explicit ThreadScratch(const Cut& cut)
        : planes(cut.SourceElements()),
          result(cut.ResultElements()),
          block_sums(cut.BlockSums()),
          sums(cut.SumsPerThread()) {
      std::fill_n(planes.data(), planes.size(), Element{});
    }
    AlignedArray<Element> planes;      // [source channel][row residue][column residue][plane]
    AlignedArray<Compute> result;      // [channel of the group][part of a phase]
    AlignedArray<Compute> block_sums;  // [row of cut_.block_rows][part of a phase]
    AlignedArray<double> sums;
  };
  // Pixels of a phase in a part of an image, and channels of one group.
  struct Place {
    int64_t image, first_position, group;
    size_t phase;
    int64_t num_pixels;
    Range rows;  // of the result's channels in the group
  };
  // A panel as the micro-kernel finds it, and the memory that it asks for ahead.
  struct PanelSource {
    const Element* data;
    int64_t term_step;
    const TermList* terms;
    const Stored* ahead = nullptr;
    int64_t ahead_step = 0;
  };
  void PackFilterBlocks();
  void RunPart(int64_t image, int64_t part, int64_t share);
  void RunBlockRowsOf(int64_t image, int64_t first, int64_t group, ThreadScratch& scratch) const;
  void FoldBlockRows(const Place& place, const ThreadScratch& scratch, Result* to) const;
  void RunPhase(const Place& place, ThreadScratch& scratch, Result* to) const;
  PanelSource FindPanel(const Place& place, const Panels& panels, const Range& taken,
                        Element* scratch) const;
  void RunPanel(GemmTileArgs<Element>& args, const PanelSource& from, const Range& rows) const;
  void RunRows(const GemmTileArgs<Element>& args, int64_t begin, int64_t end) const;
  void StorePhase(const Place& place, int64_t num_positions, const Compute* from) const;

  const ConvArgs& args_;
  const Cut& cut_;
  const PackKernels<Stored>& pack_;
  const Stored* source_;
  AlignedArray<Element> filter_;  // [group][row block][terms][tile rows]
  PerThread<ThreadScratch> threads_;
};

template <class Stored, class Element>
bool PixelLanesRunner<Stored, Element>::Run() {
  if constexpr (!kPairs) {  // exact pairs are finite
    const int64_t filter_size = args_.problem.NumElements(Role::kFilter);
    if (cut_.multiplies_padding && !IsFinite<Stored>(args_.filter, filter_size)) return false;
  }
  filter_ = AlignedArray<Element>(cut_.FilterElements());
  if (cut_.FilterElements() > 0) PackFilterBlocks();
  args_.parallel.For(cut_.NumTasks(), [&](int64_t i) {
    const int64_t part = i / cut_.shares;
    RunPart(part / cut_.parts.count, part % cut_.parts.count, i % cut_.shares);
  });
  return true;
}

// A forward pass packs all blocks of a group together: its rows lie side by side.
template <class Stored, class Element>
void PixelLanesRunner<Stored, Element>::PackFilterBlocks() {
  const TapSum& sum = cut_.sum;
  const int64_t together = sum.forward && !kPairs ? cut_.row_blocks : 1;
  const auto pack = [&](int64_t i, const Range& terms) {
    const int64_t block = i * together, first = block % cut_.row_blocks * cut_.tile_rows;
    const int64_t rows = std::min(together * cut_.tile_rows, sum.result_c - first);
    const FilterPanel some = {block / cut_.row_blocks, first, rows, cut_.tile_rows,
                              cut_.BlockElements()};
    PackPanel<Stored>(args_, sum, cut_.phases, some, terms,
                      filter_.data() + block * cut_.BlockElements());
  };
  ForPanelParts(args_.parallel, sum.groups * cut_.row_blocks / together, TermsOf(sum, cut_.phases),
                pack);
}

// Works on the same positions of every phase's rows, of one image and a share of the channels.
template <class Stored, class Element>
void PixelLanesRunner<Stored, Element>::RunPart(int64_t image, int64_t part, int64_t share) {
  ThreadScratch& scratch = threads_.Own(cut_);
  const int64_t first = part * cut_.parts.positions;
  if constexpr (!kPairs) {  // pairs go by panels
    if (!cut_.by_panels && !cut_.block_rows) {
      const PlanePacker<Stored> packer(pack_, cut_.source, cut_.rows, cut_.cols,
                                       {cut_.plane_size, cut_.channel_stride});
      packer.Pack(source_ + image * cut_.source.Image(), first,
                  cut_.PlaneRows(cut_.parts.positions), scratch.planes.data());
    }
  }
  for (int64_t group = 0; group < cut_.sum.groups; ++group) {
    if (cut_.block_rows) RunBlockRowsOf(image, first, group, scratch);
    for (size_t i = 0; i < cut_.phases.size(); ++i) {
      const TapPhase& phase = cut_.phases[i];
      const int64_t positions = std::min(cut_.parts.positions, phase.rows->count - first);
      if (positions <= 0) continue;
      const Place place = {image,
                           first,
                           group,
                           i,
                           (positions - 1) * cut_.cols.extent + phase.cols->count,
                           cut_.RowsOf(share)};
      if (cut_.result_in_place) {
        RunPhase(place, scratch,
                 static_cast<Result*>(args_.result) + first * cut_.result.w +
                     (image * cut_.sum.groups + group) * cut_.sum.result_c * cut_.result_stride);
      } else if constexpr (!kPairs) {
        RunPhase(place, scratch, scratch.result.data());
        StorePhase(place, positions, scratch.result.data());
      }
    }
  }
}

// The sums of all blocks of a group, for the part of an image from position `first` on.
template <class Stored, class Element>
void PixelLanesRunner<Stored, Element>::RunBlockRowsOf(int64_t image, int64_t first, int64_t group,
                                                       ThreadScratch& scratch) const {
  if constexpr (std::is_same_v<Stored, Element>) {
    const BlockRows& blocks = *cut_.block_rows;
    const int64_t channels = cut_.sum.source_c;
    const PlaneColumns<Stored> columns(pack_, cut_.source, cut_.rows, cut_.cols,
                                       source_ + image * cut_.source.Image(),
                                       {group * channels, (group + 1) * channels}, first);
    RunBlockRows<Element>(
        cut_.kernels, blocks,
        {static_cast<const Element*>(args_.filter) + group * blocks.group_step, columns,
         scratch.planes.data(), cut_.channel_stride, scratch.block_sums.data(),
         cut_.BlockSumsStride(), scratch.sums.data(), cut_.PartPositions()});
  }
}

template <class Stored, class Element>
void PixelLanesRunner<Stored, Element>::FoldBlockRows(const Place& place,
                                                      const ThreadScratch& scratch,
                                                      Result* to) const {
  if constexpr (std::is_same_v<Stored, Element>) {
    const BlockRows& blocks = *cut_.block_rows;
    const int64_t stride = cut_.BlockSumsStride();
    for (int64_t channel = 0; channel < cut_.sum.result_c; ++channel) {
      const int64_t first = blocks.SumsOf(place.phase, channel) * stride + blocks.most_shift;
      cut_.kernels.fold_blocks(scratch.block_sums.data() + first, stride,
                               blocks.num_blocks[place.phase], to + channel * cut_.result_stride,
                               place.num_pixels);
    }
  }
}

template <class Stored, class Element>
void PixelLanesRunner<Stored, Element>::RunPhase(const Place& place, ThreadScratch& scratch,
                                                 Result* to) const {
  if (cut_.block_rows) return FoldBlockRows(place, scratch, to);
  const TapSum& sum = cut_.sum;
  GemmTileArgs<Element> args{};
  args.a = cut_.filter_steps
               ? static_cast<const Element*>(args_.filter) + place.group * cut_.filter_steps->group
               : filter_.data() + place.group * cut_.row_blocks * cut_.BlockElements();
  args.a_step = cut_.FilterTermStep();
  args.in_pairs = sum.in_pairs;
  args.sums = scratch.sums.data();
  args.odd = sizeof(Stored) == 2;
  const Panels panels = CutPanels(cut_.kernels, place.num_pixels, cut_.panel_cols);
  for (int64_t panel = 0; panel < panels.count; panel += args.num_panels) {
    Result* const result = to + panel * panels.cols;
    args.num_cols = panels.ColsOf(panel, place.num_pixels);
    args.num_panels = cut_.PanelsAtOnce(panels.count - 1 - panel);  // the last may be narrower
    if constexpr (kPairs) {
      args.narrowed = result;
    } else {
      args.c = result;
    }
    args.stream = cut_.streams_result && IsLine(result);
    args.fetches_result = cut_.result_is_far && !args.stream;
    RunPanel(args,
             FindPanel(place, panels, {panel, panel + args.num_panels}, scratch.planes.data()),
             place.rows);
  }
  if (args.stream) std::atomic_thread_fence(std::memory_order_seq_cst);
}

// Copies the panels' part of planes that meet their pixels one to one, unless it can be read where
// it lies: no tile must reach past the end of the tensor.
template <class Stored, class Element>
typename PixelLanesRunner<Stored, Element>::PanelSource
PixelLanesRunner<Stored, Element>::FindPanel(const Place& place, const Panels& panels,
                                             const Range& taken, Element* scratch) const {
  const TapSum& sum = cut_.sum;
  PanelSource found = {scratch, cut_.TermStep(cut_.channel_stride), &cut_.terms[place.phase]};
  if (!cut_.by_panels) {
    found.data += place.group * sum.source_c * cut_.channel_stride + taken.begin * panels.cols;
    return found;
  }
  constexpr int64_t kChannels = kPairs ? 2 : 1;  // of an element
  const ConvGeometry& g = args_.problem.geometry;
  const int64_t channels = sum.forward ? g.group_in_c : g.group_out_c;
  const int64_t plane = cut_.source.h * cut_.source.w;
  const int64_t first_plane = (place.image * sum.groups + place.group) * channels;
  const int64_t first = place.first_position * cut_.source.w + taken.begin * panels.cols;
  const Stored* const from = source_ + first_plane * plane + first;
  // As far behind each panel as a few are wide, or the first ones of the planes that follow. Where
  // planes are no whole lines, the next panel's first line is this one's last: so the lines are
  // told by their last numbers.
  constexpr int64_t kLast = kAlignment / int64_t{sizeof(Stored)} - 1;
  const int64_t few = std::min(taken.size(), cut_.few_panels);
  found.ahead =
      taken.end < panels.count ? from + few * panels.cols + kLast : from - first + channels * plane;
  found.ahead_step = kChannels * plane * int64_t{sizeof(Stored)};
  const int64_t cols =
      std::min(place.num_pixels - taken.begin * panels.cols, taken.size() * panels.cols);
  if constexpr (std::is_same_v<Stored, Element>) {
    const int64_t last_cols = panels.ColsOf(taken.end - 1, place.num_pixels);
    const int64_t reach =
        (taken.size() - 1) * panels.cols + TilesOfWidth(cut_.kernels, last_cols).front().cols;
    const int64_t behind = (first_plane + channels - 1) * plane + first + reach;
    if (cut_.source_in_place && behind <= sum.batch * sum.groups * channels * plane) {
      found.data = from;
      found.term_step = cut_.TermStep(plane);
      found.terms = &cut_.in_place[place.phase];
      return found;
    }
  }
  if constexpr (kPairs) {
    args_.kernels.pack_bf16_pairs.pair_rows(from, plane, scratch, cut_.channel_stride, channels,
                                            cols);
  } else {
    pack_.copy_widen(from, plane, scratch, cut_.channel_stride, channels, cols);
  }
  return found;
}

// One panel of pixels, or several side by side. The first blocks of rows fetch the lines of what is
// wanted next, of all its channels.
template <class Stored, class Element>
void PixelLanesRunner<Stored, Element>::RunPanel(GemmTileArgs<Element>& args,
                                                 const PanelSource& from, const Range& rows) const {
  args.b = from.data;
  args.b_step = from.term_step;
  args.segments = from.terms->segments.data();
  args.block_ends = from.terms->block_ends.data();
  args.num_blocks = std::ssize(from.terms->block_ends);
  int64_t row = rows.begin;
  if (from.ahead != nullptr) {
    const int64_t lines = CeilDiv(args.num_cols * int64_t{sizeof(Stored)}, kLineBytes);
    args.ahead = from.ahead;
    args.ahead_step = from.ahead_step;
    args.ahead_tile_step = args.ahead_bytes =
        kLineBytes * CeilDiv(lines, CeilDiv(rows.size(), cut_.tile_rows));
    row = std::min(row + lines * cut_.tile_rows, rows.end);
    RunRows(args, rows.begin, row);
  }
  // Blocks of the filter follow each other, which the machine's own prefetcher sees.
  args.ahead = from.data;
  args.ahead_step = args.ahead_tile_step = args.ahead_bytes = 0;
  if (row < rows.end) RunRows(args, row, rows.end);
}

// Channels [begin, end) of the group, from the first of a row block on.
template <class Stored, class Element>
void PixelLanesRunner<Stored, Element>::RunRows(const GemmTileArgs<Element>& args, int64_t begin,
                                                int64_t end) const {
  RowGatherer<Element> gatherer(cut_.kernels, args);
  if (cut_.filter_steps) {
    const int64_t step = cut_.filter_steps->row;
    gatherer.Add({end - begin, begin * step, step, begin * cut_.result_stride, cut_.result_stride});
    return gatherer.Flush();
  }
  const int64_t block_elements = cut_.BlockElements();
  int64_t block = begin / cut_.tile_rows * block_elements;
  for (int64_t row = begin; row < end; row += cut_.tile_rows, block += block_elements) {
    gatherer.Add({std::min(cut_.tile_rows, end - row), block, 1, row * cut_.result_stride,
                  cut_.result_stride});
  }
  gatherer.Flush();
}

template <class Stored, class Element>
void PixelLanesRunner<Stored, Element>::StorePhase(const Place& place, int64_t num_positions,
                                                   const Compute* from) const {
  const DataShape& shape = cut_.result;
  const TapPhase& phase = cut_.phases[place.phase];
  const int64_t channels = cut_.sum.result_c, first_channel = place.group * channels;
  Stored* to = static_cast<Stored*>(args_.result) + place.image * shape.Image();
  if (cut_.result_is_planes) {
    for (int64_t q = place.rows.begin; q < place.rows.end; ++q) {
      Stored* plane = to + ((first_channel + q) * shape.h + place.first_position) * shape.w;
      pack_.narrow(from + q * cut_.result_stride, plane, num_positions * shape.w);
    }
    return;
  }
  for (int64_t i = 0; i < num_positions; ++i, from += cut_.cols.extent) {
    const int64_t row = phase.rows->first + (place.first_position + i) * phase.rows->step;
    const int64_t pixel = row * shape.w + phase.cols->first;
    if (shape.format == DataFormat::kNHWC) {
      pack_.transpose_narrow(from, cut_.result_stride, to + pixel * shape.c + first_channel,
                             phase.cols->step * shape.c, channels, phase.cols->count, 0);
      continue;
    }
    for (int64_t q = 0; q < channels; ++q) {
      Stored* plane = to + (first_channel + q) * shape.h * shape.w + pixel;
      if (phase.cols->step == 1) {
        pack_.narrow(from + q * cut_.result_stride, plane, phase.cols->count);
      } else {
        pack_.transpose_narrow(from + q * cut_.result_stride, cut_.result_stride, plane,
                               phase.cols->step, 1, phase.cols->count, 0);
      }
    }
  }
}

}  // namespace convgrad
