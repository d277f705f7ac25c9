// The work that cuts of forward convolutions and input gradients come to, kind by kind
// (conv/plan/work.h). Numbers that are moved count by four bytes as stored. Not counted: what the
// caches of a machine make of panels that several chunks share, of results written around them, and
// of operands that don't fit them at all.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <span>

#include "conv/conv2d/data/channel_lanes_cut.h"
#include "conv/conv2d/data/image_lanes_cut.h"
#include "conv/conv2d/data/pixel_lanes_cut.h"
#include "conv/gemm/tile_counts.h"
#include "conv/gemm/tiles.h"
#include "conv/plan/work.h"

namespace convgrad {

// The terms that every sum of a tile adds up.
struct TileTerms {
  double terms, segments, blocks;
};

// `times` products of matrices in panels, each by its own tiles; so many of them are one call.
template <class Element>
void AddPanels(Work& work, const IndirectGemmKernels<Element>& kernels, double times,
               int64_t num_rows, int64_t num_cols, const Panels& panels, int64_t panel_calls,
               const TileTerms& sums) {
  const TileCounts tiles(kernels, panels, num_rows, num_cols, /*same_rows=*/false);
  work.Add(WorkKind::kGemmFma, times * sums.terms * tiles.added);
  work.Add(WorkKind::kGemmLoad, times * sums.terms * tiles.loaded);
  work.Add(WorkKind::kGemmSingle, times * sums.terms * tiles.singles);
  work.Add(WorkKind::kSegment, times * sums.segments * tiles.count);
  work.Add(WorkKind::kFold, times * tiles.vectors * std::max(1.0, sums.blocks));
  const int64_t rest = num_rows % tiles.tile_rows == 0 ? 0 : 1;
  work.Add(WorkKind::kCall,
           times * Product(panel_calls, CeilDiv(num_rows / tiles.tile_rows, kTilesAtOnce) + rest));
}

// Numbers of `Stored` as numbers of four bytes.
template <class Stored>
double Moved(double numbers) {
  return numbers * double{sizeof(Stored)} / 4;
}

inline double ResultNumbers(const TapSum& sum) {
  return Product(sum.batch, sum.groups, sum.result_h, sum.result_w, sum.result_c);
}

// Pixels that meet so many rows and columns of taps add up this. Taps of a row that follow each
// other in the source, as in the packed filter, are one segment if `joined`.
inline TileTerms TermsOfClass(const TapSum& sum, const TapPhase& phase, int64_t row_taps,
                              int64_t col_taps, bool joined) {
  const std::vector<int64_t>& offsets = phase.cols->offsets;
  const bool follow =
      joined && (offsets.empty() || offsets.back() - offsets.front() < std::ssize(offsets));
  const double taps = Product(row_taps, col_taps), blocks = Product(phase.blocks.size());
  return {taps * Product(sum.source_c), std::max(follow ? Product(row_taps) : taps, blocks),
          blocks};
}

// Panels of the filter: copied row by row of its channels, or transposed.
template <class Stored>
void AddFilter(Work& work, const TapSum& sum, double numbers, double panels) {
  work.Add(sum.forward ? WorkKind::kCopied : WorkKind::kTransposed, Moved<Stored>(numbers));
  const int64_t taps = sum.kernel_h * sum.kernel_w;
  work.Add(WorkKind::kRun, panels * Product(taps, sum.forward ? sum.source_c : 1));
}

// Source and result as staged. Pixels lie in runs of a piece each, planes in one of each channel.
template <class Stored, class Element>
void AddStages(Work& work, const ChannelLanesCut<Stored, Element>& cut) {
  const bool planar = cut.source.format == DataFormat::kNCHW;
  const WorkKind kind = planar ? WorkKind::kTransposed : WorkKind::kCopied;
  constexpr double kChannels = ChannelLanesCut<Stored, Element>::kPairs ? 2 : 1;  // of an element
  // Numbers of each of so many stages.
  const auto add = [&](int64_t count, double numbers, int64_t channels) {
    work.Add(kind, Product(count) * Moved<Stored>(numbers));
    const double pixels = numbers / Product(channels);
    const double runs = planar             ? numbers / Product(staging::kPiecePixels)
                        : cut.groups_apart ? pixels * Product(cut.sum.groups)
                                           : pixels / Product(staging::kPiecePixels);
    work.Add(WorkKind::kRun, Product(count) * std::ceil(runs));
  };
  const double tasks = Product(cut.NumTasks());
  cut.stages.ForEachKind([&](const ChannelLanesStage& stage, int64_t count) {
    if (cut.source_staged) {
      add(count, kChannels * tasks * Product(cut.SourceElements(stage)), cut.source.c);
    }
    if (cut.result_staged) add(count, tasks * Product(cut.ResultElements(stage)), cut.result.c);
  });
  if (!cut.result_kept.all()) {  // zeros between
    const double all =
        Product(cut.sum.batch, cut.result_kept.rows.size, cut.result_kept.cols.size, cut.result.c);
    work.Add(WorkKind::kCopied, Moved<Stored>(all - ResultNumbers(cut.sum)));
  } else {
    const double summed =
        Product(cut.sum.batch, cut.summed.rows.count(), cut.summed.cols.count(), cut.result.c);
    work.Add(WorkKind::kCopied, Moved<Stored>(ResultNumbers(cut.sum) - summed));
  }
}

// Threads take stages of their own, or shares of one stage's chunks with a panel of a pass each.
template <class Stored, class Element>
double TasksAtOnce(const ChannelLanesCut<Stored, Element>& cut) {
  if (cut.stages.own) return Product(cut.stages.size(), cut.NumTasks());
  return Product(cut.stages[0].chunks.size(), cut.PanelTasks(cut.panels_per_pass));
}

// A task is the pixels of one class in a chunk with a panel.
template <class Stored, class Element>
Work CountWork(const ChannelLanesCut<Stored, Element>& cut) {
  Work work;
  const TapSum& sum = cut.sum;
  work.LimitTasksAtOnce(TasksAtOnce(cut));
  AddStages(work, cut);
  double chunks = 0;
  cut.stages.ForEachKind([&](const ChannelLanesStage& stage, int64_t count) {
    chunks += Product(count, stage.chunks.size());
  });
  const bool repacked = cut.panels_per_pass < cut.NumPanels();
  const double packings = repacked ? Product(cut.stages.size()) : 1;
  if (!cut.in_place) {
    AddFilter<Stored>(work, sum, packings * Product(cut.NumPanels(), cut.PanelElements()),
                      packings * Product(cut.NumPanels()));
  } else {
    // Panels of rows of the filter come from beyond the first cache, a line or two more than whole
    // ones a term.
    const int64_t lines = cut.panels.cols * int64_t{sizeof(Element)} / kLineBytes + 1;
    work.Add(WorkKind::kFarLine, Product(cut.NumPanels(), TermsOf(sum, cut.phases), lines));
  }
  for (size_t i = 0; i < cut.phases.size(); ++i) {
    const TapPhase& phase = cut.phases[i];
    for (const AxisClass& rows : phase.rows->classes) {
      for (const AxisClass& cols : phase.cols->classes) {
        const double pixels = Product(sum.batch, rows.end - rows.begin, cols.end - cols.begin);
        const double parts = std::min(chunks, pixels);
        AddPanels(work, cut.kernels, parts * Product(sum.groups),
                  static_cast<int64_t>(std::ceil(pixels / parts)), sum.result_c, cut.panels,
                  cut.panels.count,
                  TermsOfClass(sum, phase, rows.tap_end - rows.tap_begin,
                               cols.tap_end - cols.tap_begin, sum.groups == 1 || cut.groups_apart));
        work.Add(WorkKind::kTask,
                 parts * Product(cut.PanelTasks(cut.NumPanels()), cut.segments.PartsOf(i)));
      }
    }
  }
  if (sum.groups > 1 && !cut.groups_apart) {  // a group's part of pixels where they lie
    const auto lines = [&](int64_t h, int64_t w, int64_t channels) {
      const int64_t of_pixel = CeilDiv(channels * int64_t{sizeof(Element)}, kLineBytes);
      return Product(sum.batch, sum.groups, h, w, of_pixel);
    };
    work.Add(WorkKind::kFarLine, lines(sum.source_h, sum.source_w, sum.source_c) +
                                     lines(sum.result_h, sum.result_w, sum.result_c));
  }
  // A pixel's place is found anew for every group. In NCHW its stages outweigh that.
  if (sum.groups > 1 && cut.source.format == DataFormat::kNHWC) {
    work.Add(WorkKind::kRun, Product(sum.batch, sum.groups, sum.result_h, sum.result_w));
  }
  return work;
}

template <class Stored, class Element>
bool HasShortVectors(const PixelLanesCut<Stored, Element>& cut) {
  return cut.kernels.lanes * int64_t{sizeof(ComputeType<Stored>)} < kLineBytes;
}

// True if the terms of a copied part lie on more pages than a processor has at hand, and a term
// takes vectors so short that finding its page shows.
template <class Stored, class Element>
bool LiesOnManyPages(const PixelLanesCut<Stored, Element>& cut) {
  constexpr double kPageBytes = 4096, kManyPages = 64;
  if (cut.by_panels || !HasShortVectors(cut)) return false;
  const double of_channel = Product(cut.channel_stride, sizeof(Element)) / kPageBytes;
  return Product(cut.sum.source_c) * std::min(1.0, of_channel) > kManyPages;
}

// Lines of a panel's terms that a first-level cache does not hold are read from the next one by
// every block of rows, but for those whose way the multiply-adds of a term hide: one in four, or on
// many pages one in sixteen.
template <class Stored, class Element>
double FarLinesOfPanel(const PixelLanesCut<Stored, Element>& cut, const Panels& panels,
                       double terms) {
  const bool many_pages = LiesOnManyPages(cut);
  const double bytes = Product(panels.cols, sizeof(Element));
  if (!many_pages && terms * bytes <= Product(kFirstCacheBytes)) return 0;
  const double multiply_adds =
      Product(std::min<int64_t>(cut.tile_rows, cut.sum.result_c), panels.cols / cut.kernels.lanes);
  const double hidden = multiply_adds / (many_pages ? 16 : 4);
  return terms * Product(cut.row_blocks) * std::max(0.0, bytes / double{kAlignment} - hidden);
}

// Pixels that are transposed take half as long again from as many streams where they are not near.
constexpr double TransposedFrom(bool near) {
  return near ? 1 : 1.5;
}

template <class Stored, class Element>
void AddPlanes(Work& work, const PixelLanesCut<Stored, Element>& cut) {
  const TapSum& sum = cut.sum;
  const bool planar = cut.source.format == DataFormat::kNCHW;
  constexpr double kChannels = PixelLanesCut<Stored, Element>::kPairs ? 2 : 1;  // of an element
  const auto kind = [&](bool apart) {
    return !planar ? WorkKind::kTransposed : apart ? WorkKind::kScattered : WorkKind::kCopied;
  };
  const double far = TransposedFrom(planar || cut.near);
  const double channels = Product(cut.source.c) * kChannels;
  // Pixels of a row as they are transposed, in squares of a vector.
  const auto squares = [&](int64_t pixels) {
    return Product(RoundUp(pixels, int64_t{cut.kernels.lanes}));
  };
  const double rows = Product(sum.batch, cut.parts.count, cut.rows.residues.size(),
                              cut.cols.residues.size(), cut.PlaneRows(cut.parts.positions));
  if (cut.by_panels) {
    const double numbers = Product(sum.batch, sum.source_h, sum.source_w) * channels;
    if (!cut.source_in_place) {
      work.Add(WorkKind::kCopied, Moved<Stored>(numbers));
      work.Add(WorkKind::kRun, numbers / Product(cut.few_panels, cut.panel_cols));
    }
  } else if (!cut.block_rows) {  // whose products copy what they meet
    const double row = planar ? Product(cut.cols.extent) : squares(cut.cols.extent);
    work.Add(kind(cut.cols.step > 1), far * Moved<Stored>(rows * row * channels));
    work.Add(WorkKind::kRun, rows * channels);
  }
  if (!cut.result_in_place) {
    double row = planar ? Product(sum.result_w) : 0;
    for (size_t i = 0; !planar && i < sum.col_phases.size(); ++i) {
      row += squares(sum.col_phases[i].count);
    }
    work.Add(kind(sum.col_phases.size() > 1),
             far * Moved<Stored>(Product(sum.batch, sum.groups, sum.result_c, sum.result_h) * row));
    const double runs = cut.result_is_planes ? Product(cut.parts.count)
                                             : Product(sum.result_h, sum.col_phases.size());
    work.Add(WorkKind::kRun, Product(sum.batch, sum.groups, sum.result_c) * runs);
  }
}

// Each row of a product has a column for each position. Panels are copied as they are met: of
// pixels in NHWC, short vectors are as slow as single numbers.
template <class Stored, class Element>
void AddBlockRows(Work& work, const PixelLanesCut<Stored, Element>& cut) {
  const double calls = Product(cut.sum.batch, cut.parts.count, cut.sum.groups);
  const int64_t positions = cut.parts.positions * cut.cols.extent;
  const Panels panels = CutPanels(cut.kernels, positions, cut.panel_cols);
  const double numbers = calls * Product(positions + cut.block_rows->most_shift, cut.sum.source_c);
  const bool planar = cut.source.format == DataFormat::kNCHW;
  const WorkKind kind = planar                 ? WorkKind::kCopied
                        : HasShortVectors(cut) ? WorkKind::kScattered
                                               : WorkKind::kTransposed;
  work.Add(kind, TransposedFrom(planar || cut.near) * Moved<Stored>(numbers));
  work.Add(WorkKind::kRun, numbers / Product(panels.cols));
  for (const BlockProduct& product : cut.block_rows->products) {
    AddPanels(work, cut.kernels, calls, std::ssize(product.rows), positions, panels, panels.count,
              {Product(product.num_terms()), 1, 1});
  }
  work.Add(WorkKind::kFold, calls * Product(cut.block_rows->num_sums) *
                                Product(CeilDiv(positions, int64_t{cut.kernels.lanes})));
  work.Add(WorkKind::kTask, calls * Product(cut.phases.size()));
}

// A task is a phase of a group's part of an image's rows, or a share of its channels.
template <class Stored, class Element>
Work CountWork(const PixelLanesCut<Stored, Element>& cut) {
  Work work;
  const TapSum& sum = cut.sum;
  AddPlanes(work, cut);
  if (cut.block_rows) {
    AddBlockRows(work, cut);
    return work;
  }
  const double calls = Product(sum.batch, cut.parts.count, sum.groups);
  for (const TapPhase& phase : cut.phases) {
    const int64_t positions = std::min(cut.parts.positions, phase.rows->count);
    const int64_t pixels = (positions - 1) * cut.cols.extent + phase.cols->count;
    const Panels panels = CutPanels(cut.kernels, pixels, cut.panel_cols);
    const TileTerms sums = TermsOfClass(sum, phase, std::ssize(phase.rows->taps),
                                        std::ssize(phase.cols->taps), sum.source_c == 1);
    AddPanels(work, cut.kernels, calls, sum.result_c, pixels, panels, cut.NumCalls(panels.count),
              sums);
    work.Add(WorkKind::kTask, calls * Product(cut.shares));
    work.Add(WorkKind::kFarLine,
             calls * Product(panels.count) * FarLinesOfPanel(cut, panels, sums.terms));
  }
  AddFilter<Stored>(work, sum, Product(cut.FilterElements()), Product(sum.groups, cut.row_blocks));
  return work;
}

// How often a part of an axis is visited that is cut into so many pieces.
inline double Visits(double pieces, double part, double all) {
  return std::clamp(pieces * part / all, 1.0, part);
}

// The tiles of one class of pixels, of all lanes and groups.
template <class Stored, class Element>
void AddClass(Work& work, const ImageLanesCut<Stored, Element>& cut, const TapPhase& phase,
              const AxisClass& rows, const AxisClass& cols) {
  const ImageLanesParts& parts = cut.parts;
  const double num_rows = Product(rows.end - rows.begin), num_cols = Product(cols.end - cols.begin);
  const bool wide = cut.kernels.lanes * sizeof(ComputeType<Stored>) == size_t{kAlignment};
  const double waiting = Product(WaitingSlots(wide));
  const TileTerms sums = TermsOfClass(cut.sum, phase, rows.tap_end - rows.tap_begin,
                                      cols.tap_end - cols.tap_begin, parts.chunk_groups == 1);
  const auto add = [&](double count, double tile_rows, double tile_cols) {
    const double vectors = tile_rows * tile_cols;
    work.Add(WorkKind::kWholeFma, count * sums.terms * std::max(vectors, waiting));
    work.Add(WorkKind::kWholeLoad, count * sums.terms * (tile_rows + tile_cols));
    work.Add(WorkKind::kSegment, count * sums.segments);
    work.Add(WorkKind::kFold, count * vectors * std::max(1.0, sums.blocks));
    work.Add(WorkKind::kCall, count);
  };
  const double lanes_and_groups = Product(parts.bands.lane_groups, cut.sum.groups);
  if (parts.slides) {  // a column of taps is a term, its rows the tile's columns
    const double tile_cols = Product(cut.sliding.front().cols);
    const double pixels = lanes_and_groups * num_rows * num_cols;
    work.Add(WorkKind::kWholeFma, pixels * sums.terms);
    work.Add(WorkKind::kWholeLoad, pixels * sums.terms / tile_cols);
    work.Add(WorkKind::kFold, pixels * std::max(1.0, sums.blocks));
    work.Add(WorkKind::kCall, lanes_and_groups * num_cols / Product(cut.sliding.front().rows) *
                                  std::ceil(num_rows / Product(parts.strip_rows)));
    return;
  }
  const double strips = std::ceil(Product(parts.bands.positions) / Product(parts.strip_rows));
  const double visits = Visits(strips, num_rows, Product(parts.bands.positions)) *
                        Visits(Product(parts.col_blocks), num_cols, Product(parts.col_positions));
  const int64_t pixels = static_cast<int64_t>(std::ceil(num_rows * num_cols / visits));
  const int64_t tile_rows = cut.tiles.front().rows, rest = pixels % tile_rows;
  const double times = lanes_and_groups * visits * Product(cut.channel_blocks);
  add(times * Product(pixels / tile_rows), Product(tile_rows), Product(cut.tile_cols));
  if (rest > 0) {
    add(times, Product(SmallestTile(std::span(cut.tiles), rest).rows), Product(cut.tile_cols));
  }
  work.Add(WorkKind::kTask, Product(parts.bands.lane_groups, parts.num_chunks) * visits);
}

// Every lane gathers from a line of its own. Where the next pixel's vector of a plane is a page
// further in scratch, numbers are scattered; in rows of bands, plane after plane, lines are lost
// before the next row comes where a row of all planes exceeds the second-level cache. 1x1 filters
// meet pixels once, which then wait for their streams.
template <class Stored, class Element>
void AddLanes(Work& work, const ImageLanesCut<Stored, Element>& cut) {
  constexpr double kPage = 4096, kSecondCache = 1 << 20;
  const ImageLanesParts& parts = cut.parts;
  const TapSum& sum = cut.sum;
  constexpr double kChannels = ImageLanesCut<Stored, Element>::kPairs ? 2 : 1;  // of an element
  const bool planar = cut.source.format == DataFormat::kNCHW, whole = parts.whole_images();
  const double far = TransposedFrom(cut.near || planar || sum.kernel_h * sum.kernel_w > 1);
  const double positions = Product(parts.bands.positions);
  const double lanes = Product(parts.bands.lane_groups, cut.kernels.lanes);
  const double halo = Product(parts.rows.high - parts.rows.low + 1);
  const double source_rows =
      whole ? Product(sum.source_h) : (positions - 1) * Product(parts.rows.step) + halo;
  const double result_rows =
      whole ? Product(sum.result_h) : positions * Product(sum.row_phases.front().step);
  const double source_cols =
      Product(sum.source_w) + Product(parts.col_blocks - 1, parts.cols.high - parts.cols.low);
  const auto add = [&](double pixels, int64_t group_channels, double element_channels) {
    const double pixel_bytes =
        Product(parts.chunk_groups, group_channels, cut.kernels.lanes) * double{sizeof(Element)};
    work.Add(planar && pixel_bytes >= kPage ? WorkKind::kScattered : WorkKind::kTransposed,
             far * Moved<Stored>(lanes * pixels * Product(sum.groups, group_channels)) *
                 element_channels);
  };
  add(source_rows * source_cols, sum.source_c, kChannels);
  add(result_rows * Product(sum.result_w), sum.result_c, 1);
  const double strips = std::ceil(positions / Product(parts.strip_rows));
  const double rows =
      whole && parts.col_blocks == 1 ? strips : source_rows * Product(parts.col_blocks);
  const double runs =
      Product(parts.bands.lane_groups) *
      (planar                  ? rows * Product(cut.source.c)
       : parts.num_chunks == 1 ? rows
                               : source_rows * source_cols * Product(parts.num_chunks));
  work.Add(WorkKind::kRun, runs);
  const double row_bytes = Product(sum.source_w, sizeof(Element)) / Product(parts.col_blocks);
  const double lines = Product(cut.kernels.lanes) * (row_bytes / double{kAlignment} + 1);
  const double packed = Product(cut.kernels.lanes) * row_bytes / Product(parts.num_chunks);
  if (planar && !whole &&
      Product(cut.source.c) * (lines * double{kAlignment} + packed) > kSecondCache) {
    work.Add(WorkKind::kFarLine, runs * lines);
  }
}

template <class Stored, class Element>
Work CountWork(const ImageLanesCut<Stored, Element>& cut) {
  Work work;
  AddLanes(work, cut);
  for (const TapPhase& phase : cut.phases) {
    for (const AxisClass& rows : phase.rows->classes) {
      for (const AxisClass& cols : phase.cols->classes) AddClass(work, cut, phase, rows, cols);
    }
  }
  AddFilter<Stored>(work, cut.sum, Product(cut.FilterElements()),
                    Product(cut.sum.groups, cut.channel_blocks));
  return work;
}

}  // namespace convgrad
