// Input and out_backprop of one stage of a filter gradient whose lanes run along inputs: columns of
// tiles are the input's channels, or those of all taps, rows are channels of out_backprop.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "base/memory.h"
#include "conv/conv2d/filter/plan.h"
#include "conv/move/staging.h"
#include "conv/plan/algorithm.h"

namespace convgrad {

// input:        [group][pixel of the grid][columns of its panels], or as it lies in NHWC.
//               Joined [group][row][column of the grid][kernel row][channel]: the taps of an output
//               pixel, column by column, are neighbours that the next pixel's taps overlap.
// out_backprop: as it lies, or widened [pixel][channels of the pass' groups]
template <class Stored>
class InputLanesOperands {
 public:
  using Compute = ComputeType<Stored>;
  using Element = Compute;
  using Pass = FilterGradientPlan::Pass;

  InputLanesOperands(const ConvArgs& args, const FilterGradientPlan& plan);

  void Pack(const Pass& pass, const PixelStage& stage);
  int64_t RowOffset(int64_t row) const { return row * output_at_.channel; }
  const Compute* Rows(int64_t group_in_pass) const {
    return output_ + group_in_pass * plan_.geometry.group_out_c * output_at_.channel;
  }
  const Compute* Columns(int64_t panel_in_pass) const {
    const int64_t panels = pass_->panel_end - pass_->panel_begin;
    return input_ + panel_in_pass / panels * input_group_ +
           panel_in_pass % panels * plan_.sizes.panels.cols;
  }
  int64_t InputPixel(int64_t image, int64_t grid_row, int64_t grid_col) const {
    return input_at_.Of(image, grid_row, grid_col);
  }
  int64_t OutputPixel(int64_t image, int64_t row, int64_t col) const {
    return output_at_.Of(image, row, col);
  }
  int64_t row_step() const { return output_at_.pixel; }
  int64_t column_step() const { return plan_.cols.stride * input_at_.pixel; }
  static GemmSegment Terms(int64_t input, int64_t output, int64_t length) {
    return {output, input, length};
  }

 private:
  // Where the pixels of a tensor lie: strides, and the first image and row that are there.
  struct Places {
    int64_t channel = 1, pixel = 0, row = 0, image = 0;
    int64_t first_image = 0, first_row = 0;

    int64_t Of(int64_t n, int64_t i, int64_t j) const {
      return (n - first_image) * image + (i - first_row) * row + j * pixel;
    }
  };
  // Of a slab that is packed pixel by pixel.
  static Places Packed(const Slab& slab, int64_t cols, int64_t width) {
    return {
        1, width, cols * width, slab.num_rows() * cols * width, slab.image_begin, slab.row_begin};
  }

  void PlaceOutput();
  void PlaceInput();
  void PackOutput();
  void PackChannels();
  void PackPadded();
  void PackTaps();
  // Pixels of an image, `step` apart.
  struct PixelRun {
    int64_t image, first, step, count;
  };
  // Some of their channels, to pixels `width` numbers apart.
  void PackRun(const Stored* tensor, const DataShape& shape, const PixelRun& run, int64_t channel,
               int64_t num_channels, Compute* to, int64_t width) const;

  const ConvArgs& args_;
  const FilterGradientPlan& plan_;
  const PackKernels<Stored>& pack_;
  const DataShape input_shape_, output_shape_;
  AlignedArray<Compute> input_scratch_, output_scratch_;
  AlignedArray<Compute> padded_;  // [group][image][padded row][padded column][channel]
  const Compute *input_ = nullptr, *output_ = nullptr;
  const Pass* pass_ = nullptr;
  const PixelStage* stage_ = nullptr;
  Places input_at_, output_at_;
  int64_t input_group_ = 0;  // from one group to the next
};

template <class Stored>
InputLanesOperands<Stored>::InputLanesOperands(const ConvArgs& args, const FilterGradientPlan& plan)
    : args_(args),
      plan_(plan),
      pack_(args.kernels.Pack<Stored>()),
      input_shape_{plan.format, plan.geometry.in_h, plan.geometry.in_w, plan.geometry.in_c},
      output_shape_{plan.format, plan.geometry.out_h, plan.geometry.out_w, plan.geometry.out_c} {
  int64_t input = 0, output = 0, padded = 0;
  for (const PixelStage& stage : plan.stages) {
    input = std::max(input, plan.InputElements(stage, plan.passes.front()));
    output = std::max(output, plan.OutputElements(stage, plan.passes.front()));
    padded = std::max(padded, plan.PaddedElements(stage));
  }
  if (!plan.UsesInputInPlace()) input_scratch_ = AlignedArray<Compute>(input);
  // Surplus columns are computed and dropped: they must be numbers, not slow subnormals.
  if (!plan.joined) std::fill_n(input_scratch_.data(), input_scratch_.size(), Compute{0});
  if (!plan.UsesOutputInPlace()) output_scratch_ = AlignedArray<Compute>(output);
  padded_ = AlignedArray<Compute>(padded);
}

template <class Stored>
void InputLanesOperands<Stored>::Pack(const Pass& pass, const PixelStage& stage) {
  pass_ = &pass;
  stage_ = &stage;
  PlaceOutput();
  PlaceInput();
  if (!plan_.UsesOutputInPlace()) PackOutput();
  if (plan_.joined) {
    PackPadded();
    PackTaps();
  } else if (!plan_.UsesInputInPlace()) {
    PackChannels();
  }
}

template <class Stored>
void InputLanesOperands<Stored>::PlaceOutput() {
  const ConvGeometry& g = plan_.geometry;
  output_ = output_scratch_.data();
  output_at_ = Packed(stage_->output, g.out_w, plan_.OutputWidth(*pass_));
  if constexpr (std::is_same_v<Stored, Compute>) {
    if (plan_.UsesOutputInPlace()) {
      const bool nhwc = plan_.format == DataFormat::kNHWC;
      const int64_t pixel = nhwc ? g.out_c : 1;
      const int64_t image = stage_->output.image_begin;
      output_at_ = {nhwc ? 1 : g.out_h * g.out_w, pixel, g.out_w * pixel, output_shape_.Image(),
                    image};
      output_ = static_cast<const Stored*>(args_.out_backprop) + image * output_at_.image +
                pass_->group_begin * g.group_out_c * output_at_.channel;
    }
  }
}

template <class Stored>
void InputLanesOperands<Stored>::PlaceInput() {
  const ConvGeometry& g = plan_.geometry;
  input_ = input_scratch_.data();
  const Slab grid = plan_.GridSlab(*stage_);
  const int64_t panel_cols = plan_.sizes.panels.cols;
  input_at_ = Packed(
      grid, plan_.cols.count,
      plan_.joined ? plan_.ColumnNumbers() : (pass_->panel_end - pass_->panel_begin) * panel_cols);
  input_group_ = grid.num_images() * input_at_.image;
  if (plan_.joined) input_ += pass_->panel_begin * panel_cols;
  if constexpr (std::is_same_v<Stored, Compute>) {
    if (plan_.UsesInputInPlace()) {
      input_at_ = {1, plan_.cols.step * g.in_c, plan_.rows.step * g.in_w * g.in_c,
                   input_shape_.Image(), grid.image_begin};
      input_group_ = g.group_in_c;
      input_ = static_cast<const Stored*>(args_.input) + grid.image_begin * input_at_.image +
               (plan_.rows.first * g.in_w + plan_.cols.first) * g.in_c +
               pass_->group_begin * g.group_in_c + pass_->panel_begin * panel_cols;
    }
  }
}

template <class Stored>
void InputLanesOperands<Stored>::PackRun(const Stored* tensor, const DataShape& shape,
                                         const PixelRun& run, int64_t channel, int64_t num_channels,
                                         Compute* to, int64_t width) const {
  tensor += run.image * shape.Image();
  if (shape.format == DataFormat::kNHWC) {
    pack_.copy_widen(tensor + run.first * shape.c + channel, run.step * shape.c, to, width,
                     run.count, num_channels);
  } else {  // planes are packed by whole rows: step is 1
    const int64_t plane = shape.h * shape.w;
    LoadPlanes(pack_, tensor + channel * plane + run.first, plane, num_channels, run.count, to,
               width);
  }
}

template <class Stored>
void InputLanesOperands<Stored>::PackOutput() {
  const ConvGeometry& g = plan_.geometry;
  const Slab& out = stage_->output;
  staging::ForLines(args_.parallel, out.num_images(), 1, out.num_rows() * g.out_w,
                    [&](int64_t n, int64_t, int64_t pixel, int64_t count) {
                      PackRun(
                          static_cast<const Stored*>(args_.out_backprop), output_shape_,
                          {out.image_begin + n, out.row_begin * g.out_w + pixel, 1, count},
                          pass_->group_begin * g.group_out_c, output_at_.pixel,
                          output_scratch_.data() + n * output_at_.image + pixel * output_at_.pixel,
                          output_at_.pixel);
                    });
}

template <class Stored>
void InputLanesOperands<Stored>::PackChannels() {
  const ConvGeometry& g = plan_.geometry;
  const AxisGrid &rows = plan_.rows, &cols = plan_.cols;
  const Slab grid = plan_.GridSlab(*stage_);
  const int64_t panel_cols = plan_.sizes.panels.cols;
  const int64_t first_channel = pass_->panel_begin * panel_cols;
  const int64_t num_channels =
      std::min(g.group_in_c, pass_->panel_end * panel_cols) - first_channel;
  // Without jumps all rows of an image are one line.
  const bool dense = rows.step == 1 && cols.step == 1;
  const int64_t lines = dense ? 1 : grid.num_rows();
  staging::ForLines(
      args_.parallel, grid.num_images(), lines, grid.num_rows() / lines * cols.count,
      [&](int64_t n, int64_t line, int64_t pixel, int64_t count) {
        const int64_t row = rows.first + (grid.row_begin + line) * rows.step;
        const PixelRun run{grid.image_begin + n, row * g.in_w + cols.first + pixel * cols.step,
                           cols.step, count};
        Compute* to = input_scratch_.data() + n * input_at_.image + line * input_at_.row +
                      pixel * input_at_.pixel;
        for (int64_t group = pass_->group_begin; group < pass_->group_end; ++group) {
          PackRun(static_cast<const Stored*>(args_.input), input_shape_, run,
                  group * g.group_in_c + first_channel, num_channels, to, input_at_.pixel);
          to += input_group_;
        }
      });
}

template <class Stored>
void InputLanesOperands<Stored>::PackPadded() {
  const ConvGeometry& g = plan_.geometry;
  const Slab slab = plan_.PaddedSlab(*stage_);
  const int64_t width = plan_.PaddedWidth(), channels = g.group_in_c;
  const int64_t first = std::min(g.pad_left, width);
  const int64_t last = std::clamp<int64_t>(g.pad_left + g.in_w, first, width);
  const int64_t group_size = slab.num_images() * slab.num_rows() * width * channels;
  const int64_t groups = pass_->group_end - pass_->group_begin;
  args_.parallel.For(slab.num_images() * slab.num_rows(), [&](int64_t i) {
    const int64_t row = slab.row_begin + i % slab.num_rows() - g.pad_top;
    const bool present = row >= 0 && row < g.in_h && first < last;
    const PixelRun run{slab.image_begin + i / slab.num_rows(), row * g.in_w, 1, last - first};
    for (int64_t group = 0; group < groups; ++group) {
      Compute* to = padded_.data() + group * group_size + i * width * channels;
      if (!present) {
        std::fill_n(to, width * channels, Compute{0});
        continue;
      }
      std::fill_n(to, first * channels, Compute{0});
      std::fill(to + last * channels, to + width * channels, Compute{0});
      PackRun(static_cast<const Stored*>(args_.input), input_shape_, run,
              (pass_->group_begin + group) * channels, channels, to + first * channels, channels);
    }
  });
}

// What every column of taps meets, from the padded input.
template <class Stored>
void InputLanesOperands<Stored>::PackTaps() {
  const ConvGeometry& g = plan_.geometry;
  const Slab& out = stage_->output;
  const Slab slab = plan_.PaddedSlab(*stage_);
  const int64_t channels = g.group_in_c, numbers = plan_.ColumnNumbers();
  const int64_t row_size = plan_.PaddedWidth() * channels;
  const int64_t apart =
      FilterGradientPlan::SharesColumns(g) ? 1 : g.kernel_w;  // columns copied one by one
  const int64_t step = FilterGradientPlan::SharesColumns(g) ? 1 : g.stride_w;
  const auto copy = args_.kernels.template Pack<Compute>().copy_widen;
  args_.parallel.For(out.num_images() * out.num_rows(), [&](int64_t i) {
    const int64_t n = i / out.num_rows(), line = i % out.num_rows();
    Compute* to = input_scratch_.data() + i * input_at_.row;
    for (int64_t group = 0; group < pass_->group_end - pass_->group_begin; ++group) {
      for (int64_t tap = 0; tap < g.kernel_h * apart; ++tap) {
        const int64_t r = tap / apart, t = tap % apart;
        const int64_t row = (group * slab.num_images() + n) * slab.num_rows() + line * g.stride_h +
                            r * g.dilation_h;
        copy(padded_.data() + row * row_size + t * g.dilation_w * channels, step * channels,
             to + t * numbers + r * channels, apart * numbers, plan_.cols.count / apart, channels);
      }
      to += input_group_;
    }
  });
  const int64_t groups = pass_->group_end - pass_->group_begin;
  std::fill_n(input_scratch_.data() + groups * input_group_, plan_.sizes.panels.cols, Compute{0});
}

}  // namespace convgrad
