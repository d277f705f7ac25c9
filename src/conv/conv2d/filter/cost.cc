#include "conv/conv2d/filter/cost.h"

#include <algorithm>
#include <cmath>

#include "base/memory.h"
#include "order/canonical_order.h"

namespace convgrad {
namespace {

double Product(auto... factors) {
  return (static_cast<double>(factors) * ...);
}

// Blocks of the canonical order, as PixelBlocks cuts them.
double NumBlocks(const ConvGeometry& g) {
  const int64_t plane = g.out_h * g.out_w;
  if (plane <= kBlockTerms) return static_cast<double>(CeilDiv(g.batch, kBlockTerms / plane));
  if (g.out_w <= kBlockTerms) return Product(g.batch, CeilDiv(g.out_h, kBlockTerms / g.out_w));
  return Product(g.batch, g.out_h, CeilDiv(g.out_w, kBlockTerms));
}

class CycleCount {
 public:
  CycleCount(const FilterWork& work, const FilterTiles& tiles)
      : g_(work.problem.geometry),
        problem_(work.problem),
        work_(work),
        tiles_(tiles),
        joined_(FilterGradientPlan::Joins(work.form)),
        inputs_in_lanes_(FilterGradientPlan::PutsInputsInLanes(work.form)),
        num_taps_(g_.kernel_h * g_.kernel_w),
        tile_taps_(joined_ ? 1 : num_taps_),
        out_pixels_(Product(g_.batch, g_.out_h, g_.out_w) / static_cast<double>(work.pixels)) {}

  double All() const { return Kernels() + (Moved() + Turned()) * NumberCycles(); }

 private:
  // Copied, or transposed from planes; per number of four bytes.
  static constexpr double kCopied = 0.45, kTransposed = 0.85, kPadded = 1.1, kPaddedPlanes = 1.65;
  static constexpr double kTurned = 0.6;
  static constexpr double kTapVector = 12;  // of what a column of taps meets

  bool planar() const { return problem_.data_format == DataFormat::kNCHW; }
  bool stores_element() const { return InfoOf(problem_.dtype).bytes == work_.element_bytes; }
  double NumberCycles() const { return static_cast<double>(work_.element_bytes) / 4; }
  double Packed(double numbers) const { return numbers * (planar() ? kTransposed : kCopied); }

  double Kernels() const;
  bool RowsFollow() const;
  double SegmentTerms() const {
    return static_cast<double>(g_.out_w) / static_cast<double>(work_.pixels);
  }
  double CrowdedRows() const;
  double Moved() const { return inputs_in_lanes_ ? MovedToLanes() : MovedToRows(); }
  double MovedToRows() const;
  double MovedToLanes() const;
  double InputPixels() const;
  double PaddedInput() const;
  double Turned() const {
    return inputs_in_lanes_ ? kTurned * Product(num_taps_, g_.group_in_c, g_.out_c) : 0;
  }

  const ConvGeometry& g_;
  const Problem& problem_;
  const FilterWork& work_;
  const FilterTiles& tiles_;
  const bool joined_, inputs_in_lanes_;
  const int64_t num_taps_, tile_taps_;
  const double out_pixels_;  // as elements
};

double CycleCount::Kernels() const {
  constexpr double kCall = 1200, kSegment = 11, kBriefSegment = 8, kFoldedVector = 23;
  constexpr double kCallBlocks = 4;
  const double blocks = NumBlocks(g_);
  // Of a tap, on average: those on the image, where others are skipped.
  const double terms = joined_ ? out_pixels_
                               : static_cast<double>(problem_.ValidTerms()) /
                                     Product(num_taps_, g_.group_in_c, g_.out_c, work_.pixels);
  const double segments = RowsFollow() ? blocks : std::max(blocks, terms / SegmentTerms());
  const double calls = Product(tiles_.panels.count, CeilDiv(tiles_.row_blocks, kMostGroupRowBlocks),
                               std::ceil(blocks / kCallBlocks));
  return Product(g_.groups, tile_taps_,
                 terms * (tiles_.term_cycles + tiles_.count * CrowdedRows()) +
                     segments * (kSegment * tiles_.count + kBriefSegment * tiles_.brief) +
                     kFoldedVector * blocks * tiles_.vectors + kCall * calls);
}

// Whether the terms of one row of the output go on in the next.
bool CycleCount::RowsFollow() const {
  if (work_.form == FilterForm::kInputsJoined) return !FilterGradientPlan::SharesColumns(g_);
  if (num_taps_ == 1 && !planar()) return true;
  return g_.kernel_w == 1 && g_.stride_w == 1 && g_.stride_h == 1;
}

// For a term of a tile whose rows are planes that meet in the same sets of the first cache.
double CycleCount::CrowdedRows() const {
  constexpr int64_t kWayBytes = 4096, kFewRows = 8;
  constexpr double kRow = 2;
  const bool planes = planar() && work_.form == FilterForm::kApart;
  const bool crowded =
      tiles_.tile_rows > kFewRows && g_.in_h * g_.in_w * work_.element_bytes % kWayBytes == 0;
  return planes && crowded ? Product(kRow, tiles_.tile_rows) : 0;
}

// Pixels of the input that are packed.
double CycleCount::InputPixels() const {
  return num_taps_ == 1 && !planar() ? Product(g_.batch, g_.out_h, g_.out_w)
                                     : Product(g_.batch, g_.in_h, g_.in_w);
}

// Joined taps meet a padded copy.
double CycleCount::PaddedInput() const {
  const auto reach = [](int64_t out, int64_t stride, int64_t taps, int64_t dilation) {
    return (out - 1) * stride + (taps - 1) * dilation + 1;
  };
  return Product(g_.batch, reach(g_.out_h, g_.stride_h, g_.kernel_h, g_.dilation_h),
                 reach(g_.out_w, g_.stride_w, g_.kernel_w, g_.dilation_w), g_.in_c,
                 planar() ? kPaddedPlanes : kPadded);
}

double CycleCount::MovedToRows() const {
  const int64_t cols = tiles_.panels.cols;
  const bool panels_serve =
      g_.group_out_c % cols == 0 &&
      (g_.out_c == cols || tile_taps_ * tiles_.row_blocks <= cols * work_.element_bytes);
  const double output =
      stores_element() && !planar() && panels_serve
          ? 0
          : Packed(Product(g_.batch, g_.out_h, g_.out_w, g_.groups, tiles_.panels.count, cols));
  if (joined_) return PaddedInput() + output;
  const bool in_place =
      stores_element() && (planar() || FilterGradientPlan::PixelsServeAsRows(g_, cols));
  const double input = in_place ? 0 : kCopied * InputPixels() * Product(g_.in_c);
  return input + output;
}

double CycleCount::MovedToLanes() const {
  const double pixels = Product(g_.batch, g_.out_h, g_.out_w);
  const double output = stores_element() ? 0 : Packed(pixels * Product(g_.out_c));
  if (joined_) {
    const int64_t columns = FilterGradientPlan::SharesColumns(g_) ? g_.stride_w : g_.kernel_w;
    return output + PaddedInput() +
           kTapVector * pixels *
               Product(g_.groups, g_.kernel_h, columns,
                       CeilDiv(g_.group_in_c * work_.element_bytes, int64_t{kAlignment}));
  }
  const int64_t cols = tiles_.panels.cols;
  if (stores_element() && !planar() && g_.group_in_c % cols == 0) return output;
  return output + Packed(InputPixels() * Product(g_.groups, tiles_.panels.count, cols));
}

}  // namespace

void FilterTiles::Add(int64_t num_tiles, int64_t rows, int64_t tile_vectors, bool halves,
                      bool wide) {
  constexpr double kLatency = 4;          // of a multiply-add, for each term
  constexpr double kLoadOrFactor = 0.28;  // of a vector or row
  constexpr double kBrief = 10;
  const auto tiles = static_cast<double>(num_tiles);
  const double sums = Product(rows, tile_vectors);
  const double added = halves ? sums - 0.5 * static_cast<double>(rows) : sums;
  const double cycles = std::max(wide ? added : added / 2, kLatency);
  term_cycles += tiles * (cycles + kLoadOrFactor * static_cast<double>(rows + tile_vectors));
  vectors += tiles * sums;
  count += tiles;
  if (cycles <= kBrief) brief += tiles;
}

double CyclesOf(const FilterWork& work, const FilterTiles& tiles) {
  return CycleCount(work, tiles).All();
}

}  // namespace convgrad
