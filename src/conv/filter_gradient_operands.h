// Input and out_backprop of one stage of a filter gradient, packed so that the micro-kernel finds
// the numbers of one pixel for one tile side by side.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "base/memory.h"
#include "conv/algorithm.h"
#include "conv/filter_gradient_plan.h"
#include "conv/staging.h"

namespace convgrad {

// input, NHWC:  apart  [group][channel block][pixel of the grid][channels of a channel block]
//               joined [pixel of the padded grid][channels of the pass' groups]
//        NCHW:  apart  [image][channel][pixel of the grid]: a tile's rows are planes, without
//                      widening those of the tensor itself
//               joined as NHWC
// out_backprop: [panel][pixel][columns of a panel], or as it lies
template <class Stored>
class FilterGradientOperands {
 public:
  using Compute = ComputeType<Stored>;
  using Pass = FilterGradientPlan::Pass;

  FilterGradientOperands(const ConvArgs& args, const FilterGradientPlan& plan);

  void Pack(const Pass& pass, const PixelStage& stage);
  // Offset of a row of the result's matrix (inside its tap when apart) from the group's pixel.
  int64_t RowOffset(int64_t row) const;
  const Compute* Rows(int64_t group_in_pass) const {
    return input_ + group_in_pass * group_stride_;
  }
  // Panels of a group, and groups, are neighbours also where they lie.
  const Compute* Columns(int64_t panel_in_pass) const {
    return output_ + panel_in_pass * panel_stride_;
  }
  int64_t InputPixel(int64_t image, int64_t grid_row, int64_t grid_col) const {
    return (image - origin_.image_begin) * image_stride_ +
           (grid_row - origin_.row_begin) * row_stride_ + grid_col * pixel_stride_;
  }
  int64_t OutputPixel(int64_t image, int64_t row, int64_t col) const {
    const Slab& out = stage_->output;
    return (((image - out.image_begin) * out.num_rows() + row - out.row_begin) *
                plan_.geometry.out_w +
            col) *
           column_step();
  }
  int64_t row_step() const { return plan_.cols.stride * pixel_stride_; }
  int64_t column_step() const {
    return plan_.UsesOutputInPlace() ? plan_.geometry.out_c : plan_.sizes.panels.cols;
  }
  static GemmSegment Terms(int64_t input, int64_t output, int64_t length) {
    return {input, output, length};
  }

 private:
  struct Plane {  // of one of the two tensors
    const Stored* tensor;
    int64_t pixels, channels;  // of an image

    const Stored* At(int64_t image, int64_t pixel) const {  // NHWC
      return tensor + (image * pixels + pixel) * channels;
    }
    const Stored* PlaneOf(int64_t image, int64_t channel) const {  // NCHW
      return tensor + (image * channels + channel) * pixels;
    }
  };
  void PlaceInput();
  void PackApart();
  void PackJoined();
  void PackPlanes();
  void PackOutput();
  struct PixelRun {  // neighbours in an image
    int64_t image, first, count;
  };
  void PackPanels(const PixelRun& run, int64_t channel, int64_t num_channels, Compute* to) const;

  const ConvArgs& args_;
  const FilterGradientPlan& plan_;
  const PackKernels<Stored>& pack_;
  const Plane input_plane_, output_plane_;
  AlignedArray<Compute> input_scratch_, output_scratch_;
  const Compute* output_ = nullptr;
  const Pass* pass_ = nullptr;
  const PixelStage* stage_ = nullptr;
  Slab grid_{};
  // How the input of the stage lies.
  const Compute* input_ = nullptr;
  Slab origin_{};  // of its pixels
  int64_t pixel_stride_ = 0, row_stride_ = 0, image_stride_ = 0;
  int64_t channel_stride_ = 0, block_stride_ = 0, group_stride_ = 0;
  int64_t panel_stride_ = 0;
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
  if (!plan.UsesInputInPlace()) input_scratch_ = AlignedArray<Compute>(input);
  if (!plan.UsesOutputInPlace()) output_scratch_ = AlignedArray<Compute>(output);
}

template <class Stored>
void FilterGradientOperands<Stored>::Pack(const Pass& pass, const PixelStage& stage) {
  pass_ = &pass;
  stage_ = &stage;
  grid_ = plan_.GridSlab(stage);
  PlaceInput();
  if (plan_.UsesInputInPlace()) {
    // Nothing to pack.
  } else if (plan_.InputIsPlanar()) {
    PackPlanes();
  } else if (plan_.joined) {
    PackJoined();
  } else {
    PackApart();
  }
  PackOutput();
}

template <class Stored>
void FilterGradientOperands<Stored>::PlaceInput() {
  const ConvGeometry& g = plan_.geometry;
  origin_ = grid_;
  input_ = input_scratch_.data();
  const int64_t channels = (pass_->group_end - pass_->group_begin) * g.group_in_c;
  if (!plan_.InputIsPlanar()) {
    channel_stride_ = 1;
    pixel_stride_ = plan_.joined ? channels : plan_.ChannelBlock();
    row_stride_ = plan_.cols.count * pixel_stride_;
    image_stride_ = grid_.num_rows() * row_stride_;
    block_stride_ = grid_.num_images() * image_stride_;
    group_stride_ =
        plan_.joined ? g.group_in_c : CeilDiv(g.group_in_c, plan_.ChannelBlock()) * block_stride_;
    return;
  }
  pixel_stride_ = 1;
  row_stride_ = plan_.cols.count;
  channel_stride_ = grid_.num_rows() * row_stride_;
  image_stride_ = channels * channel_stride_;
  if constexpr (std::is_same_v<Stored, Compute>) {
    if (plan_.UsesInputInPlace()) {
      origin_ = {};
      row_stride_ = plan_.rows.step * g.in_w;
      channel_stride_ = input_plane_.pixels;
      image_stride_ = g.in_c * channel_stride_;
      input_ = input_plane_.tensor + plan_.rows.first * g.in_w +
               pass_->group_begin * g.group_in_c * channel_stride_;
    }
  }
  block_stride_ = plan_.ChannelBlock() * channel_stride_;
  group_stride_ = g.group_in_c * channel_stride_;
}

template <class Stored>
int64_t FilterGradientOperands<Stored>::RowOffset(int64_t row) const {
  const ConvGeometry& g = plan_.geometry;
  if (!plan_.joined) {
    const int64_t block = plan_.ChannelBlock();
    return row / block * block_stride_ + row % block * channel_stride_;
  }
  const int64_t tap = row / g.group_in_c, channel = row % g.group_in_c;
  return tap / g.kernel_w * g.dilation_h * row_stride_ +
         tap % g.kernel_w * g.dilation_w * pixel_stride_ + channel * channel_stride_;
}

template <class Stored>
void FilterGradientOperands<Stored>::PackApart() {
  const ConvGeometry& g = plan_.geometry;
  const AxisGrid &rows = plan_.rows, &cols = plan_.cols;
  // Without jumps all rows of an image are one line.
  const bool dense = rows.step == 1 && cols.step == 1;
  const int64_t lines = dense ? 1 : grid_.num_rows();
  const int64_t line_pixels = dense ? grid_.num_rows() * cols.count : cols.count;
  staging::ForLines(
      args_.parallel, grid_.num_images(), lines, line_pixels,
      [&](int64_t n, int64_t line, int64_t pixel, int64_t num_pixels) {
        const int64_t image = grid_.image_begin + n;
        const int64_t row = rows.first + (grid_.row_begin + line) * rows.step;
        const Stored* from = input_plane_.At(image, row * g.in_w + cols.first + pixel * cols.step);
        Compute* to = input_scratch_.data() + InputPixel(image, grid_.row_begin + line, pixel);
        for (int64_t group = pass_->group_begin; group < pass_->group_end; ++group) {
          pack_.split_widen(from + group * g.group_in_c, cols.step * g.in_c, to, block_stride_,
                            num_pixels, g.group_in_c, plan_.ChannelBlock());
          to += group_stride_;
        }
      });
}

template <class Stored>
void FilterGradientOperands<Stored>::PackJoined() {
  const ConvGeometry& g = plan_.geometry;
  const AxisGrid &rows = plan_.rows, &cols = plan_.cols;
  const int64_t first = std::clamp<int64_t>(-cols.first, 0, cols.count);
  const int64_t last = std::clamp<int64_t>(g.in_w - cols.first, first, cols.count);
  const int64_t channel = pass_->group_begin * g.group_in_c;
  args_.parallel.For(grid_.num_images() * grid_.num_rows(), [&](int64_t i) {
    const int64_t image = grid_.image_begin + i / grid_.num_rows();
    const int64_t grid_row = grid_.row_begin + i % grid_.num_rows();
    const int64_t row = rows.first + grid_row;
    Compute* to = input_scratch_.data() + InputPixel(image, grid_row, 0);
    Compute* const end = to + cols.count * pixel_stride_;
    if (row < 0 || row >= g.in_h || first == last) return std::fill(to, end, Compute{0});
    std::fill(to, to + first * pixel_stride_, Compute{0});
    std::fill(to + last * pixel_stride_, end, Compute{0});
    to += first * pixel_stride_;
    const int64_t pixel = row * g.in_w + cols.first + first;
    if (plan_.format == DataFormat::kNHWC) {
      pack_.copy_widen(input_plane_.At(image, pixel) + channel, g.in_c, to, pixel_stride_,
                       last - first, pixel_stride_);
    } else {
      pack_.transpose_widen(input_plane_.PlaneOf(image, channel) + pixel, input_plane_.pixels, to,
                            pixel_stride_, pixel_stride_, last - first, 0);
    }
  });
}

template <class Stored>
void FilterGradientOperands<Stored>::PackPlanes() {
  const ConvGeometry& g = plan_.geometry;
  const int64_t first_channel = pass_->group_begin * g.group_in_c;
  const int64_t channels = pass_->group_end * g.group_in_c - first_channel;
  const int64_t step = plan_.rows.step * g.in_w;
  args_.parallel.For(grid_.num_images() * channels, [&](int64_t i) {
    const Stored* from =
        input_plane_.PlaneOf(grid_.image_begin + i / channels, first_channel + i % channels) +
        plan_.rows.first * g.in_w + grid_.row_begin * step;
    Compute* to = input_scratch_.data() + i * channel_stride_;
    if (plan_.rows.step == 1) return pack_.widen(from, to, channel_stride_);
    for (int64_t row = 0; row < grid_.num_rows(); ++row) {
      pack_.widen(from + row * step, to + row * row_stride_, row_stride_);
    }
  });
}

template <class Stored>
void FilterGradientOperands<Stored>::PackOutput() {
  const ConvGeometry& g = plan_.geometry;
  const Slab& out = stage_->output;
  const int64_t first_pixel = out.row_begin * g.out_w;
  const Panels& panels = plan_.sizes.panels;
  if constexpr (std::is_same_v<Stored, Compute>) {
    if (plan_.UsesOutputInPlace()) {
      output_ = output_plane_.At(out.image_begin, first_pixel) +
                pass_->group_begin * g.group_out_c + pass_->panel_begin * panels.cols;
      panel_stride_ = panels.cols;
      return;
    }
  }
  output_ = output_scratch_.data();
  panel_stride_ = stage_->num_pixels(g.out_w) * panels.cols;
  const int64_t panels_per_group = pass_->panel_end - pass_->panel_begin;
  const int64_t first_channel = pass_->panel_begin * panels.cols;
  const int64_t last_channel = std::min(g.group_out_c, pass_->panel_end * panels.cols);
  staging::ForLines(
      args_.parallel, out.num_images(), 1, out.num_rows() * g.out_w,
      [&](int64_t n, int64_t, int64_t pixel, int64_t num_pixels) {
        const int64_t image = out.image_begin + n;
        Compute* to = output_scratch_.data() + OutputPixel(image, out.row_begin, pixel);
        for (int64_t group = pass_->group_begin; group < pass_->group_end; ++group) {
          // Surplus columns are computed and dropped: they must be numbers, not slow
          // subnormals.
          if (last_channel < pass_->panel_end * panels.cols) {
            std::fill_n(to + (panels_per_group - 1) * panel_stride_, num_pixels * panels.cols,
                        Compute{0});
          }
          PackPanels({image, first_pixel + pixel, num_pixels},
                     group * g.group_out_c + first_channel, last_channel - first_channel, to);
          to += panels_per_group * panel_stride_;
        }
      });
}

// Some channels of out_backprop into panels.
template <class Stored>
void FilterGradientOperands<Stored>::PackPanels(const PixelRun& run, int64_t channel,
                                                int64_t num_channels, Compute* to) const {
  const int64_t cols = plan_.sizes.panels.cols;
  if (plan_.format == DataFormat::kNHWC) {
    pack_.split_widen(output_plane_.At(run.image, run.first) + channel, output_plane_.channels, to,
                      panel_stride_, run.count, num_channels, cols);
    return;
  }
  // The next piece of the planes, or the next image's first one.
  const Plane& plane = output_plane_;
  const int64_t ahead =
      run.first + run.count < plane.pixels ? run.count : plane.channels * plane.pixels - run.first;
  for (int64_t done = 0; done < num_channels; done += cols) {
    pack_.transpose_widen(plane.PlaneOf(run.image, channel + done) + run.first, plane.pixels, to,
                          cols, std::min(cols, num_channels - done), run.count, ahead);
    to += panel_stride_;
  }
}

}  // namespace convgrad
