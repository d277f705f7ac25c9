// Input and out_backprop of one stage of a filter gradient, packed so that the micro-kernel finds
// the numbers of one pixel for one tile side by side.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/memory.h"
#include "conv/conv2d/filter/cut.h"
#include "conv/conv2d/filter/places.h"
#include "conv/move/staging.h"
#include "conv/plan/plan.h"

namespace convgrad {

// Where they lie is said in places.cc. In pairs a pixel of out_backprop is two neighbours of a row,
// and a pixel of the input what they meet. `Packing` is how rows are packed: WidenedColumns or
// PairedColumns.
template <class Stored, class Packing>
class FilterGradientOperands {
 public:
  using Element = typename Packing::Element;
  using Pass = FilterCut::Pass;

  FilterGradientOperands(const ConvArgs& args, const FilterCut& cut);

  // `places`: of that pass and stage; they have to stay.
  void Pack(const Pass& pass, const PixelStage& stage, const StagePlaces& places);
  const Element* rows() const {
    return (input_ == nullptr ? input_scratch_.data() : input_) + places_->input().begin;
  }
  const Element* columns() const {
    return (output_ == nullptr ? output_scratch_.data() : output_) + places_->output().begin;
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
  const FilterCut& cut_;
  const Packing pack_;
  const Plane input_plane_, output_plane_;
  // The tensors, where they are used in place.
  const Element *input_ = nullptr, *output_ = nullptr;
  AlignedArray<Element> input_scratch_, output_scratch_;
  const Pass* pass_ = nullptr;
  const PixelStage* stage_ = nullptr;
  const StagePlaces* places_ = nullptr;
  Slab grid_{};
};

template <class Stored, class Packing>
FilterGradientOperands<Stored, Packing>::FilterGradientOperands(const ConvArgs& args,
                                                                const FilterCut& cut)
    : args_(args),
      cut_(cut),
      pack_(args.kernels),
      input_plane_{static_cast<const Stored*>(args.input), cut.geometry.in_h * cut.geometry.in_w,
                   cut.geometry.in_c},
      output_plane_{static_cast<const Stored*>(args.out_backprop),
                    cut.geometry.out_h * cut.geometry.out_w, cut.geometry.out_c} {
  if (cut.UsesInputInPlace()) {
    input_ = static_cast<const Element*>(args.input);
  } else {
    input_scratch_ = AlignedArray<Element>(cut.most_elements.input);
  }
  if (cut.UsesOutputInPlace()) {
    output_ = static_cast<const Element*>(args.out_backprop);
    return;
  }
  output_scratch_ = AlignedArray<Element>(cut.most_elements.output);
  // Surplus columns are computed and dropped: they must be numbers, not slow subnormals.
  if (cut.geometry.group_out_c % cut.sizes.panels.cols != 0) {
    std::fill_n(output_scratch_.data(), output_scratch_.size(), Element{});
  }
}

template <class Stored, class Packing>
void FilterGradientOperands<Stored, Packing>::Pack(const Pass& pass, const PixelStage& stage,
                                                   const StagePlaces& places) {
  pass_ = &pass;
  stage_ = &stage;
  places_ = &places;
  grid_ = cut_.GridSlab(stage);
  if (cut_.UsesInputInPlace()) {
    // Nothing to pack.
  } else if (cut_.InputIsPlanar()) {
    PackPlanes();
  } else if (cut_.joined) {
    PackJoined();
  } else {
    PackApart();
  }
  if (!cut_.UsesOutputInPlace()) PackOutput();
}

template <class Stored, class Packing>
void FilterGradientOperands<Stored, Packing>::PackApart() {
  const ConvGeometry& g = cut_.geometry;
  const AxisGrid& rows = cut_.rows;
  const GridColumns cols = cut_.InputColumns();
  // Without jumps all rows of an image are one line.
  const bool dense = rows.step == 1 && Packing::Covers(cols);
  const int64_t lines = dense ? 1 : std::max<int64_t>(1, grid_.num_rows());
  const GridColumns line_cols = cols.OfRows(grid_.num_rows() / lines);
  staging::ForLines(
      args_.parallel, grid_.num_images(), lines, line_cols.count,
      [&](int64_t n, int64_t line, int64_t pixel, int64_t num_pixels) {
        const int64_t image = grid_.image_begin + n;
        const int64_t row = rows.first + (grid_.row_begin + line) * rows.step;
        const Stored* from = input_plane_.At(image, row * g.in_w);
        Element* to =
            input_scratch_.data() + places_->input().Of(image, grid_.row_begin + line, pixel);
        pack_.Split(
            {line_cols, pixel, num_pixels}, from + pass_->group_begin * g.group_in_c, g.in_c,
            {pass_->num_groups(), g.group_in_c, cut_.ChannelBlock(), places_->input().block}, to);
      });
}

template <class Stored, class Packing>
void FilterGradientOperands<Stored, Packing>::PackJoined() {
  const ConvGeometry& g = cut_.geometry;
  const GridColumns cols = cut_.InputColumns();
  const int64_t channel = pass_->group_begin * g.group_in_c;
  const int64_t channels = pass_->num_groups() * g.group_in_c;
  const int64_t pixel_stride = places_->input().pixel;
  args_.parallel.For(grid_.num_images() * grid_.num_rows(), [&](int64_t i) {
    const int64_t image = grid_.image_begin + i / grid_.num_rows();
    const int64_t grid_row = grid_.row_begin + i % grid_.num_rows();
    const int64_t row = cut_.rows.first + grid_row;
    Element* to = input_scratch_.data() + places_->input().Of(image, grid_row, 0);
    if (row < 0 || row >= g.in_h) {
      std::fill_n(to, cols.count * pixel_stride, Element{});
    } else if (cut_.format == DataFormat::kNHWC) {
      pack_.Copy(cols, input_plane_.At(image, row * g.in_w) + channel, g.in_c, channels, to,
                 pixel_stride);
    } else {
      pack_.CopyTransposed(cols, input_plane_.PlaneOf(image, channel) + row * g.in_w,
                           input_plane_.pixels, channels, to, pixel_stride);
    }
  });
}

template <class Stored, class Packing>
void FilterGradientOperands<Stored, Packing>::PackPlanes() {
  const ConvGeometry& g = cut_.geometry;
  const int64_t first_channel = pass_->group_begin * g.group_in_c;
  const int64_t channels = pass_->group_end * g.group_in_c - first_channel;
  const int64_t step = cut_.rows.step * g.in_w;
  args_.parallel.For(grid_.num_images() * channels, [&](int64_t i) {
    const Stored* from =
        input_plane_.PlaneOf(grid_.image_begin + i / channels, first_channel + i % channels) +
        cut_.rows.first * g.in_w + grid_.row_begin * step;
    pack_.CopyPlane(cut_.InputColumns(), from, step, grid_.num_rows(),
                    input_scratch_.data() + i * places_->input().channel);
  });
}

template <class Stored, class Packing>
void FilterGradientOperands<Stored, Packing>::PackOutput() {
  const ConvGeometry& g = cut_.geometry;
  const Slab& out = stage_->output;
  const Panels& panels = cut_.sizes.panels;
  // All panels of several groups are in the pass.
  const OperandPlaces& places = places_->output();
  const int64_t first_channel = pass_->panel_begin * panels.cols;
  const int64_t last_channel = std::min(g.group_out_c, pass_->panel_end * panels.cols);
  const GridColumns cols = cut_.OutputColumns();
  const int64_t lines = Packing::Covers(cols) ? 1 : out.num_rows();
  const GridColumns line_cols = cols.OfRows(out.num_rows() / lines);
  staging::ForLines(
      args_.parallel, out.num_images(), lines, line_cols.count,
      [&](int64_t n, int64_t line, int64_t pixel, int64_t num_pixels) {
        const OutputPiece piece{
            out.image_begin + n, out.row_begin + line, {line_cols, pixel, num_pixels}};
        Element* to = output_scratch_.data() + places.Of(piece.image, piece.row, pixel);
        if (cut_.format == DataFormat::kNHWC) {
          const int64_t first = pass_->group_begin * g.group_out_c + first_channel;
          return pack_.Split(
              piece.columns, output_plane_.At(piece.image, piece.row * g.out_w) + first, g.out_c,
              {pass_->num_groups(), last_channel - first_channel, panels.cols, places.block}, to);
        }
        for (int64_t group = pass_->group_begin; group < pass_->group_end; ++group) {
          PackPlanePanels(piece, group * g.group_out_c + first_channel,
                          last_channel - first_channel, to);
          to += places.group;
        }
      });
}

// Some planes of out_backprop into panels.
template <class Stored, class Packing>
void FilterGradientOperands<Stored, Packing>::PackPlanePanels(const OutputPiece& piece,
                                                              int64_t channel, int64_t num_channels,
                                                              Element* to) const {
  const int64_t cols = cut_.sizes.panels.cols;
  const Plane& plane = output_plane_;
  const int64_t first = piece.row * cut_.geometry.out_w;
  // The next piece of the planes, or the next image's first one.
  const auto [line, begin, count] = piece.columns;
  const int64_t at = first + begin * line.step, numbers = count * line.step;
  const int64_t ahead = at + numbers < plane.pixels ? numbers : plane.channels * plane.pixels - at;
  for (int64_t done = 0; done < num_channels; done += cols) {
    pack_.Transpose(piece.columns, plane.PlaneOf(piece.image, channel + done) + first, plane.pixels,
                    std::min(cols, num_channels - done), to, cols, ahead);
    to += places_->output().block;
  }
}

}  // namespace convgrad
