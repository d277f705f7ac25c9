#include "conv/conv2d/filter/units/tap_rows_cut.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "conv/axes/pixel_sum.h"
#include "conv/plan/work.h"

namespace convgrad {
namespace {

// Packed at a time: stays in the second cache, with what the kernel reads beside it.
constexpr int64_t kTapRowsStageBytes = 256 << 10;

using Tile = TapRowsCut::Tile;

// The one with these numbers that takes the fewest cycles for a column of all panels.
template <class Compute>
Tile ChooseTile(const TapRowKernels<Compute>& kernels, int64_t numbers, int64_t out_c, bool wide) {
  Tile choice{-1, 0, 0};
  double least = HUGE_VAL;
  for (const TapRowTile<Compute>& tile : kernels.tiles) {
    if (tile.numbers != numbers) continue;
    const int64_t vectors = tile.cols / kernels.lanes;
    // Beside its multiply-adds a column takes half a cycle, and as much for each vector of it.
    const int64_t added = std::max(numbers * vectors, WaitingSlots(wide));
    const double cycles = Product(CeilDiv(out_c, int64_t{tile.cols})) *
                          (Product(added) * (wide ? 1 : 0.5) + 0.5 * Product(vectors) + 0.5);
    if (cycles >= least) continue;
    least = cycles;
    choice = {&tile - kernels.tiles.data(), tile.cols, kernels.lanes};
  }
  return choice;
}

Tile ChooseTile(const Problem& problem, const KernelTable& kernels) {
  const ConvGeometry& g = problem.geometry;
  const int64_t numbers = g.kernel_w * g.in_c;
  const bool wide = kernels.vector_bytes >= 64;
  if (problem.dtype == DType::kFloat64) {
    return ChooseTile(kernels.tap_row_f64, numbers, g.out_c, wide);
  }
  return ChooseTile(kernels.tap_row_f32, numbers, g.out_c, wide);
}

// The parts of a row of taps that output columns [begin, end) meet.
std::vector<TapRowRange> RangesOf(const ConvGeometry& g, int64_t begin, int64_t end) {
  std::vector<TapRowRange> ranges;
  for (int64_t i = begin; i < end; ++i) {
    const Range taps = ValidTaps(i, g.stride_w, g.dilation_w, g.pad_left, g.kernel_w, g.in_w);
    ranges.push_back(
        {static_cast<int32_t>(taps.begin * g.in_c), static_cast<int32_t>(taps.end * g.in_c)});
  }
  return ranges;
}

}  // namespace

bool TapRowsCut::Fits(const Problem& problem, const KernelTable& kernels) {
  const ConvGeometry& g = problem.geometry;
  return InfoOf(problem.op).direction == Direction::kBackpropFilter && g.groups == 1 &&
         g.kernel_w > 1 && g.dilation_w == 1 && !TermsInPairs(problem) &&
         problem.ValidTerms() > 0 && CanListPixelBlocks(g) &&
         ChooseTile(problem, kernels).index >= 0;
}

TapRowsCut::TapRowsCut(const Problem& problem_in, const KernelTable& kernels)
    : problem(problem_in),
      geometry(problem.geometry),
      numbers(geometry.kernel_w * geometry.in_c),
      wide(kernels.vector_bytes >= 64),
      tile(ChooseTile(problem, kernels)),
      num_panels(CeilDiv(geometry.out_c, tile.cols)),
      blocks(PixelBlocks(geometry.batch, geometry.out_h, geometry.out_w)),
      met_columns(MakeColumns()),
      met_rows(MakeRows()),
      stages(CutStages()),
      input_elements(InputElements()),
      output_elements(OutputElements()) {}

auto TapRowsCut::MakeColumns() const -> MetColumns {
  const ConvGeometry& g = geometry;
  const Range of_first = OutputsOnInput(-g.pad_left, g.stride_w, g.in_w, g.out_w);
  const Range of_last = OutputsOnInput(g.kernel_w - 1 - g.pad_left, g.stride_w, g.in_w, g.out_w);
  const bool some_whole = of_first.begin < of_last.end;
  const int64_t whole_begin = some_whole ? of_first.begin : of_first.end;
  const int64_t whole_end = some_whole ? of_last.end : of_first.end;
  return {of_last.begin, whole_begin, whole_end, RangesOf(g, of_last.begin, whole_begin),
          RangesOf(g, whole_end, of_first.end)};
}

auto TapRowsCut::MakeRows() const -> std::vector<Range> {
  const ConvGeometry& g = geometry;
  std::vector<Range> all;
  for (int64_t tap = 0; tap < g.kernel_h; ++tap) {
    all.push_back(OutputsOnInput(tap * g.dilation_h - g.pad_top, g.stride_h, g.in_h, g.out_h));
  }
  return all;
}

auto TapRowsCut::CutStages() const -> std::vector<Stage> {
  std::vector<Stage> all;
  for (int64_t i = 0, end; i < std::ssize(blocks); i = end) {
    end = StageEnd(i);
    all.push_back({i, end, Together(i, end)});
  }
  return all;
}

auto TapRowsCut::StagesOfRun(int64_t run) const -> std::span<const Stage> {
  return StagesOfBlocks(stages, {run * kRunBlocks, (run + 1) * kRunBlocks});
}

int64_t TapRowsCut::InputElements() const {
  if (UsesInputInPlace()) return 0;
  int64_t most = 0;
  for (const Stage& stage : stages) {
    const Slab rows = InputRows(stage.whole, 0, geometry.kernel_h);
    most = std::max(most, rows.num_images() * rows.num_rows());
  }
  return most * geometry.in_w * geometry.in_c;
}

int64_t TapRowsCut::OutputElements() const {
  if (UsesOutputInPlace()) return 0;
  int64_t most = 0;
  for (const Stage& stage : stages) most = std::max(most, stage.whole.num_pixels());
  return most * tile.cols;
}

int64_t TapRowsCut::StageEnd(int64_t first) const {
  const int64_t run_end =
      std::min<int64_t>(std::ssize(blocks), (first / kRunBlocks + 1) * kRunBlocks);
  int64_t end = first + 1;
  const PixelBlock& block = blocks[static_cast<size_t>(first)];
  const bool whole_rows = block.col_begin == 0 && block.col_end == geometry.out_w;
  if (UsesOutputInPlace() || !whole_rows) return end;
  for (; end < run_end; ++end) {
    const PixelBlock whole = Together(first, end + 1);
    const int64_t bytes = whole.num_pixels() * tile.cols * ComputeBytes();
    if (whole.image_end - whole.image_begin > 1 || bytes > kTapRowsStageBytes) break;
  }
  return end;
}

PixelBlock TapRowsCut::Together(int64_t first, int64_t end) const {
  PixelBlock whole = blocks[static_cast<size_t>(first)];
  const PixelBlock& last = blocks[static_cast<size_t>(end - 1)];
  whole.image_end = last.image_end;
  whole.row_end = last.row_end;
  whole.col_end = last.col_end;
  return whole;
}

Slab TapRowsCut::InputRows(const PixelBlock& block, int64_t tap_begin, int64_t tap_end) const {
  const ConvGeometry& g = geometry;
  const int64_t begin = block.row_begin * g.stride_h + tap_begin * g.dilation_h - g.pad_top;
  const int64_t end =
      (block.row_end - 1) * g.stride_h + (tap_end - 1) * g.dilation_h - g.pad_top + 1;
  const int64_t first = std::clamp<int64_t>(begin, 0, g.in_h);
  return {block.image_begin, block.image_end, first, std::clamp(end, first, g.in_h)};
}

Slab TapRowsCut::RowsOfTap(const PixelBlock& block, int64_t tap) const {
  const Range& rows = met_rows[static_cast<size_t>(tap)];
  const int64_t begin = std::max(block.row_begin, rows.begin);
  return {block.image_begin, block.image_end, begin,
          std::max(begin, std::min(block.row_end, rows.end))};
}

auto TapRowsCut::ColumnsOf(const PixelBlock& block) const -> Columns {
  const auto& [met_begin, whole_begin, whole_end, before, behind] = met_columns;
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

Work TapRowsCut::CountWork() const {
  const ConvGeometry& g = geometry;
  const double words = Product(ComputeBytes()) / 4;  // of four bytes
  const double panels = Product(num_panels), pixels = Product(g.batch, g.out_h, g.out_w);
  const int64_t vectors = tile.cols / tile.lanes;
  // Columns that meet a row of taps, all of whose numbers count.
  const double columns =
      panels * static_cast<double>(problem.ValidTerms()) / Product(g.out_c, numbers);
  const double calls = panels * Product(std::ssize(blocks), g.kernel_h);
  Work work;
  work.Add(WorkKind::kGemmFma, columns * Product(std::max(numbers * vectors, WaitingSlots(wide))));
  work.Add(WorkKind::kGemmLoad, columns * Product(vectors));
  work.Add(WorkKind::kGemmSingle, columns * Product(numbers));
  work.Add(WorkKind::kSegment, panels * Product(g.batch, g.out_h, g.kernel_h));
  work.Add(WorkKind::kCall, calls);
  work.Add(WorkKind::kFold,
           (calls + panels * Product(NumRuns() + 1, g.kernel_h)) * Product(numbers, vectors));
  work.Add(WorkKind::kTask, Product(stages.size()));
  if (!UsesOutputInPlace()) {
    work.Add(IsNhwc() ? WorkKind::kCopied : WorkKind::kTransposed,
             panels * pixels * Product(tile.cols) * words);
    work.Add(WorkKind::kRun, IsNhwc() ? panels * pixels : Product(stages.size(), g.out_c));
  }
  if (!UsesInputInPlace()) {
    const double rows = Product(g.batch, g.in_h);
    work.Add(IsNhwc() ? WorkKind::kCopied : WorkKind::kTransposed,
             rows * Product(g.in_w, g.in_c) * words);
    work.Add(WorkKind::kRun, IsNhwc() ? Product(stages.size()) : Product(stages.size(), g.in_c));
  }
  return work;
}

std::string TapRowsCut::Tiles() const {
  return fmt::format("{}x{} numbers of a row of taps x channels, {} panels, {} blocks in {} runs",
                     numbers, tile.cols, num_panels, blocks.size(), NumRuns());
}

}  // namespace convgrad
