#include "conv/conv2d/filter/tap_rows_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace convgrad {
namespace {

// Packed at a time: stays in the second cache, with what the kernel reads beside it.
constexpr int64_t kStageBytes = 256 << 10;

constexpr double kLatency = 4;   // of a multiply-add
constexpr double kLoad = 0.5;    // of a vector of a column
constexpr double kColumn = 0.5;  // beside its multiply-adds

double Product(auto... factors) {
  return (static_cast<double>(factors) * ...);
}

struct TileChoice {
  int64_t index = -1;  // none fits
  int64_t cols = 0, lanes = 0;
};

// Of those with these numbers, the one that takes the fewest cycles for a column of all panels.
template <class Compute>
TileChoice ChooseTile(const TapRowKernels<Compute>& kernels, int64_t numbers, int64_t out_c,
                      bool wide) {
  TileChoice choice;
  double least = HUGE_VAL;
  for (const TapRowTile<Compute>& tile : kernels.tiles) {
    if (tile.numbers != numbers) continue;
    const int64_t vectors = tile.cols / kernels.lanes;
    const double added = Product(numbers, vectors) * (wide ? 1 : 0.5);
    const double cycles = Product(CeilDiv(out_c, int64_t{tile.cols})) *
                          (std::max(added, kLatency) + kLoad * Product(vectors) + kColumn);
    if (cycles >= least) continue;
    least = cycles;
    choice = {&tile - kernels.tiles.data(), tile.cols, kernels.lanes};
  }
  return choice;
}

TileChoice ChooseTile(const Problem& problem, const KernelTable& kernels) {
  const ConvGeometry& g = problem.geometry;
  const int64_t numbers = g.kernel_w * g.in_c;
  const bool wide = kernels.vector_bytes >= 64;
  if (problem.dtype == DType::kFloat64) {
    return ChooseTile(kernels.tap_row_f64, numbers, g.out_c, wide);
  }
  return ChooseTile(kernels.tap_row_f32, numbers, g.out_c, wide);
}

struct Positions {
  int64_t begin, end;
};

// Output positions of [0, out) that a tap at this distance from the first one meets; maybe none.
Positions OnImage(int64_t tap, int64_t stride, int64_t pad, int64_t in, int64_t out) {
  const int64_t at = tap - pad;  // of position 0
  const int64_t first = at >= 0 ? 0 : CeilDiv(-at, stride);
  const int64_t last = at >= in ? 0 : CeilDiv(in - at, stride);
  return {first, std::max(first, std::min(out, last))};
}

// What output columns [begin, end) meet of a row of taps.
std::vector<TapRowRange> RangesOf(const ConvGeometry& g, int64_t begin, int64_t end) {
  std::vector<TapRowRange> ranges;
  for (int64_t i = begin; i < end; ++i) {
    const TapRange taps = ValidTaps(i, g.stride_w, g.dilation_w, g.pad_left, g.kernel_w, g.in_w);
    ranges.push_back(
        {static_cast<int32_t>(taps.first * g.in_c), static_cast<int32_t>(taps.last * g.in_c)});
  }
  return ranges;
}

}  // namespace

bool TapRowsPlan::Fits(const Problem& problem, const KernelTable& kernels) {
  const ConvGeometry& g = problem.geometry;
  return InfoOf(problem.op).direction == Direction::kBackpropFilter && g.groups == 1 &&
         g.kernel_w > 1 && g.dilation_w == 1 && !TermsInPairs(problem) &&
         problem.ValidTerms() > 0 && ChooseTile(problem, kernels).index >= 0;
}

TapRowsPlan::TapRowsPlan(const Problem& problem_in, const KernelTable& kernels)
    : problem(problem_in),
      geometry(problem.geometry),
      numbers(geometry.kernel_w * geometry.in_c),
      wide(kernels.vector_bytes >= 64),
      blocks(PixelBlocks(geometry.batch, geometry.out_h, geometry.out_w)) {
  const ConvGeometry& g = geometry;
  const TileChoice tile = ChooseTile(problem, kernels);
  tile_index = tile.index;
  tile_cols = tile.cols;
  lanes = tile.lanes;
  num_panels = CeilDiv(g.out_c, tile_cols);
  const Positions of_first = OnImage(0, g.stride_w, g.pad_left, g.in_w, g.out_w);
  const Positions of_last = OnImage(g.kernel_w - 1, g.stride_w, g.pad_left, g.in_w, g.out_w);
  met_begin = of_last.begin;
  const bool some_whole = of_first.begin < of_last.end;
  whole_begin = some_whole ? of_first.begin : of_first.end;
  whole_end = some_whole ? of_last.end : of_first.end;
  before = RangesOf(g, met_begin, whole_begin);
  behind = RangesOf(g, whole_end, of_first.end);
}

int64_t TapRowsPlan::StageEnd(int64_t first) const {
  const int64_t run_end =
      std::min<int64_t>(std::ssize(blocks), (first / kRunBlocks + 1) * kRunBlocks);
  int64_t end = first + 1;
  const PixelBlock& block = blocks[static_cast<size_t>(first)];
  const bool whole_rows = block.col_begin == 0 && block.col_end == geometry.out_w;
  if (UsesOutputInPlace() || !whole_rows) return end;
  for (; end < run_end; ++end) {
    const PixelBlock whole = Together(first, end + 1);
    const int64_t bytes = whole.num_pixels() * tile_cols * ComputeBytes();
    if (whole.image_end - whole.image_begin > 1 || bytes > kStageBytes) break;
  }
  return end;
}

PixelBlock TapRowsPlan::Together(int64_t first, int64_t end) const {
  PixelBlock whole = blocks[static_cast<size_t>(first)];
  const PixelBlock& last = blocks[static_cast<size_t>(end - 1)];
  whole.image_end = last.image_end;
  whole.row_end = last.row_end;
  whole.col_end = last.col_end;
  return whole;
}

Slab TapRowsPlan::InputRows(const PixelBlock& block, int64_t tap_begin, int64_t tap_end) const {
  const ConvGeometry& g = geometry;
  const int64_t begin = block.row_begin * g.stride_h + tap_begin * g.dilation_h - g.pad_top;
  const int64_t end =
      (block.row_end - 1) * g.stride_h + (tap_end - 1) * g.dilation_h - g.pad_top + 1;
  const int64_t first = std::clamp<int64_t>(begin, 0, g.in_h);
  return {block.image_begin, block.image_end, first, std::clamp(end, first, g.in_h)};
}

Slab TapRowsPlan::RowsOfTap(const PixelBlock& block, int64_t tap) const {
  const ConvGeometry& g = geometry;
  const Positions rows = OnImage(tap * g.dilation_h, g.stride_h, g.pad_top, g.in_h, g.out_h);
  const int64_t begin = std::max(block.row_begin, rows.begin);
  return {block.image_begin, block.image_end, begin,
          std::max(begin, std::min(block.row_end, rows.end))};
}

auto TapRowsPlan::ColumnsOf(const PixelBlock& block) const -> Columns {
  // The part of [begin, end), which has those ranges, that is in the block.
  const auto within = [&](int64_t begin, int64_t end, const std::vector<TapRowRange>& ranges) {
    const int64_t first = std::clamp(block.col_begin, begin, end);
    const int64_t last = std::clamp(block.col_end, first, end);
    return std::span(ranges).subspan(static_cast<size_t>(first - begin),
                                     static_cast<size_t>(last - first));
  };
  const int64_t met_end = whole_end + std::ssize(behind);
  const int64_t first_whole = std::clamp(whole_begin, block.col_begin, block.col_end);
  return {std::clamp(met_begin, block.col_begin, block.col_end),
          within(met_begin, whole_begin, before), within(whole_end, met_end, behind),
          std::clamp(whole_end, first_whole, block.col_end) - first_whole};
}

int64_t TapRowsPlan::InputElements() const {
  if (UsesInputInPlace()) return 0;
  int64_t most = 0, end = 0;
  for (int64_t i = 0; i < std::ssize(blocks); i = end) {
    end = StageEnd(i);
    const Slab rows = InputRows(Together(i, end), 0, geometry.kernel_h);
    most = std::max(most, rows.num_images() * rows.num_rows());
  }
  return most * geometry.in_w * geometry.in_c;
}

int64_t TapRowsPlan::OutputElements() const {
  if (UsesOutputInPlace()) return 0;
  int64_t most = 0, end = 0;
  for (int64_t i = 0; i < std::ssize(blocks); i = end) {
    end = StageEnd(i);
    most = std::max(most, Together(i, end).num_pixels());
  }
  return most * tile_cols;
}

double TapRowsPlan::Cycles() const {
  constexpr double kRow = 25, kCall = 60, kFoldedVector = 8;
  constexpr double kCopied = 0.45, kTransposed = 0.85, kFewPlanes = 2;  // numbers of four bytes
  const ConvGeometry& g = geometry;
  const double number_cycles = (problem.dtype == DType::kFloat64 ? 2 : 1);
  const int64_t vectors = tile_cols / lanes;
  const double pixels = Product(g.batch, g.out_h, g.out_w);
  // Of a column and row of taps on the image, for one panel.
  const double added = Product(numbers, vectors) * (wide ? 1 : 0.5);
  const double terms = static_cast<double>(problem.ValidTerms()) / Product(g.out_c, numbers);
  double cycles = terms * (std::max(added, kLatency) + kLoad * Product(vectors) + kColumn);
  cycles += kRow * Product(g.batch, g.out_h, g.kernel_h);
  cycles +=
      Product(std::ssize(blocks), g.kernel_h) * (kCall + kFoldedVector * Product(numbers, vectors));
  if (!UsesOutputInPlace()) {
    cycles += pixels * Product(tile_cols) * number_cycles * (IsNhwc() ? kCopied : kTransposed);
  }
  cycles *= Product(num_panels);
  if (UsesInputInPlace()) return cycles;
  return cycles + Product(g.batch, g.in_h, g.in_w, g.in_c) * number_cycles *
                      (IsNhwc() ? kCopied : kFewPlanes);
}

std::string TapRowsPlan::Tiles() const {
  return fmt::format("{}x{} numbers of a row of taps x channels, {} panels, {} blocks in {} runs",
                     numbers, tile_cols, num_panels, blocks.size(), NumRuns());
}

}  // namespace convgrad
