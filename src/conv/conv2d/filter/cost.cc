#include "conv/conv2d/filter/cost.h"

#include <algorithm>
#include <cmath>

#include "base/memory.h"
#include "conv/conv2d/filter/block_lanes_cut.h"
#include "conv/conv2d/filter/tap_rows_cut.h"
#include "order/canonical_order.h"

namespace convgrad {
namespace {

double Product(auto... factors) {
  return (static_cast<double>(factors) * ...);
}

class CycleCount {
 public:
  CycleCount(const Problem& problem, FilterForm form, const TileCounts& tiles)
      : g_(problem.geometry),
        problem_(problem),
        form_(form),
        tiles_(tiles),
        joined_(FilterCut::Joins(form)),
        inputs_in_lanes_(FilterCut::PutsInputsInLanes(form)),
        num_taps_(g_.kernel_h * g_.kernel_w),
        tile_taps_(joined_ ? 1 : num_taps_),
        out_pixels_(Product(g_.batch, g_.out_h, g_.out_w) / static_cast<double>(tiles.pixels)) {}

  double All() const { return Kernels() + (Moved() + Turned()) * NumberCycles(); }

 private:
  // Copied, or transposed from planes; per number of four bytes.
  static constexpr double kCopied = 0.45, kTransposed = 0.85, kPadded = 1.1, kPaddedPlanes = 1.65;
  static constexpr double kTurned = 0.6;
  static constexpr double kTapVector = 12;  // of what a column of taps meets

  bool planar() const { return problem_.data_format == DataFormat::kNCHW; }
  bool stores_element() const { return InfoOf(problem_.dtype).bytes == tiles_.element_bytes; }
  double NumberCycles() const { return static_cast<double>(tiles_.element_bytes) / 4; }
  double Packed(double numbers) const { return numbers * (planar() ? kTransposed : kCopied); }

  // Of all tiles.
  double TermCycles() const {
    constexpr double kLoadOrFactor = 0.28;  // of a vector or row
    return (tiles_.wide ? tiles_.added : tiles_.added / 2) + kLoadOrFactor * tiles_.loaded;
  }
  double Kernels() const;
  bool RowsFollow() const;
  double SegmentTerms() const {
    return static_cast<double>(g_.out_w) / static_cast<double>(tiles_.pixels);
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
  const FilterForm form_;
  const TileCounts& tiles_;
  const bool joined_, inputs_in_lanes_;
  const int64_t num_taps_, tile_taps_;
  const double out_pixels_;  // as elements
};

double CycleCount::Kernels() const {
  constexpr double kCall = 1200, kSegment = 11, kBriefSegment = 8, kFoldedVector = 23;
  constexpr double kCallBlocks = 4;
  const double blocks = static_cast<double>(NumPixelBlocks(g_));
  // Of a tap, on average: those on the image, where others are skipped.
  const double terms = joined_ ? out_pixels_
                               : static_cast<double>(problem_.ValidTerms()) /
                                     Product(num_taps_, g_.group_in_c, g_.out_c, tiles_.pixels);
  const double segments = RowsFollow() ? blocks : std::max(blocks, terms / SegmentTerms());
  const double calls = Product(tiles_.panels.count, CeilDiv(tiles_.row_blocks, kMostGroupRowBlocks),
                               std::ceil(blocks / kCallBlocks));
  return Product(g_.groups, tile_taps_,
                 terms * (TermCycles() + tiles_.count * CrowdedRows()) +
                     segments * (kSegment * tiles_.count + kBriefSegment * tiles_.brief) +
                     kFoldedVector * blocks * tiles_.vectors + kCall * calls);
}

// Whether the terms of one row of the output go on in the next.
bool CycleCount::RowsFollow() const {
  if (form_ == FilterForm::kInputsJoined) return !FilterCut::SharesColumns(g_);
  if (num_taps_ == 1 && !planar()) return true;
  return g_.kernel_w == 1 && g_.stride_w == 1 && g_.stride_h == 1;
}

// For a term of a tile whose rows are planes that meet in the same sets of the first cache.
double CycleCount::CrowdedRows() const {
  constexpr int64_t kWayBytes = 4096, kFewRows = 8;
  constexpr double kRow = 2;
  const bool planes = planar() && form_ == FilterForm::kApart;
  const bool crowded =
      tiles_.tile_rows > kFewRows && g_.in_h * g_.in_w * tiles_.element_bytes % kWayBytes == 0;
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
      (g_.out_c == cols || tile_taps_ * tiles_.row_blocks <= cols * tiles_.element_bytes);
  const double output =
      stores_element() && !planar() && panels_serve
          ? 0
          : Packed(Product(g_.batch, g_.out_h, g_.out_w, g_.groups, tiles_.panels.count, cols));
  if (joined_) return PaddedInput() + output;
  const bool in_place = stores_element() && (planar() || FilterCut::PixelsServeAsRows(g_, cols));
  const double input = in_place ? 0 : kCopied * InputPixels() * Product(g_.in_c);
  return input + output;
}

double CycleCount::MovedToLanes() const {
  const double pixels = Product(g_.batch, g_.out_h, g_.out_w);
  const double output = stores_element() ? 0 : Packed(pixels * Product(g_.out_c));
  if (joined_) {
    const int64_t columns = FilterCut::SharesColumns(g_) ? g_.stride_w : g_.kernel_w;
    return output + PaddedInput() +
           kTapVector * pixels *
               Product(g_.groups, g_.kernel_h, columns,
                       CeilDiv(g_.group_in_c * tiles_.element_bytes, int64_t{kAlignment}));
  }
  const int64_t cols = tiles_.panels.cols;
  if (stores_element() && !planar() && g_.group_in_c % cols == 0) return output;
  return output + Packed(InputPixels() * Product(g_.groups, tiles_.panels.count, cols));
}

// Endless where the form serves no purpose, or would take too much memory.
double CyclesOf(const Problem& problem, const KernelTable& kernels, FilterForm form) {
  const ConvGeometry& g = problem.geometry;
  if (FilterCut::Joins(form) && (g.kernel_h * g.kernel_w == 1 || !FilterCut::CanJoin(g))) {
    return HUGE_VAL;
  }
  return CycleCount(problem, form, TilesOfForm(problem, kernels, form)).All();
}

// Of the quickest form by tiles, for one thread and a problem with terms.
double LeastCyclesByChannels(const Problem& problem, const KernelTable& kernels) {
  const auto cycles = [&](FilterForm form) { return CyclesOf(problem, kernels, form); };
  return std::min({cycles(FilterForm::kApart), cycles(FilterForm::kJoined),
                   cycles(FilterForm::kInputsApart), cycles(FilterForm::kInputsJoined)});
}

constexpr double kPacking = 0.65;  // cycles for a number packed

// For an output pixel of all groups, of multiply-adds of vectors and of packing.
double CyclesPerPixel(const BlockLanesCut& cut) {
  const ConvGeometry& g = cut.geometry;
  const double pixels = Product(g.batch, g.out_h, g.out_w);
  // Of all places in runs of whole vectors of cut.blocks.
  const double used =
      pixels / Product(RoundUp(std::ssize(cut.blocks), cut.most_lanes), cut.most.pixels());
  const double numbers =
      Product(cut.input.rows, cut.input.cols, g.in_c) / Product(cut.most.rows, cut.most.cols) +
      static_cast<double>(g.out_c);
  // Of planes, short rows fill squares in part and take as long to find as to pack.
  const double packing =
      cut.input.shape.format == DataFormat::kNHWC
          ? kPacking
          : kPacking * Product(RoundUp(cut.most.cols, cut.most_lanes) + cut.most_lanes) /
                Product(cut.most.cols);
  return (Product(cut.num_rows(), g.out_c) / static_cast<double>(cut.most_lanes) +
          numbers * packing) /
         used;
}

// Of all pixels, folding included; comparable with LeastCyclesByChannels.
double BlockLanesCycles(const BlockLanesCut& cut, int vector_bytes) {
  // Measured, for one that was counted; narrower vectors have fewer registers for sums, too.
  const double counted = vector_bytes >= int{kAlignment} ? 1.6 : 2.0;
  constexpr double kFolded = 1.4;  // for a block's sum
  const ConvGeometry& g = cut.geometry;
  return counted * CyclesPerPixel(cut) * Product(g.batch, g.out_h, g.out_w) +
         kFolded * Product(cut.num_rows(), g.out_c, std::ssize(cut.blocks));
}

// The same of depthwise forms with lanes along channels.
double CyclesByChannels(const BlockLanesCut& cut) {
  constexpr double kPixel = 30;  // of a group, whatever its channels
  constexpr double kMoved = 6;   // to copy what a tap meets
  const ConvGeometry& g = cut.geometry;
  const double by_outputs = Product(cut.num_rows(), CeilDiv(g.group_out_c, cut.most_lanes));
  const double by_inputs = Product(CeilDiv(cut.num_rows(), cut.most_lanes), g.group_out_c) +
                           Product(g.kernel_h, std::min(g.kernel_w, g.stride_w), kMoved);
  const double by_groups =
      (std::min(by_outputs, by_inputs) + kPixel) * static_cast<double>(g.groups);
  // Lanes go on from group to group.
  const bool packs = cut.input.shape.format == DataFormat::kNCHW || g.group_out_c > 1;
  return std::min(by_groups, Product(cut.num_taps(), CeilDiv(g.out_c, cut.most_lanes)) +
                                 (packs ? 2 * kPacking * static_cast<double>(g.out_c) : 0));
}

// Depthwise: more blocks are at hand than channels, which would fill fewer lanes. In NCHW every
// channel is gathered on its own.
bool HasFewChannels(const BlockLanesCut& cut) {
  const ConvGeometry& g = cut.geometry;
  const bool nhwc = cut.input.shape.format == DataFormat::kNHWC;
  return g.group_in_c == 1 && g.out_c < (nhwc ? cut.most_lanes : cut.most_lanes * 2 / 3 + 1) &&
         g.out_c < std::min<int64_t>(cut.most_lanes, std::ssize(cut.blocks));
}

// Comparable with LeastCyclesByChannels.
double TapRowsCycles(const TapRowsCut& cut) {
  constexpr double kLatency = 4, kLoad = 0.5, kColumn = 0.5;  // of a column, beside multiply-adds
  constexpr double kRow = 25, kCall = 60, kFoldedVector = 8;
  constexpr double kCopied = 0.45, kTransposed = 0.85, kFewPlanes = 2;  // cut.numbers of four bytes
  const ConvGeometry& g = cut.geometry;
  const double number_cycles = (cut.problem.dtype == DType::kFloat64 ? 2 : 1);
  const int64_t vectors = cut.tile.cols / cut.tile.lanes;
  const double pixels = Product(g.batch, g.out_h, g.out_w);
  // Of a column and row of taps on the image, for one panel.
  const double added = Product(cut.numbers, vectors) * (cut.wide ? 1 : 0.5);
  const double terms =
      static_cast<double>(cut.problem.ValidTerms()) / Product(g.out_c, cut.numbers);
  double cycles = terms * (std::max(added, kLatency) + kLoad * Product(vectors) + kColumn);
  cycles += kRow * Product(g.batch, g.out_h, g.kernel_h);
  cycles += Product(std::ssize(cut.blocks), g.kernel_h) *
            (kCall + kFoldedVector * Product(cut.numbers, vectors));
  if (!cut.UsesOutputInPlace()) {
    cycles +=
        pixels * Product(cut.tile.cols) * number_cycles * (cut.IsNhwc() ? kCopied : kTransposed);
  }
  cycles *= Product(cut.num_panels);
  if (cut.UsesInputInPlace()) return cycles;
  return cycles + Product(g.batch, g.in_h, g.in_w, g.in_c) * number_cycles *
                      (cut.IsNhwc() ? kCopied : kFewPlanes);
}

}  // namespace

// Counts are rough, and the form that copies least is the safest: the others must promise a gain.
bool FormWins(FilterForm form, const Problem& problem, const KernelTable& kernels) {
  if (form == FilterForm::kApart) return true;
  if (problem.ValidTerms() == 0) return false;
  const auto cycles = [&](FilterForm other) { return CyclesOf(problem, kernels, other); };
  const double own = cycles(form);
  if (form == FilterForm::kJoined) return own < cycles(FilterForm::kApart);
  const bool joined = form == FilterForm::kInputsJoined;
  const double sibling = cycles(joined ? FilterForm::kInputsApart : FilterForm::kInputsJoined);
  if (joined ? own >= sibling : sibling < own) return false;
  // Counts flatter tiles of few output channels, whose short terms wait for their operands.
  const double gain = problem.geometry.group_out_c <= 8 ? 1.1 : 0.92;
  return own < gain * cycles(FilterForm::kApart) && own < 0.95 * cycles(FilterForm::kJoined);
}

bool BlockLanesWin(const Problem& problem, const KernelTable& kernels) {
  const ConvGeometry& g = problem.geometry;
  const BlockLanesCut cut(problem);
  // Where rows are cut, every row of a block is packed with as many of the input as the filter has.
  if (!cut.whole_rows) return HasFewChannels(cut) && 4 * g.out_c <= cut.most_lanes;
  if (g.group_in_c > 1) {
    return BlockLanesCycles(cut, kernels.vector_bytes) < LeastCyclesByChannels(problem, kernels);
  }
  constexpr double kGain = 0.8;  // that rough counts must promise
  return HasFewChannels(cut) || CyclesPerPixel(cut) < kGain * CyclesByChannels(cut);
}

bool TapRowsWin(const Problem& problem, const KernelTable& kernels) {
  // Gains that rough counts must promise.
  constexpr double kOfChannels = 0.92, kOfBlockLanes = 0.8;
  const double cycles = TapRowsCycles(TapRowsCut(problem, kernels));
  return cycles < kOfChannels * LeastCyclesByChannels(problem, kernels) &&
         cycles < kOfBlockLanes * BlockLanesCycles(BlockLanesCut(problem), kernels.vector_bytes);
}

}  // namespace convgrad
