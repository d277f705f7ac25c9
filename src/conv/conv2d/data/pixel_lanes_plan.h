// How a forward convolution or an input gradient with lanes along pixels is cut: tiles, bands of
// rows, the sizes of planes. Touches no data.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <type_traits>
#include <vector>

#include "conv/axes/padded_planes.h"
#include "conv/axes/tap_sum.h"
#include "conv/gemm/tiles.h"
#include "conv/move/staging.h"
#include "kernels/kernel_table.h"

namespace convgrad {

inline constexpr int64_t kBandBytes = 896 << 10;  // of source planes: about the second-level cache

// Rows of result pixels follow each other without a gap, like the lanes do.
inline bool ResultIsPlanes(DataFormat format, const TapSum& sum, const PlaneAxis& cols) {
  return format == DataFormat::kNCHW && sum.row_phases.size() == 1 && sum.col_phases.size() == 1 &&
         cols.extent == sum.result_w;
}

// Every position meets one source position, the same.
inline bool MeetsWholePlanes(const TapSum& sum) {
  return sum.kernel_h == 1 && sum.kernel_w == 1 && sum.row_phases.front().source_step == 1 &&
         sum.col_phases.front().source_step == 1 && sum.source_h == sum.result_h &&
         sum.source_w == sum.result_w;
}

// Operands are held as Element: numbers of the compute type, or pairs of channels of bfloat16
// numbers, for sums that meet whole planes.
template <class Stored, class Element>
struct PixelLanesPlan {
  using Compute = ComputeType<Stored>;
  static constexpr bool kPairs = std::is_same_v<Element, BFloat16Pair>;

  PixelLanesPlan(const Problem& problem, const KernelTable& table, int num_threads);
  PixelLanesPlan(const PixelLanesPlan&) = delete;  // phases point into sum

  int64_t FilterElements() const {
    return sum.groups * row_blocks * TermsOf(sum, phases) * tile_rows;
  }
  int64_t BandSourceElements() const { return source_in_place ? 0 : source.c * channel_stride; }
  int64_t BandResultElements() const { return result_in_place ? 0 : sum.result_c * result_stride; }
  int64_t ScratchBytes() const;
  // No vector reaches past a plane, one fills a tile, and planes don't meet in the same sets of the
  // caches.
  bool VectorsFitPlanes() const {
    constexpr int64_t kLine = 64, kFewChannels = 64;
    const int64_t plane = source.h * source.w;
    return plane % kernels.lanes == 0 && plane >= panel_cols &&
           (sum.source_c <= kFewChannels || plane * int64_t{sizeof(Compute)} / kLine % 16 != 0);
  }
  // Rows of a plane that `positions` positions along the rows of a phase need.
  int64_t PlaneRows(int64_t positions) const { return positions - most_positions + rows.extent; }

  const IndirectGemmKernels<Element>& kernels;
  TapSum sum;
  DataShape source, result;  // channels of the source as elements
  std::vector<TapPhase> phases;
  PlaneAxis rows, cols;
  int64_t most_positions;             // of a phase's rows
  int64_t panel_cols;                 // pixels of a panel, at most
  int64_t tile_rows, row_blocks;      // of the result's channels in a group
  int64_t num_bands, band_positions;  // positions of each phase's rows that are worked on at a time
  int64_t plane_size;                 // elements of one plane of a band
  int64_t channel_stride;             // of all planes of a source channel
  bool result_is_planes;              // a band's rows are neighbours in the result too
  bool result_in_place;               // and of the type that the micro-kernel gives it
  bool source_in_place;               // 1x1 filters meet its planes as they lie
  int64_t result_stride;              // of a result channel in a band
  int num_threads;
};

template <class Stored, class Element>
PixelLanesPlan<Stored, Element>::PixelLanesPlan(const Problem& problem, const KernelTable& table,
                                                int num_threads_in)
    : kernels(table.Gemm<Element>()),
      sum(problem),
      result{problem.data_format, sum.result_h, sum.result_w, sum.result_c * sum.groups},
      phases(PhasesOf(sum)),
      rows(sum.row_phases),
      cols(sum.col_phases),
      num_threads(num_threads_in) {
  if constexpr (kPairs) CountInPairs(sum, phases);
  source = {problem.data_format, sum.source_h, sum.source_w, sum.source_c * sum.groups};
  result_is_planes = ResultIsPlanes(problem.data_format, sum, cols);
  result_in_place = result_is_planes && (kPairs || std::is_same_v<Stored, Compute>);
  panel_cols = kernels.tiles.back().cols;
  // Whole lines of the result, where a tile has one: none is then written in two parts.
  constexpr int64_t kLineCols = kAlignment / int64_t{sizeof(Compute)};
  if (result_in_place && panel_cols > kLineCols) panel_cols -= panel_cols % kLineCols;
  const auto tiles = TilesOfWidth(kernels, panel_cols);
  tile_rows = SmallestTile(tiles, sum.result_c).rows;
  row_blocks = CeilDiv(sum.result_c, tile_rows);
  most_positions = sum.row_phases.front().count;
  const int64_t planes = static_cast<int64_t>(rows.residues.size() * cols.residues.size());
  const int64_t row_bytes = planes * source.c * cols.extent * int64_t{sizeof(Element)};
  const int64_t halo = rows.extent - most_positions;
  source_in_place = !kPairs && result_in_place && MeetsWholePlanes(sum) && VectorsFitPlanes();
  const int64_t cached =
      source_in_place ? most_positions : kBandBytes / std::max<int64_t>(1, row_bytes) - halo;
  const int64_t shared = num_threads == 1
                             ? cached
                             : CeilDiv(sum.batch * most_positions, 3 * int64_t{num_threads}) + halo;
  const int64_t fitting = std::max<int64_t>(1, std::min(cached, shared));
  num_bands = CeilDiv(most_positions, fitting);
  band_positions = CeilDiv(most_positions, num_bands);
  if (source_in_place) {  // bands of whole vectors
    band_positions = RoundUp(band_positions, kernels.lanes / std::gcd(kernels.lanes, source.w));
    num_bands = CeilDiv(most_positions, band_positions);
  }
  plane_size = PlaneRows(band_positions) * cols.extent;
  // Lanes of the last tile reach past the last pixel, in the last plane too. An odd number of lines
  // between channels keeps them from meeting in one set of a cache.
  const int64_t lines = CeilDiv(planes * plane_size + tiles.front().cols, int64_t{16});
  channel_stride = source_in_place ? source.h * source.w : (lines | 1) * 16;
  result_stride = result_in_place ? result.h * result.w : band_positions * cols.extent;
}

template <class Stored, class Element>
int64_t PixelLanesPlan<Stored, Element>::ScratchBytes() const {
  return (FilterElements() + num_threads * BandSourceElements()) * int64_t{sizeof(Element)} +
         num_threads * BandResultElements() * int64_t{sizeof(Compute)} +
         num_threads * int64_t{kMaxTileRows} * panel_cols * 2 * int64_t{sizeof(double)};
}

}  // namespace convgrad
