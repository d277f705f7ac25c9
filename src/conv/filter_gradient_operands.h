// Input and out_backprop of one stage of a filter gradient, packed so that the micro-kernel finds
// the numbers of one pixel for one tile side by side.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "base/memory.h"
#include "conv/algorithm.h"
#include "conv/filter_gradient_plan.h"

namespace convgrad {

// input:        apart  [group][row block][pixel of the grid][channels of a row block]
//               joined [pixel of the padded grid][channels of the pass' groups]
// out_backprop: [panel][pixel][columns of a panel]
template <class Stored>
class FilterGradientOperands {
 public:
  using Compute = ComputeType<Stored>;
  using Pass = FilterGradientPlan::Pass;

  FilterGradientOperands(const ConvArgs& args, const FilterGradientPlan& plan);

  void Pack(const Pass& pass, const PixelStage& stage);

  // Offset of row i of a row block from the numbers of its pixel.
  int64_t RowOffset(int64_t row_block, int64_t i) const;
  const Compute* Input(int64_t group_in_pass, int64_t row_block) const;
  const Compute* Output(int64_t panel_in_pass) const {
    return output_ + panel_in_pass * panel_stride_;
  }
  int64_t InputPixel(int64_t image, int64_t grid_row, int64_t grid_col) const {
    return (((image - grid_.image_begin) * grid_.num_rows() + grid_row - grid_.row_begin) *
                plan_.cols.count +
            grid_col) *
           pixel_stride_;
  }
  int64_t OutputPixel(int64_t image, int64_t row, int64_t col) const {
    const Slab& out = stage_->output;
    return (((image - out.image_begin) * out.num_rows() + row - out.row_begin) *
                plan_.geometry.out_w +
            col) *
           plan_.sizes.panels.cols;
  }
  int64_t input_step() const { return plan_.cols.stride * pixel_stride_; }

 private:
  struct Plane {  // of one of the two tensors
    const Stored* tensor;
    int64_t pixels, channels;  // of an image
  };
  struct PixelRun {  // `count` pixels of an image, `step` apart
    int64_t image, first, step, count;
  };
  static constexpr int64_t kPiecePixels = 128;  // whose lines stay cached from block to block

  void Gather(const Plane& plane, const PixelRun& pixels, int64_t channel, int64_t num_channels,
              Compute* to, int64_t to_stride) const;
  // body(image, first pixel of the piece, pixels, line) for pieces of `lines` lines of every image.
  template <class Body>
  void ForPieces(int64_t image_begin, int64_t image_end, int64_t lines, int64_t line_pixels,
                 const Body& body) const;
  void PackApart();
  void PackJoined();
  void PackOutput();

  const ConvArgs& args_;
  const FilterGradientPlan& plan_;
  const PackKernels<Stored>& pack_;
  const Plane input_plane_, output_plane_;
  AlignedArray<Compute> input_, output_scratch_;
  const Compute* output_ = nullptr;
  const Pass* pass_ = nullptr;
  const PixelStage* stage_ = nullptr;
  Slab grid_{};
  int64_t pixel_stride_ = 0, block_stride_ = 0, panel_stride_ = 0;
};

template <class Stored>
FilterGradientOperands<Stored>::FilterGradientOperands(const ConvArgs& args,
                                                       const FilterGradientPlan& plan)
    : args_(args),
      plan_(plan),
      pack_(args.kernels.Pack<Stored>()),
      input_plane_{static_cast<const Stored*>(args.input), plan.geometry.in_h * plan.geometry.in_w,
                   plan.geometry.in_c},
      output_plane_{static_cast<const Stored*>(args.out_backprop),
                    plan.geometry.out_h * plan.geometry.out_w, plan.geometry.out_c} {
  int64_t input = 0, output = 0;
  for (const PixelStage& stage : plan.stages) {
    input = std::max(input, plan.InputElements(stage, plan.passes.front()));
    output = std::max(output, plan.OutputElements(stage, plan.passes.front()));
  }
  input_ = AlignedArray<Compute>(input);
  if (!plan.UsesOutputInPlace()) output_scratch_ = AlignedArray<Compute>(output);
}

template <class Stored>
void FilterGradientOperands<Stored>::Pack(const Pass& pass, const PixelStage& stage) {
  pass_ = &pass;
  stage_ = &stage;
  grid_ = plan_.GridSlab(stage);
  const int64_t grid_pixels = grid_.num_images() * grid_.num_rows() * plan_.cols.count;
  pixel_stride_ = plan_.joined ? (pass.group_end - pass.group_begin) * plan_.geometry.group_in_c
                               : plan_.sizes.tile_rows;
  block_stride_ = grid_pixels * plan_.sizes.tile_rows;
  panel_stride_ = stage.num_pixels(plan_.geometry.out_w) * plan_.sizes.panels.cols;
  if (plan_.joined) {
    PackJoined();
  } else {
    PackApart();
  }
  PackOutput();
}

template <class Stored>
int64_t FilterGradientOperands<Stored>::RowOffset(int64_t row_block, int64_t i) const {
  if (!plan_.joined) return i;
  const ConvGeometry& g = plan_.geometry;
  const int64_t row = row_block * plan_.sizes.tile_rows + i;
  const int64_t tap = row / g.group_in_c, channel = row % g.group_in_c;
  const int64_t pixel =
      tap / g.kernel_w * g.dilation_h * plan_.cols.count + tap % g.kernel_w * g.dilation_w;
  return pixel * pixel_stride_ + channel;
}

template <class Stored>
auto FilterGradientOperands<Stored>::Input(int64_t group_in_pass, int64_t row_block) const
    -> const Compute* {
  if (plan_.joined) return input_.data() + group_in_pass * plan_.geometry.group_in_c;
  return input_.data() + (group_in_pass * plan_.row_blocks + row_block) * block_stride_;
}

// to[p][c] for some pixels and num_channels channels.
template <class Stored>
void FilterGradientOperands<Stored>::Gather(const Plane& plane, const PixelRun& pixels,
                                            int64_t channel, int64_t num_channels, Compute* to,
                                            int64_t to_stride) const {
  const Stored* from = plane.tensor + pixels.image * plane.pixels * plane.channels;
  if (plan_.format == DataFormat::kNHWC) {
    pack_.copy_widen(from + pixels.first * plane.channels + channel, pixels.step * plane.channels,
                     to, to_stride, pixels.count, num_channels);
  } else {  // planes are never stepped through
    pack_.transpose_widen(from + channel * plane.pixels + pixels.first, plane.pixels, to, to_stride,
                          num_channels, pixels.count, 0);
  }
}

template <class Stored>
template <class Body>
void FilterGradientOperands<Stored>::ForPieces(int64_t image_begin, int64_t image_end,
                                               int64_t lines, int64_t line_pixels,
                                               const Body& body) const {
  const int64_t pieces = CeilDiv(line_pixels, kPiecePixels);
  args_.parallel.For((image_end - image_begin) * lines * pieces, [&](int64_t i) {
    const int64_t pixel = i % pieces * kPiecePixels, line = i / pieces % lines;
    body(image_begin + i / pieces / lines, line, pixel,
         std::min(kPiecePixels, line_pixels - pixel));
  });
}

template <class Stored>
void FilterGradientOperands<Stored>::PackApart() {
  const ConvGeometry& g = plan_.geometry;
  const AxisGrid &rows = plan_.rows, &cols = plan_.cols;
  // Without jumps all rows of an image are one line.
  const bool dense = rows.step == 1 && cols.step == 1;
  const int64_t lines = dense ? 1 : grid_.num_rows();
  const int64_t line_pixels = dense ? grid_.num_rows() * cols.count : cols.count;
  const int64_t tile_rows = plan_.sizes.tile_rows;
  ForPieces(grid_.image_begin, grid_.image_end, lines, line_pixels,
            [&](int64_t image, int64_t line, int64_t pixel, int64_t num_pixels) {
              const int64_t row = rows.first + (grid_.row_begin + line) * rows.step;
              const int64_t from = row * g.in_w + cols.first + pixel * cols.step;
              for (int64_t group = pass_->group_begin; group < pass_->group_end; ++group) {
                for (int64_t block = 0; block < plan_.row_blocks; ++block) {
                  const int64_t channel = block * tile_rows;
                  auto* to = const_cast<Compute*>(Input(group - pass_->group_begin, block)) +
                             InputPixel(image, grid_.row_begin + line, pixel);
                  Gather(input_plane_, {image, from, cols.step, num_pixels},
                         group * g.group_in_c + channel,
                         std::min(tile_rows, g.group_in_c - channel), to, tile_rows);
                }
              }
            });
}

template <class Stored>
void FilterGradientOperands<Stored>::PackJoined() {
  const ConvGeometry& g = plan_.geometry;
  const AxisGrid &rows = plan_.rows, &cols = plan_.cols;
  const int64_t first = std::clamp<int64_t>(-cols.first, 0, cols.count);
  const int64_t last = std::clamp<int64_t>(g.in_w - cols.first, first, cols.count);
  args_.parallel.For(grid_.num_images() * grid_.num_rows(), [&](int64_t i) {
    const int64_t image = grid_.image_begin + i / grid_.num_rows();
    const int64_t grid_row = grid_.row_begin + i % grid_.num_rows();
    const int64_t row = rows.first + grid_row;
    Compute* to = input_.data() + InputPixel(image, grid_row, 0);
    Compute* const end = to + cols.count * pixel_stride_;
    if (row < 0 || row >= g.in_h || first == last) return std::fill(to, end, Compute{0});
    std::fill(to, to + first * pixel_stride_, Compute{0});
    Gather(input_plane_, {image, row * g.in_w + cols.first + first, 1, last - first},
           pass_->group_begin * g.group_in_c, pixel_stride_, to + first * pixel_stride_,
           pixel_stride_);
    std::fill(to + last * pixel_stride_, end, Compute{0});
  });
}

template <class Stored>
void FilterGradientOperands<Stored>::PackOutput() {
  const ConvGeometry& g = plan_.geometry;
  const Slab& out = stage_->output;
  const int64_t first_pixel = out.row_begin * g.out_w;
  if constexpr (std::is_same_v<Stored, Compute>) {
    if (plan_.UsesOutputInPlace()) {
      output_ =
          output_plane_.tensor + (out.image_begin * g.out_h * g.out_w + first_pixel) * g.out_c;
      return;
    }
  }
  output_ = output_scratch_.data();
  const Panels& panels = plan_.sizes.panels;
  const int64_t panels_per_group = pass_->panel_end - pass_->panel_begin;
  ForPieces(out.image_begin, out.image_end, 1, out.num_rows() * g.out_w,
            [&](int64_t image, int64_t, int64_t pixel, int64_t num_pixels) {
              for (int64_t i = 0; i < pass_->num_panels(); ++i) {
                const int64_t group = pass_->group_begin + i / panels_per_group;
                const int64_t panel = pass_->panel_begin + i % panels_per_group;
                const int64_t num_cols = panels.ColsOf(panel, g.group_out_c);
                Compute* to = output_scratch_.data() + i * panel_stride_ +
                              OutputPixel(image, out.row_begin, pixel);
                // Surplus columns are computed and dropped: they must be numbers, not slow
                // subnormals.
                if (num_cols < panels.cols) std::fill_n(to, num_pixels * panels.cols, Compute{0});
                Gather(output_plane_, {image, first_pixel + pixel, 1, num_pixels},
                       group * g.group_out_c + panel * panels.cols, num_cols, to, panels.cols);
              }
            });
}

}  // namespace convgrad
