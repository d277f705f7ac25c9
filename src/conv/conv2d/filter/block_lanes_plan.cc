#include "conv/conv2d/filter/block_lanes_plan.h"

#include <algorithm>

#include "base/checked.h"

namespace convgrad {
namespace {

// Packed operands of a unit's blocks: what the second cache holds, with the sums.
constexpr int64_t kPackedBytes = int64_t{640} << 10;
constexpr int64_t kMostPackedBytes = int64_t{1} << 20;
constexpr int64_t kMostSumBytes = int64_t{512} << 10;
constexpr int64_t kLineBytes = 64;  // also of the widest vector

constexpr double kPacking = 0.65;  // cycles for a number packed

// Sizes of problems too large for this form too: products that an integer may not hold.
double Product(auto... factors) {
  return (static_cast<double>(factors) * ...);
}

// Pixels of even numbers of vectors meet in few sets of the first cache.
int64_t PixelVectors(int64_t channels) {
  return channels < 16 ? channels : channels | 1;
}

}  // namespace

RowRange BlockLanesOperand::OnImage(const PixelBlock& block) const {
  const int64_t first = block.col_begin * col_step + col_first;
  const int64_t begin = std::clamp<int64_t>(-first, 0, cols);
  return {begin, std::clamp<int64_t>(shape.w - first, begin, cols)};
}

BlockLanesPlan::BlockLanesPlan(const Problem& problem)
    : geometry(problem.geometry),
      element_bytes(problem.dtype == DType::kFloat64 ? 8 : 4),
      most_lanes(kLineBytes / element_bytes),
      blocks(PixelBlocks(geometry.batch, geometry.out_h, geometry.out_w)) {
  const ConvGeometry& g = geometry;
  for (const PixelBlock& block : blocks) {
    most_images = std::max(most_images, block.image_end - block.image_begin);
    most_rows = std::max(most_rows, block.row_end - block.row_begin);
    most_cols = std::max(most_cols, block.col_end - block.col_begin);
  }
  whole_rows = most_cols == g.out_w;
  const auto reach = [](int64_t positions, int64_t stride, int64_t taps, int64_t dilation) {
    return (positions - 1) * stride + (taps - 1) * dilation + 1;
  };
  input = {{problem.data_format, g.in_h, g.in_w, g.in_c},
           g.group_in_c,
           reach(most_rows, g.stride_h, g.kernel_h, g.dilation_h),
           reach(most_cols, g.stride_w, g.kernel_w, g.dilation_w),
           g.stride_h,
           -g.pad_top,
           g.stride_w,
           -g.pad_left};
  output = {{problem.data_format, g.out_h, g.out_w, g.out_c},
            g.group_out_c,
            most_rows,
            most_cols,
            1,
            0,
            1,
            0};
  // Groups together: whole lines of both operands, if the cache holds them.
  const int64_t wanted = CeilDiv(most_lanes, std::min(g.group_in_c, g.group_out_c));
  const double group_bytes = (Product(input.rows, input.cols, g.group_in_c) +
                              Product(output.rows, output.cols, g.group_out_c)) *
                             Product(most_images, kLineBytes);
  const double fitting = static_cast<double>(kPackedBytes) / group_bytes;
  unit_groups = std::clamp<int64_t>(static_cast<int64_t>(fitting), 1, std::min(wanted, g.groups));
  unit_groups = CeilDiv(g.groups, CeilDiv(g.groups, unit_groups));  // units alike
  const bool nhwc = problem.data_format == DataFormat::kNHWC;
  for (BlockLanesOperand* operand : {&input, &output}) {
    operand->channels = unit_groups * operand->group_c;
    operand->pixel = PixelVectors(operand->channels);
    operand->whole_pixels =
        nhwc && operand->channels == operand->shape.c && operand->pixel == operand->channels;
  }
}

bool BlockLanesPlan::Fits() const {
  const double vectors = Product(most_images, input.rows, input.cols, input.pixel) +
                         Product(most_images, output.rows, output.cols, output.pixel);
  return vectors * kLineBytes <= kMostPackedBytes &&
         Product(num_rows(), unit_out_c(), kLineBytes) <= kMostSumBytes;
}

double BlockLanesPlan::CyclesPerPixel() const {
  const ConvGeometry& g = geometry;
  const double pixels = Product(g.batch, g.out_h, g.out_w);
  // Of all places in runs of whole vectors of blocks.
  const double used =
      pixels / Product(RoundUp(std::ssize(blocks), most_lanes), most_images, most_rows, most_cols);
  const double numbers = Product(input.rows, input.cols, g.in_c) / Product(most_rows, most_cols) +
                         static_cast<double>(g.out_c);
  // Of planes, short rows fill squares in part and take as long to find as to pack.
  const double packing =
      input.shape.format == DataFormat::kNHWC
          ? kPacking
          : kPacking * Product(RoundUp(most_cols, most_lanes) + most_lanes) / Product(most_cols);
  return (Product(num_rows(), g.out_c) / static_cast<double>(most_lanes) + numbers * packing) /
         used;
}

double BlockLanesPlan::Cycles(int vector_bytes) const {
  // Measured, for one that was counted; narrower vectors have fewer registers for sums, too.
  const double counted = vector_bytes >= kLineBytes ? 1.6 : 2.0;
  constexpr double kFolded = 1.4;  // for a block's sum
  const ConvGeometry& g = geometry;
  return counted * CyclesPerPixel() * Product(g.batch, g.out_h, g.out_w) +
         kFolded * Product(num_rows(), g.out_c, std::ssize(blocks));
}

double BlockLanesPlan::CyclesByChannels() const {
  constexpr double kPixel = 30;  // of a group, whatever its channels
  constexpr double kMoved = 6;   // to copy what a tap meets
  const ConvGeometry& g = geometry;
  const double by_outputs = Product(num_rows(), CeilDiv(g.group_out_c, most_lanes));
  const double by_inputs = Product(CeilDiv(num_rows(), most_lanes), g.group_out_c) +
                           Product(g.kernel_h, std::min(g.kernel_w, g.stride_w), kMoved);
  const double by_groups =
      (std::min(by_outputs, by_inputs) + kPixel) * static_cast<double>(g.groups);
  // Lanes go on from group to group.
  const bool packs = input.shape.format == DataFormat::kNCHW || g.group_out_c > 1;
  return std::min(by_groups, Product(num_taps(), CeilDiv(g.out_c, most_lanes)) +
                                 (packs ? 2 * kPacking * static_cast<double>(g.out_c) : 0));
}

BlockLanesSums::BlockLanesSums(const BlockLanesPlan& plan)
    : groups(plan.unit_groups),
      rows(plan.num_rows()),
      cols(plan.geometry.group_out_c),
      most_lanes(plan.most_lanes) {}

// Of all multiply-adds, and of what loads cost beside them.
double BlockLanesSums::CostOf(int64_t of_rows, int64_t of_cols) const {
  return Product(CeilDiv(rows, of_rows), CeilDiv(cols, of_cols),
                 4 * of_rows * of_cols + of_rows + of_cols);
}

}  // namespace convgrad
