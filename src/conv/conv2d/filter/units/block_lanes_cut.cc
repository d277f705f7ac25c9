#include "conv/conv2d/filter/units/block_lanes_cut.h"

#include <algorithm>

#include "base/checked.h"
#include "base/memory.h"

namespace convgrad {
namespace {

// Packed operands of a unit's blocks: what the second cache holds, with the sums.
constexpr int64_t kPackedBytes = int64_t{640} << 10;
constexpr int64_t kMostPackedBytes = int64_t{1} << 20;
constexpr int64_t kMostSumBytes = int64_t{512} << 10;

// Pixels of even numbers of vectors meet in few sets of the first cache.
int64_t PixelVectors(int64_t channels) {
  return channels < 16 ? channels : channels | 1;
}

}  // namespace

Range BlockLanesOperand::OnImage(const PixelBlock& block) const {
  const int64_t first = block.col_begin * col_step + col_first;
  const int64_t begin = std::clamp<int64_t>(-first, 0, cols);
  return {begin, std::clamp<int64_t>(shape.w - first, begin, cols)};
}

BlockLanesCut::BlockLanesCut(const Problem& problem)
    : geometry(problem.geometry),
      element_bytes(problem.dtype == DType::kFloat64 ? 8 : 4),
      most_lanes(kLineBytes / element_bytes),
      num_blocks(NumPixelBlocks(geometry)),
      most(LargestPixelBlock(geometry)),
      whole_rows(most.cols == geometry.out_w),
      unit_groups(UnitGroups()),
      input(OfUnit(InputForm(problem.data_format))),
      output(OfUnit(OutputForm(problem.data_format))) {}

BlockLanesOperand BlockLanesCut::InputForm(DataFormat format) const {
  const ConvGeometry& g = geometry;
  const auto reach = [](int64_t positions, int64_t stride, int64_t taps, int64_t dilation) {
    return (positions - 1) * stride + (taps - 1) * dilation + 1;
  };
  return {.shape = {format, g.in_h, g.in_w, g.in_c},
          .group_c = g.group_in_c,
          .rows = reach(most.rows, g.stride_h, g.kernel_h, g.dilation_h),
          .cols = reach(most.cols, g.stride_w, g.kernel_w, g.dilation_w),
          .row_step = g.stride_h,
          .row_first = -g.pad_top,
          .col_step = g.stride_w,
          .col_first = -g.pad_left};
}

BlockLanesOperand BlockLanesCut::OutputForm(DataFormat format) const {
  const ConvGeometry& g = geometry;
  return {.shape = {format, g.out_h, g.out_w, g.out_c},
          .group_c = g.group_out_c,
          .rows = most.rows,
          .cols = most.cols,
          .row_step = 1,
          .row_first = 0,
          .col_step = 1,
          .col_first = 0};
}

BlockLanesOperand BlockLanesCut::OfUnit(BlockLanesOperand operand) const {
  operand.channels = unit_groups * operand.group_c;
  operand.pixel = PixelVectors(operand.channels);
  operand.whole_pixels = operand.shape.format == DataFormat::kNHWC &&
                         operand.channels == operand.shape.c && operand.pixel == operand.channels;
  return operand;
}

// Whole lines of both operands, if the cache holds them.
int64_t BlockLanesCut::UnitGroups() const {
  const ConvGeometry& g = geometry;
  const BlockLanesOperand in = InputForm(DataFormat::kNHWC), out = OutputForm(DataFormat::kNHWC);
  const int64_t wanted = CeilDiv(most_lanes, std::min(g.group_in_c, g.group_out_c));
  const double group_bytes =
      (Product(in.rows, in.cols, in.group_c) + Product(out.rows, out.cols, out.group_c)) *
      Product(most.images, kLineBytes);
  const double fitting = static_cast<double>(kPackedBytes) / group_bytes;
  const int64_t groups =
      std::clamp<int64_t>(static_cast<int64_t>(fitting), 1, std::min(wanted, g.groups));
  return CeilDiv(g.groups, CeilDiv(g.groups, groups));  // units alike
}

std::vector<int64_t> BlockLanesCut::RowOffsets(int64_t count) const {
  const ConvGeometry& g = geometry;
  std::vector<int64_t> offsets;
  for (int64_t row_tap = 0; row_tap < g.kernel_h; ++row_tap) {
    for (int64_t col_tap = 0; col_tap < g.kernel_w; ++col_tap) {
      const int64_t pixel = row_tap * g.dilation_h * input.cols + col_tap * g.dilation_w;
      for (int64_t c = 0; c < g.group_in_c; ++c) offsets.push_back(pixel * input.pixel + c);
    }
  }
  offsets.resize(static_cast<size_t>(count), offsets.back());
  return offsets;
}

std::vector<GemmSegment> BlockLanesCut::Segments() const {
  std::vector<GemmSegment> segments;
  for (int64_t image = 0; image < most.images; ++image) {
    for (int64_t row = 0; row < most.rows; ++row) {
      const int64_t in_row = image * input.rows + row * input.row_step;
      const int64_t out_row = image * output.rows + row;
      segments.push_back(
          {in_row * input.cols * input.pixel, out_row * output.cols * output.pixel, most.cols});
    }
  }
  return segments;
}

bool BlockLanesCut::Fits() const {
  const double vectors = Product(most.images, input.rows, input.cols, input.pixel) +
                         Product(most.images, output.rows, output.cols, output.pixel);
  return vectors * kLineBytes <= kMostPackedBytes &&
         Product(num_rows(), unit_out_c(), kLineBytes) <= kMostSumBytes;
}

Work BlockLanesCut::CountWork(const BlockLanesSums& sums, int64_t lanes) const {
  const double runs = Product(num_runs());
  // Vectors of blocks, the last one of the last run maybe unfilled.
  const int64_t last = num_blocks - (num_runs() - 1) * kRunBlocks;
  const double chunks = Product(num_runs() - 1, kRunBlocks / lanes) + Product(CeilDiv(last, lanes));
  const double tiles = chunks * Product(geometry.groups, sums.row_tiles(), sums.col_tiles());
  const double terms = tiles * Product(most.pixels());
  const double words = Product(element_bytes) / 4;  // of four bytes
  Work work;
  work.Add(WorkKind::kWholeFma, terms * Product(sums.TileSize()));
  work.Add(WorkKind::kWholeLoad, terms * Product(sums.tile_rows + sums.tile_cols));
  work.Add(WorkKind::kSegment, tiles * Product(most.images, most.rows));
  work.Add(WorkKind::kCall, tiles);
  constexpr double kNearBytes = 7 << 20;  // of both operands, which stay in the last cache
  const bool near = Product(geometry.batch, element_bytes) *
                        (Product(input.shape.h, input.shape.w, input.shape.c) +
                         Product(output.shape.h, output.shape.w, output.shape.c)) <=
                    kNearBytes;
  for (const BlockLanesOperand* operand : {&input, &output}) {
    const bool planar = operand->shape.format == DataFormat::kNCHW;
    const double pixels = Product(most.images, operand->rows, operand->cols);
    const double pieces =
        planar ? Product(most.images, operand->rows, operand->channels)
               : (operand->whole_pixels ? Product(most.images, operand->rows) : pixels);
    const double numbers = chunks * pixels * Product(num_units(), operand->channels, lanes) * words;
    work.Add(WorkKind::kTransposed, numbers);
    // Every unit comes again for its part of each pixel, which nothing fetches ahead.
    if (!planar && !operand->whole_pixels && !near) work.Add(WorkKind::kScattered, numbers);
    work.Add(WorkKind::kRun, chunks * pieces * Product(num_units(), lanes));
  }
  const double unit_sums = Product(num_units(), sums.UnitSize());
  work.Add(WorkKind::kTransposed, chunks * unit_sums * Product(lanes) * words);
  work.Add(WorkKind::kFold, unit_sums / Product(lanes) * (Product(num_blocks) + runs + 1));
  work.Add(WorkKind::kCopied, 2 * Product(num_rows(), geometry.out_c) * words);
  work.Add(WorkKind::kRun, Product(num_rows(), geometry.groups, sums.col_tiles()));
  work.Add(WorkKind::kTask, Product(num_units()) * runs);
  return work;
}

BlockLanesSums::BlockLanesSums(const BlockLanesCut& cut)
    : groups(cut.unit_groups),
      rows(cut.num_rows()),
      cols(cut.geometry.group_out_c),
      most_lanes(cut.most_lanes) {}

// The cost of all multiply-adds, and of loads beside them.
double BlockLanesSums::CostOf(int64_t of_rows, int64_t of_cols, int64_t waiting) const {
  return Product(CeilDiv(rows, of_rows), CeilDiv(cols, of_cols),
                 4 * std::max(of_rows * of_cols, waiting) + of_rows + of_cols);
}

}  // namespace convgrad
