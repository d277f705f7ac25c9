// Input and out_backprop of one stage of a filter gradient whose lanes run along inputs: columns of
// tiles are the input's channels, or those of all taps, rows are channels of out_backprop.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/memory.h"
#include "conv/conv2d/filter/cut.h"
#include "conv/conv2d/filter/places.h"
#include "conv/move/staging.h"
#include "conv/plan/plan.h"

namespace convgrad {

// Where they lie is said in places.cc; joined, the input goes through a padded copy.
template <class Stored>
class InputLanesOperands {
 public:
  using Compute = ComputeType<Stored>;
  using Element = Compute;
  using Pass = FilterCut::Pass;

  InputLanesOperands(const ConvArgs& args, const FilterCut& cut);

  // `places`: of that pass and stage; they have to stay.
  void Pack(const Pass& pass, const PixelStage& stage, const StagePlaces& places);
  const Compute* rows() const {
    return (output_ == nullptr ? output_scratch_.data() : output_) + places_->output().begin;
  }
  const Compute* columns() const {
    return (input_ == nullptr ? input_scratch_.data() : input_) + places_->input().begin;
  }

 private:
  void PackOutput();
  void PackChannels();
  void PackPadded();
  void PackTaps();
  struct PixelRun {
    int64_t image, first, count;
  };
  // Some of their channels, to pixels `width` numbers apart.
  void PackRun(const Stored* tensor, const DataShape& shape, const PixelRun& run, int64_t channel,
               int64_t num_channels, Compute* to, int64_t width) const;

  const ConvArgs& args_;
  const FilterCut& cut_;
  const PackKernels<Stored>& pack_;
  const DataShape input_shape_, output_shape_;
  AlignedArray<Compute> input_scratch_, output_scratch_;
  AlignedArray<Compute> padded_;  // [group][image][padded row][padded column][channel]
  // The tensors, where they are used in place.
  const Compute *input_ = nullptr, *output_ = nullptr;
  const Pass* pass_ = nullptr;
  const PixelStage* stage_ = nullptr;
  const StagePlaces* places_ = nullptr;
};

template <class Stored>
InputLanesOperands<Stored>::InputLanesOperands(const ConvArgs& args, const FilterCut& cut)
    : args_(args),
      cut_(cut),
      pack_(args.kernels.Pack<Stored>()),
      input_shape_{cut.format, cut.geometry.in_h, cut.geometry.in_w, cut.geometry.in_c},
      output_shape_{cut.format, cut.geometry.out_h, cut.geometry.out_w, cut.geometry.out_c} {
  if (cut.UsesInputInPlace()) {
    input_ = static_cast<const Compute*>(args.input);
  } else {
    input_scratch_ = AlignedArray<Compute>(cut.most_elements.input);
  }
  // Surplus columns are computed and dropped: they must be numbers, not slow subnormals.
  if (!cut.joined) std::fill_n(input_scratch_.data(), input_scratch_.size(), Compute{0});
  if (cut.UsesOutputInPlace()) {
    output_ = static_cast<const Compute*>(args.out_backprop);
  } else {
    output_scratch_ = AlignedArray<Compute>(cut.most_elements.output);
  }
  padded_ = AlignedArray<Compute>(cut.most_elements.padded);
}

template <class Stored>
void InputLanesOperands<Stored>::Pack(const Pass& pass, const PixelStage& stage,
                                      const StagePlaces& places) {
  pass_ = &pass;
  stage_ = &stage;
  places_ = &places;
  if (!cut_.UsesOutputInPlace()) PackOutput();
  if (cut_.joined) {
    PackPadded();
    PackTaps();
  } else if (!cut_.UsesInputInPlace()) {
    PackChannels();
  }
}

template <class Stored>
void InputLanesOperands<Stored>::PackRun(const Stored* tensor, const DataShape& shape,
                                         const PixelRun& run, int64_t channel, int64_t num_channels,
                                         Compute* to, int64_t width) const {
  tensor += run.image * shape.Image();
  if (shape.format == DataFormat::kNHWC) {
    pack_.copy_widen(tensor + run.first * shape.c + channel, shape.c, to, width, run.count,
                     num_channels);
  } else {
    const int64_t plane = shape.h * shape.w;
    LoadPlanes(pack_, tensor + channel * plane + run.first, plane, num_channels, run.count, to,
               width);
  }
}

template <class Stored>
void InputLanesOperands<Stored>::PackOutput() {
  const ConvGeometry& g = cut_.geometry;
  const Slab& out = stage_->output;
  staging::ForLines(args_.parallel, out.num_images(), 1, out.num_rows() * g.out_w,
                    [&](int64_t n, int64_t, int64_t pixel, int64_t count) {
                      PackRun(static_cast<const Stored*>(args_.out_backprop), output_shape_,
                              {out.image_begin + n, out.row_begin * g.out_w + pixel, count},
                              pass_->group_begin * g.group_out_c,
                              pass_->num_groups() * g.group_out_c,
                              output_scratch_.data() + n * places_->output().image +
                                  pixel * places_->output().pixel,
                              places_->output().pixel);
                    });
}

template <class Stored>
void InputLanesOperands<Stored>::PackChannels() {
  const ConvGeometry& g = cut_.geometry;
  const AxisGrid &rows = cut_.rows, &cols = cut_.cols;
  const Slab grid = cut_.GridSlab(*stage_);
  const int64_t panel_cols = cut_.sizes.panels.cols;
  const int64_t first_channel = pass_->panel_begin * panel_cols;
  const int64_t num_channels =
      std::min(g.group_in_c, pass_->panel_end * panel_cols) - first_channel;
  // Without jumps all rows of an image are one line. A stage may meet no row of the input.
  const bool dense = rows.step == 1 && cols.step == 1;
  const int64_t lines = dense ? 1 : std::max<int64_t>(1, grid.num_rows());
  const auto* input = static_cast<const Stored*>(args_.input);
  staging::ForLines(
      args_.parallel, grid.num_images(), lines, grid.num_rows() / lines * cols.count,
      [&](int64_t n, int64_t line, int64_t pixel, int64_t count) {
        const int64_t row = rows.first + (grid.row_begin + line) * rows.step;
        const int64_t image = grid.image_begin + n;
        const int64_t first = row * g.in_w + cols.first + pixel * cols.step;
        Compute* to = input_scratch_.data() + n * places_->input().image +
                      line * places_->input().row + pixel * places_->input().pixel;
        const int64_t first_group = pass_->group_begin * g.group_in_c + first_channel;
        if (cut_.format == DataFormat::kNHWC) {
          return pack_.split_widen(input + (image * g.in_h * g.in_w + first) * g.in_c + first_group,
                                   cols.step * g.in_c, to, places_->input().block, count,
                                   pass_->num_groups(), num_channels, panel_cols);
        }
        const int64_t plane = g.in_h * g.in_w;
        for (int64_t group = 0; group < pass_->num_groups(); ++group) {
          const int64_t channel = image * g.in_c + first_group + group * g.group_in_c;
          for (int64_t done = 0; done < num_channels; done += panel_cols) {
            LoadPlanes(pack_, input + (channel + done) * plane + first, plane,
                       std::min(panel_cols, num_channels - done), count, to, panel_cols);
            to += places_->input().block;
          }
        }
      });
}

template <class Stored>
void InputLanesOperands<Stored>::PackPadded() {
  const ConvGeometry& g = cut_.geometry;
  const Slab slab = cut_.PaddedSlab(*stage_);
  const int64_t width = cut_.PaddedWidth(), channels = g.group_in_c;
  const int64_t first = std::min(g.pad_left, width);
  const int64_t last = std::clamp<int64_t>(g.pad_left + g.in_w, first, width);
  const int64_t group_size = slab.num_images() * slab.num_rows() * width * channels;
  const int64_t groups = pass_->num_groups();
  args_.parallel.For(slab.num_images() * slab.num_rows(), [&](int64_t i) {
    const int64_t row = slab.row_begin + i % slab.num_rows() - g.pad_top;
    const bool present = row >= 0 && row < g.in_h && first < last;
    const PixelRun run{slab.image_begin + i / slab.num_rows(), row * g.in_w, last - first};
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

// Packs what every column of taps meets, from the padded input, or what every output pixel meets:
// taps side by side are then copied together.
template <class Stored>
void InputLanesOperands<Stored>::PackTaps() {
  const ConvGeometry& g = cut_.geometry;
  const Slab& out = stage_->output;
  const Slab slab = cut_.PaddedSlab(*stage_);
  const bool shares = FilterCut::SharesColumns(g);
  const int64_t channels = g.group_in_c, row_size = cut_.PaddedWidth() * channels;
  const int64_t taps = shares ? 1 : g.kernel_w;  // of a row, side by side in what is packed
  const int64_t together = g.dilation_w == 1 ? taps : 1, step = shares ? 1 : g.stride_w;
  const auto copy = args_.kernels.template Pack<Compute>().copy_widen;
  args_.parallel.For(out.num_images() * out.num_rows(), [&](int64_t i) {
    const int64_t n = i / out.num_rows(), line = i % out.num_rows();
    Compute* to = input_scratch_.data() + i * places_->input().row;
    for (int64_t group = 0; group < pass_->num_groups(); ++group) {
      for (int64_t tap = 0; tap < g.kernel_h * taps; tap += together) {
        const int64_t r = tap / taps, t = tap % taps;
        const int64_t row = (group * slab.num_images() + n) * slab.num_rows() + line * g.stride_h +
                            r * g.dilation_h;
        copy(padded_.data() + row * row_size + t * g.dilation_w * channels, step * channels,
             to + tap * channels, taps * cut_.ColumnNumbers(), cut_.cols.count / taps,
             together * channels);
      }
      to += places_->input().group;
    }
  });
  const int64_t groups = pass_->num_groups();
  std::fill_n(input_scratch_.data() + groups * places_->input().group, cut_.sizes.panels.cols,
              Compute{0});
}

}  // namespace convgrad
