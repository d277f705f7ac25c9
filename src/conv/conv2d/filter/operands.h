// Input and out_backprop of one stage of a filter gradient, packed so that the micro-kernel finds
// the numbers of one pixel for one tile side by side.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "base/memory.h"
#include "conv/conv2d/filter/plan.h"
#include "conv/move/staging.h"
#include "conv/plan/algorithm.h"

namespace convgrad {

// input, NHWC:  apart  [group][channel block][pixel of the grid][channels of a channel block]
//               joined [pixel of the padded grid][channels of the pass' groups]
//        NCHW:  apart  [image][channel][pixel of the grid]: a tile's rows are planes, without
//                      widening those of the tensor itself
//               joined as NHWC
// out_backprop: [panel][pixel][columns of a panel], or as it lies
//
// In pairs a pixel of out_backprop is two neighbours of a row, and a pixel of the input what they
// meet. `Packing` is how rows are packed: WidenedColumns or PairedColumns.
template <class Stored, class Packing>
class FilterGradientOperands {
 public:
  using Element = typename Packing::Element;
  using Pass = FilterGradientPlan::Pass;

  FilterGradientOperands(const ConvArgs& args, const FilterGradientPlan& plan);

  void Pack(const Pass& pass, const PixelStage& stage);
  // Offset of a row of the result's matrix (inside its tap when apart) from the group's pixel.
  int64_t RowOffset(int64_t row) const;
  const Element* Rows(int64_t group_in_pass) const {
    return input_ + group_in_pass * group_stride_;
  }
  // Panels of a group, and groups, are neighbours also where they lie.
  const Element* Columns(int64_t panel_in_pass) const {
    return output_ + panel_in_pass * panel_stride_;
  }
  int64_t InputPixel(int64_t image, int64_t grid_row, int64_t grid_col) const {
    return (image - origin_.image_begin) * image_stride_ +
           (grid_row - origin_.row_begin) * row_stride_ + grid_col * pixel_stride_;
  }
  int64_t OutputPixel(int64_t image, int64_t row, int64_t col) const {
    const Slab& out = stage_->output;
    return (((image - out.image_begin) * out.num_rows() + row - out.row_begin) * plan_.out_cols +
            col) *
           column_step_;
  }
  int64_t row_step() const { return plan_.cols.stride * pixel_stride_; }
  int64_t column_step() const { return column_step_; }
  static GemmSegment Terms(int64_t input, int64_t output, int64_t length) {
    return {input, output, length};
  }

 private:
  static constexpr int64_t kNumbers =
      std::is_same_v<Element, BFloat16Pair> ? 2 : 1;  // of an element
  struct Plane {                                      // of one of the two tensors
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
  void PlacePixels();
  void PackApart();
  void PackJoined();
  void PackPlanes();
  void PackOutput();
  struct OutputPiece {  // of an image, from the start of a row on
    int64_t image, row;
    GridPiece columns;
  };
  void PackPlanePanels(const OutputPiece& piece, int64_t channel, int64_t num_channels,
                       Element* to) const;

  const ConvArgs& args_;
  const FilterGradientPlan& plan_;
  const Packing pack_;
  const Plane input_plane_, output_plane_;
  const int64_t column_step_;
  AlignedArray<Element> input_scratch_, output_scratch_;
  const Element* output_ = nullptr;
  const Pass* pass_ = nullptr;
  const PixelStage* stage_ = nullptr;
  Slab grid_{};
  // How the input of the stage lies.
  const Element* input_ = nullptr;
  Slab origin_{};  // of its pixels
  int64_t pixel_stride_ = 0, row_stride_ = 0, image_stride_ = 0;
  int64_t channel_stride_ = 0, block_stride_ = 0, group_stride_ = 0;
  int64_t panel_stride_ = 0;
};

template <class Stored, class Packing>
FilterGradientOperands<Stored, Packing>::FilterGradientOperands(const ConvArgs& args,
                                                                const FilterGradientPlan& plan)
    : args_(args),
      plan_(plan),
      pack_(args.kernels),
      input_plane_{static_cast<const Stored*>(args.input), plan.geometry.in_h * plan.geometry.in_w,
                   plan.geometry.in_c},
      output_plane_{static_cast<const Stored*>(args.out_backprop),
                    plan.geometry.out_h * plan.geometry.out_w, plan.geometry.out_c},
      column_step_(plan.UsesOutputInPlace() ? plan.geometry.out_c : plan.sizes.panels.cols) {
  int64_t input = 0, output = 0;
  for (const PixelStage& stage : plan.stages) {
    input = std::max(input, plan.InputElements(stage, plan.passes.front()));
    output = std::max(output, plan.OutputElements(stage, plan.passes.front()));
  }
  if (!plan.UsesInputInPlace()) input_scratch_ = AlignedArray<Element>(input);
  if (plan.UsesOutputInPlace()) return;
  output_scratch_ = AlignedArray<Element>(output);
  // Surplus columns are computed and dropped: they must be numbers, not slow subnormals.
  if (plan.geometry.group_out_c % plan.sizes.panels.cols != 0) {
    std::fill_n(output_scratch_.data(), output, Element{});
  }
}

template <class Stored, class Packing>
void FilterGradientOperands<Stored, Packing>::Pack(const Pass& pass, const PixelStage& stage) {
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

template <class Stored, class Packing>
void FilterGradientOperands<Stored, Packing>::PlaceInput() {
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
    if (plan_.UsesInputInPlace()) PlacePixels();
    return;
  }
  pixel_stride_ = 1;
  row_stride_ = plan_.cols.count;
  channel_stride_ = grid_.num_rows() * row_stride_;
  image_stride_ = channels * channel_stride_;
  if (plan_.UsesInputInPlace()) {
    origin_ = {grid_.image_begin, 0, 0, 0};
    const int64_t row = g.in_w / kNumbers;
    row_stride_ = plan_.rows.step * row;
    channel_stride_ = g.in_h * row;
    image_stride_ = g.in_c * channel_stride_;
    input_ = static_cast<const Element*>(args_.input) + origin_.image_begin * image_stride_ +
             plan_.rows.first * row + pass_->group_begin * g.group_in_c * channel_stride_;
  }
  block_stride_ = plan_.ChannelBlock() * channel_stride_;
  group_stride_ = g.group_in_c * channel_stride_;
}

// The input's pixels as they lie in NHWC.
template <class Stored, class Packing>
void FilterGradientOperands<Stored, Packing>::PlacePixels() {
  if constexpr (std::is_same_v<Stored, Element>) {
    const ConvGeometry& g = plan_.geometry;
    origin_ = {grid_.image_begin, 0, 0, 0};
    pixel_stride_ = plan_.cols.step * g.in_c;
    row_stride_ = plan_.rows.step * g.in_w * g.in_c;
    image_stride_ = g.in_h * g.in_w * g.in_c;
    block_stride_ = plan_.ChannelBlock();
    group_stride_ = g.group_in_c;
    input_ = input_plane_.At(origin_.image_begin, plan_.rows.first * g.in_w + plan_.cols.first) +
             pass_->group_begin * g.group_in_c;
  }
}

template <class Stored, class Packing>
int64_t FilterGradientOperands<Stored, Packing>::RowOffset(int64_t row) const {
  const ConvGeometry& g = plan_.geometry;
  if (!plan_.joined) {
    const int64_t block = plan_.ChannelBlock();
    return row / block * block_stride_ + row % block * channel_stride_;
  }
  const int64_t tap = row / g.group_in_c, channel = row % g.group_in_c;
  return tap / g.kernel_w * g.dilation_h * row_stride_ +
         tap % g.kernel_w * g.dilation_w * pixel_stride_ + channel * channel_stride_;
}

template <class Stored, class Packing>
void FilterGradientOperands<Stored, Packing>::PackApart() {
  const ConvGeometry& g = plan_.geometry;
  const AxisGrid& rows = plan_.rows;
  const GridColumns cols = plan_.InputColumns();
  // Without jumps all rows of an image are one line.
  const bool dense = rows.step == 1 && Packing::Covers(cols);
  const int64_t lines = dense ? 1 : grid_.num_rows();
  const GridColumns line_cols = cols.OfRows(grid_.num_rows() / lines);
  const int64_t groups = pass_->group_end - pass_->group_begin;
  staging::ForLines(
      args_.parallel, grid_.num_images(), lines, line_cols.count,
      [&](int64_t n, int64_t line, int64_t pixel, int64_t num_pixels) {
        const int64_t image = grid_.image_begin + n;
        const int64_t row = rows.first + (grid_.row_begin + line) * rows.step;
        const Stored* from = input_plane_.At(image, row * g.in_w);
        Element* to = input_scratch_.data() + InputPixel(image, grid_.row_begin + line, pixel);
        pack_.Split({line_cols, pixel, num_pixels}, from + pass_->group_begin * g.group_in_c,
                    g.in_c, {groups, g.group_in_c, plan_.ChannelBlock(), block_stride_}, to);
      });
}

template <class Stored, class Packing>
void FilterGradientOperands<Stored, Packing>::PackJoined() {
  const ConvGeometry& g = plan_.geometry;
  const GridColumns cols = plan_.InputColumns();
  const int64_t channel = pass_->group_begin * g.group_in_c;
  args_.parallel.For(grid_.num_images() * grid_.num_rows(), [&](int64_t i) {
    const int64_t image = grid_.image_begin + i / grid_.num_rows();
    const int64_t grid_row = grid_.row_begin + i % grid_.num_rows();
    const int64_t row = plan_.rows.first + grid_row;
    Element* to = input_scratch_.data() + InputPixel(image, grid_row, 0);
    if (row < 0 || row >= g.in_h) {
      std::fill_n(to, cols.count * pixel_stride_, Element{});
    } else if (plan_.format == DataFormat::kNHWC) {
      pack_.Copy(cols, input_plane_.At(image, row * g.in_w) + channel, g.in_c, pixel_stride_, to);
    } else {
      pack_.CopyTransposed(cols, input_plane_.PlaneOf(image, channel) + row * g.in_w,
                           input_plane_.pixels, pixel_stride_, to);
    }
  });
}

template <class Stored, class Packing>
void FilterGradientOperands<Stored, Packing>::PackPlanes() {
  const ConvGeometry& g = plan_.geometry;
  const int64_t first_channel = pass_->group_begin * g.group_in_c;
  const int64_t channels = pass_->group_end * g.group_in_c - first_channel;
  const int64_t step = plan_.rows.step * g.in_w;
  args_.parallel.For(grid_.num_images() * channels, [&](int64_t i) {
    const Stored* from =
        input_plane_.PlaneOf(grid_.image_begin + i / channels, first_channel + i % channels) +
        plan_.rows.first * g.in_w + grid_.row_begin * step;
    pack_.CopyPlane(plan_.InputColumns(), from, step, grid_.num_rows(),
                    input_scratch_.data() + i * channel_stride_);
  });
}

template <class Stored, class Packing>
void FilterGradientOperands<Stored, Packing>::PackOutput() {
  const ConvGeometry& g = plan_.geometry;
  const Slab& out = stage_->output;
  const Panels& panels = plan_.sizes.panels;
  if constexpr (std::is_same_v<Stored, Element>) {
    if (plan_.UsesOutputInPlace()) {
      output_ = output_plane_.At(out.image_begin, out.row_begin * g.out_w) +
                pass_->group_begin * g.group_out_c + pass_->panel_begin * panels.cols;
      panel_stride_ = panels.cols;
      return;
    }
  }
  output_ = output_scratch_.data();
  panel_stride_ = stage_->num_pixels(plan_.out_cols) * panels.cols;
  // Of several groups all panels are in the pass.
  const int64_t groups = pass_->group_end - pass_->group_begin;
  const int64_t panels_per_group = pass_->panel_end - pass_->panel_begin;
  const int64_t first_channel = pass_->panel_begin * panels.cols;
  const int64_t last_channel = std::min(g.group_out_c, pass_->panel_end * panels.cols);
  const GridColumns cols = plan_.OutputColumns();
  const int64_t lines = Packing::Covers(cols) ? 1 : out.num_rows();
  const GridColumns line_cols = cols.OfRows(out.num_rows() / lines);
  staging::ForLines(
      args_.parallel, out.num_images(), lines, line_cols.count,
      [&](int64_t n, int64_t line, int64_t pixel, int64_t num_pixels) {
        const OutputPiece piece{
            out.image_begin + n, out.row_begin + line, {line_cols, pixel, num_pixels}};
        Element* to = output_scratch_.data() + OutputPixel(piece.image, piece.row, pixel);
        if (plan_.format == DataFormat::kNHWC) {
          const int64_t first = pass_->group_begin * g.group_out_c + first_channel;
          return pack_.Split(
              piece.columns, output_plane_.At(piece.image, piece.row * g.out_w) + first, g.out_c,
              {groups, last_channel - first_channel, panels.cols, panel_stride_}, to);
        }
        for (int64_t group = pass_->group_begin; group < pass_->group_end; ++group) {
          PackPlanePanels(piece, group * g.group_out_c + first_channel,
                          last_channel - first_channel, to);
          to += panels_per_group * panel_stride_;
        }
      });
}

// Some planes of out_backprop into panels.
template <class Stored, class Packing>
void FilterGradientOperands<Stored, Packing>::PackPlanePanels(const OutputPiece& piece,
                                                              int64_t channel, int64_t num_channels,
                                                              Element* to) const {
  const int64_t cols = plan_.sizes.panels.cols;
  const Plane& plane = output_plane_;
  const int64_t first = piece.row * plan_.geometry.out_w;
  // The next piece of the planes, or the next image's first one.
  const auto [line, begin, count] = piece.columns;
  const int64_t at = first + begin * line.step, numbers = count * line.step;
  const int64_t ahead = at + numbers < plane.pixels ? numbers : plane.channels * plane.pixels - at;
  for (int64_t done = 0; done < num_channels; done += cols) {
    pack_.Transpose(piece.columns, plane.PlaneOf(piece.image, channel + done) + first, plane.pixels,
                    std::min(cols, num_channels - done), to, cols, ahead);
    to += panel_stride_;
  }
}

}  // namespace convgrad
