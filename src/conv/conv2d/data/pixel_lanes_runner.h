// Runs the plan of a forward convolution or an input gradient with lanes along pixels: rows of the
// micro-kernel are channels of the result, columns its pixels, row after row of a plane without a
// break. For that the source is copied into padded planes where a tap is one fixed distance.
#pragma once

#include <algorithm>
#include <atomic>
#include <type_traits>
#include <vector>

#include "base/memory.h"
#include "conv/conv2d/data/pixel_lanes_plan.h"
#include "conv/gemm/tiles.h"
#include "conv/move/bfloat16_pairs.h"
#include "conv/move/filter_panel.h"
#include "conv/plan/algorithm.h"

namespace convgrad {

template <class Stored, class Element>
class PixelLanesRunner {
 public:
  using Compute = ComputeType<Stored>;
  static constexpr bool kPairs = PixelLanesPlan<Stored, Element>::kPairs;
  // What the micro-kernel gives.
  using Result = std::conditional_t<kPairs, Stored, Compute>;

  PixelLanesRunner(const ConvArgs& args, const PixelLanesPlan<Stored, Element>& plan);
  void Run();

 private:
  struct ThreadScratch {
    AlignedArray<Element> planes;  // [source channel][row residue][column residue][plane]
    AlignedArray<Compute> result;  // [channel of the group][band of a phase]
    AlignedArray<double> sums;
  };
  // The terms of a phase, the same for all of its pixels.
  struct TermList {
    std::vector<GemmSegment> segments;
    std::vector<int64_t> block_ends;
  };

  // Of a row block of the filter.
  int64_t BlockElements() const { return TermsOf(plan_.sum, plan_.phases) * plan_.tile_rows; }
  TermList ListTerms(size_t row_phase, size_t col_phase, const TapPhase& phase) const;
  void RunBand(int64_t image, int64_t band);
  void PackFilterBlock(const FilterPanel& block, Element* to) const;
  void PackBand(int64_t image, int64_t first_position, Element* planes) const;
  void PackPlanes(int64_t image, int64_t first_position, int64_t plane_rows, Compute* planes) const;
  void PackRow(int64_t image, int64_t source_row, int64_t col_residue, Compute* to) const;
  void RunPhase(int64_t group, size_t phase, int64_t num_pixels, const Element* planes,
                ThreadScratch& scratch, Result* to) const;
  void RunRows(const GemmTileArgs<Element>& args, int64_t begin, int64_t end) const;
  void StorePhase(int64_t image, int64_t group, const TapPhase& phase, int64_t first_position,
                  int64_t num_positions, const Compute* from) const;

  const ConvArgs& args_;
  const PixelLanesPlan<Stored, Element>& plan_;
  const PackKernels<Stored>& pack_;
  const Stored* source_;
  AlignedArray<Element> filter_;  // [group][row block][terms][tile rows]
  std::vector<TermList> terms_;   // by phase
  int64_t b_step_;
  std::vector<ThreadScratch> threads_;
};

template <class Stored, class Element>
PixelLanesRunner<Stored, Element>::PixelLanesRunner(const ConvArgs& args,
                                                    const PixelLanesPlan<Stored, Element>& plan)
    : args_(args),
      plan_(plan),
      pack_(args.kernels.Pack<Stored>()),
      source_(static_cast<const Stored*>(plan.sum.forward ? args.input : args.out_backprop)),
      filter_(plan.FilterElements()),
      // Terms run along channels, or, where there is one, along the taps of a filter row.
      b_step_(plan.sum.source_c > 1 ? plan.channel_stride : 1),
      threads_(static_cast<size_t>(args.parallel.num_threads())) {
  for (size_t i = 0; i < plan.phases.size(); ++i) {
    const size_t num_cols = plan.sum.col_phases.size();
    terms_.push_back(ListTerms(i / num_cols, i % num_cols, plan.phases[i]));
  }
}

template <class Stored, class Element>
auto PixelLanesRunner<Stored, Element>::ListTerms(size_t row_phase, size_t col_phase,
                                                  const TapPhase& phase) const -> TermList {
  TermList list;
  const auto& rows = plan_.rows.taps[row_phase];
  const auto& cols = plan_.cols.taps[col_phase];
  const int64_t num_cols = static_cast<int64_t>(cols.size());
  const int64_t col_residues = static_cast<int64_t>(plan_.cols.residues.size());
  for (const TapBlock& block : phase.blocks) {
    const size_t block_begin = list.segments.size();
    for (int64_t tap = block.tap_begin; tap < block.tap_end; ++tap) {
      const auto& row = rows[static_cast<size_t>(tap / num_cols)];
      const auto& col = cols[static_cast<size_t>(tap % num_cols)];
      const int64_t plane = row.plane * col_residues + col.plane;
      const GemmSegment next = {
          (phase.first_term + tap * plan_.sum.source_c + block.channel_begin) * plan_.tile_rows,
          block.channel_begin * plan_.channel_stride + plane * plan_.plane_size +
              (row.index - plan_.rows.low) * plan_.cols.extent + col.index - plan_.cols.low,
          block.channel_end - block.channel_begin};
      AppendTerms(next, {plan_.tile_rows, b_step_, phase.in_pairs}, block_begin, list.segments);
    }
    list.block_ends.push_back(static_cast<int64_t>(list.segments.size()));
  }
  if (list.block_ends.empty()) list.block_ends.push_back(0);
  return list;
}

template <class Stored, class Element>
void PixelLanesRunner<Stored, Element>::Run() {
  const TapSum& sum = plan_.sum;
  args_.parallel.For(sum.groups * plan_.row_blocks, [&](int64_t i) {
    const int64_t first = i % plan_.row_blocks * plan_.tile_rows;
    PackFilterBlock({i / plan_.row_blocks, first, std::min(plan_.tile_rows, sum.result_c - first),
                     plan_.tile_rows},
                    filter_.data() + i * BlockElements());
  });
  args_.parallel.For(sum.batch * plan_.num_bands,
                     [&](int64_t i) { RunBand(i / plan_.num_bands, i % plan_.num_bands); });
}

template <class Stored, class Element>
void PixelLanesRunner<Stored, Element>::PackFilterBlock(const FilterPanel& block,
                                                        Element* to) const {
  const auto* filter = static_cast<const Stored*>(args_.filter);
  if constexpr (kPairs) {
    PackFilterPairs(args_.kernels.pack_bf16_pairs, args_.problem, plan_.sum, plan_.phases, filter,
                    block, to);
  } else {
    PackFilter(pack_, plan_.sum, plan_.phases, filter, block, to);
  }
}

// The same positions of every phase's rows, for one image.
template <class Stored, class Element>
void PixelLanesRunner<Stored, Element>::RunBand(int64_t image, int64_t band) {
  ThreadScratch& scratch = threads_[static_cast<size_t>(Parallel::ThreadIndex())];
  if (scratch.planes.size() == 0) {
    scratch.planes = AlignedArray<Element>(plan_.BandSourceElements());
    std::fill_n(scratch.planes.data(), scratch.planes.size(), Element{});
    scratch.result = AlignedArray<Compute>(plan_.BandResultElements());
    scratch.sums = AlignedArray<double>(kMaxTileRows * plan_.panel_cols * 2);
  }
  const int64_t first = band * plan_.band_positions;
  const Element* planes = scratch.planes.data();
  if constexpr (std::is_same_v<Stored, Element>) {
    if (plan_.source_in_place)
      planes = source_ + image * plan_.source.Image() + first * plan_.source.w;
  }
  if (!plan_.source_in_place) PackBand(image, first, scratch.planes.data());
  for (int64_t group = 0; group < plan_.sum.groups; ++group) {
    for (size_t i = 0; i < plan_.phases.size(); ++i) {
      const TapPhase& phase = plan_.phases[i];
      const int64_t positions = std::min(plan_.band_positions, phase.rows->count - first);
      if (positions <= 0) continue;
      const int64_t num_pixels = (positions - 1) * plan_.cols.extent + phase.cols->count;
      if (plan_.result_in_place) {
        auto* result =
            static_cast<Result*>(args_.result) + first * plan_.result.w +
            (image * plan_.sum.groups + group) * plan_.sum.result_c * plan_.result_stride;
        RunPhase(group, i, num_pixels, planes, scratch, result);
      } else if constexpr (!kPairs) {
        RunPhase(group, i, num_pixels, planes, scratch, scratch.result.data());
        StorePhase(image, group, phase, first, positions, scratch.result.data());
      }
    }
  }
}

template <class Stored, class Element>
void PixelLanesRunner<Stored, Element>::PackBand(int64_t image, int64_t first_position,
                                                 Element* planes) const {
  if constexpr (kPairs) {  // whole planes
    const DataShape& shape = plan_.source;
    const int64_t plane = shape.h * shape.w, first = first_position * shape.w;
    const int64_t pixels = std::min(plan_.band_positions * shape.w, plane - first);
    const ConvGeometry& g = args_.problem.geometry;
    const int64_t channels = plan_.sum.forward ? g.group_in_c : g.group_out_c;
    for (int64_t group = 0; group < plan_.sum.groups; ++group) {
      args_.kernels.pack_bf16_pairs.pair_rows(
          source_ + (image * plan_.sum.groups + group) * channels * plane + first, plane,
          planes + group * plan_.sum.source_c * plan_.channel_stride, plan_.channel_stride,
          channels, pixels);
    }
  } else {
    PackPlanes(image, first_position, plan_.PlaneRows(plan_.band_positions), planes);
  }
}

// Padding at the sides is never written: it stays zero.
template <class Stored, class Element>
void PixelLanesRunner<Stored, Element>::PackPlanes(int64_t image, int64_t first_position,
                                                   int64_t plane_rows, Compute* planes) const {
  const PlaneAxis &rows = plan_.rows, &cols = plan_.cols;
  for (size_t r = 0; r < rows.residues.size(); ++r) {
    for (size_t c = 0; c < cols.residues.size(); ++c) {
      Compute* plane =
          planes + static_cast<int64_t>(r * cols.residues.size() + c) * plan_.plane_size;
      for (int64_t i = 0; i < plane_rows; ++i) {
        const int64_t row = (rows.low + first_position + i) * rows.step + rows.residues[r];
        Compute* to = plane + i * cols.extent;
        if (row >= 0 && row < plan_.source.h) {
          PackRow(image, row, cols.residues[c], to);
          continue;
        }
        for (int64_t q = 0; q < plan_.source.c; ++q) {
          std::fill_n(to + q * plan_.channel_stride, cols.extent, Compute{0});
        }
      }
    }
  }
}

// One row of one column residue, all channels: channel q to `to` + q * channel_stride.
template <class Stored, class Element>
void PixelLanesRunner<Stored, Element>::PackRow(int64_t image, int64_t source_row,
                                                int64_t col_residue, Compute* to) const {
  const PlaneAxis& cols = plan_.cols;
  const DataShape& shape = plan_.source;
  const int64_t begin = std::max<int64_t>(0, cols.low);
  const int64_t end =
      std::min(cols.low + cols.extent,
               shape.w > col_residue ? CeilDiv(shape.w - col_residue, cols.step) : 0);
  if (begin >= end) return;
  const Stored* from = source_ + image * shape.Image();
  const int64_t first = begin * cols.step + col_residue;
  to += begin - cols.low;
  if (shape.format == DataFormat::kNHWC) {
    pack_.transpose_widen(from + (source_row * shape.w + first) * shape.c, cols.step * shape.c, to,
                          plan_.channel_stride, end - begin, shape.c, 0);
    return;
  }
  const int64_t plane = shape.h * shape.w;
  from += source_row * shape.w + first;
  if (cols.step == 1) {
    pack_.copy_widen(from, plane, to, plan_.channel_stride, shape.c, end - begin);
    return;
  }
  for (int64_t q = 0; q < shape.c; ++q) {
    pack_.copy_widen(from + q * plane, cols.step, to + q * plan_.channel_stride, 1, end - begin, 1);
  }
}

template <class Stored, class Element>
void PixelLanesRunner<Stored, Element>::RunPhase(int64_t group, size_t phase, int64_t num_pixels,
                                                 const Element* planes, ThreadScratch& scratch,
                                                 Result* to) const {
  const TapSum& sum = plan_.sum;
  const TermList& terms = terms_[phase];
  GemmTileArgs<Element> args{};
  args.a_step = plan_.tile_rows;
  args.b_step = b_step_;
  args.in_pairs = sum.in_pairs;
  args.segments = terms.segments.data();
  args.block_ends = terms.block_ends.data();
  args.num_blocks = static_cast<int64_t>(terms.block_ends.size());
  args.sums = scratch.sums.data();
  args.odd = sizeof(Stored) == 2;
  const Panels panels = CutPanels(plan_.kernels, num_pixels, plan_.panel_cols);
  const int64_t group_size = sum.source_c * plan_.channel_stride;
  const Element* const first = planes + group * group_size;
  args.a = filter_.data() + group * plan_.row_blocks * BlockElements();
  for (int64_t panel = 0; panel < panels.count; ++panel) {
    args.num_cols = panels.ColsOf(panel, num_pixels);
    args.b = first + panel * panels.cols;
    if constexpr (kPairs) {
      args.narrowed = to + panel * panels.cols;
    } else {
      args.c = to + panel * panels.cols;
    }
    args.stream = plan_.result_in_place &&
                  PaysToStream(to + panel * panels.cols,
                               sum.batch * plan_.result.Image() * int64_t{sizeof(Result)},
                               plan_.result_stride * int64_t{sizeof(Result)});
    int64_t row = 0;
    if (plan_.source_in_place) {
      // Of these planes or of those that follow, each of the first blocks of rows fetches a line.
      constexpr int64_t kLine = 64 / int64_t{sizeof(Element)};
      const Element* next = panel + 1 < panels.count ? args.b + panels.cols : first + group_size;
      args.ahead_step = b_step_ * int64_t{sizeof(Element)};
      for (int64_t line = 0; line < panels.cols && row < sum.result_c; line += kLine) {
        args.ahead = next + line;
        const int64_t end = std::min(row + plan_.tile_rows, sum.result_c);
        RunRows(args, row, end);
        row = end;
      }
      args.ahead = nullptr;
      args.ahead_step = 0;
    }
    RunRows(args, row, sum.result_c);
  }
  if (args.stream) std::atomic_thread_fence(std::memory_order_seq_cst);
}

// Channels [begin, end) of the group, from the first of a row block on, for one panel of pixels.
template <class Stored, class Element>
void PixelLanesRunner<Stored, Element>::RunRows(const GemmTileArgs<Element>& args, int64_t begin,
                                                int64_t end) const {
  RowGatherer<Element> gatherer(TilesOfWidth(plan_.kernels, args.num_cols), args);
  const int64_t block_elements = BlockElements();
  int64_t block = begin / plan_.tile_rows * block_elements;
  for (int64_t row = begin; row < end; row += plan_.tile_rows, block += block_elements) {
    gatherer.AddRun(std::min(plan_.tile_rows, end - row), block, 1, row * plan_.result_stride,
                    plan_.result_stride);
  }
  gatherer.Flush();
}

template <class Stored, class Element>
void PixelLanesRunner<Stored, Element>::StorePhase(int64_t image, int64_t group,
                                                   const TapPhase& phase, int64_t first_position,
                                                   int64_t num_positions,
                                                   const Compute* from) const {
  const DataShape& shape = plan_.result;
  const int64_t channels = plan_.sum.result_c, first_channel = group * channels;
  Stored* to = static_cast<Stored*>(args_.result) + image * shape.Image();
  if (plan_.result_is_planes) {
    for (int64_t q = 0; q < channels; ++q) {
      Stored* plane = to + ((first_channel + q) * shape.h + first_position) * shape.w;
      pack_.narrow(from + q * plan_.result_stride, plane, num_positions * shape.w);
    }
    return;
  }
  for (int64_t i = 0; i < num_positions; ++i, from += plan_.cols.extent) {
    const int64_t row = phase.rows->first + (first_position + i) * phase.rows->step;
    const int64_t pixel = row * shape.w + phase.cols->first;
    if (shape.format == DataFormat::kNHWC) {
      pack_.transpose_narrow(from, plan_.result_stride, to + pixel * shape.c + first_channel,
                             phase.cols->step * shape.c, channels, phase.cols->count, 0);
      continue;
    }
    for (int64_t q = 0; q < channels; ++q) {
      Stored* plane = to + (first_channel + q) * shape.h * shape.w + pixel;
      if (phase.cols->step == 1) {
        pack_.narrow(from + q * plan_.result_stride, plane, phase.cols->count);
      } else {
        pack_.transpose_narrow(from + q * plan_.result_stride, plan_.result_stride, plane,
                               phase.cols->step, 1, phase.cols->count, 0);
      }
    }
  }
}

}  // namespace convgrad
