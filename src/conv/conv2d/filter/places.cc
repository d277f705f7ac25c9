#include "conv/conv2d/filter/places.h"

#include "base/checked.h"

namespace convgrad {

// input, NHWC:  apart  [group][channel block][pixel of the grid][channels of a channel block]
//               joined [pixel of the padded grid][channels of the pass' groups]
//        NCHW:  apart  [image][channel][pixel of the grid]: a tile's rows are planes, without
//                      widening those of the tensor itself
//               joined as NHWC
OperandPlaces StagePlaces::InputRows(const FilterCut& cut, const Pass& pass,
                                     const PixelStage& stage) {
  if (cut.InputIsPlanar()) return InputPlanes(cut, pass, stage);
  if (cut.UsesInputInPlace()) return InputPixels(cut, pass, stage);
  const int64_t group_c = cut.geometry.group_in_c, block = cut.ChannelBlock();
  const Slab grid = cut.GridSlab(stage);
  OperandPlaces places =
      OperandPlaces::Packed(grid, cut.cols.count, cut.joined ? cut.InputWidth(pass) : block);
  places.block = grid.num_images() * places.image;
  places.group = cut.joined ? group_c : CeilDiv(group_c, block) * places.block;
  return places;
}

OperandPlaces StagePlaces::InputPlanes(const FilterCut& cut, const Pass& pass,
                                       const PixelStage& stage) {
  const ConvGeometry& g = cut.geometry;
  const Slab grid = cut.GridSlab(stage);
  OperandPlaces places = OperandPlaces::Packed(grid, cut.cols.count, 1);
  places.channel = places.image;
  places.image *= pass.num_groups() * g.group_in_c;
  if (cut.UsesInputInPlace()) {
    const int64_t row = g.in_w / (cut.sizes.pairs ? 2 : 1);
    places.row = cut.rows.step * row;
    places.channel = g.in_h * row;
    places.image = g.in_c * places.channel;
    places.first_row = 0;
    places.begin = grid.image_begin * places.image + cut.rows.first * row +
                   pass.group_begin * g.group_in_c * places.channel;
  }
  places.block = cut.ChannelBlock() * places.channel;
  places.group = g.group_in_c * places.channel;
  return places;
}

// [group][panel][pixel of the grid][columns of a panel], or as it lies in NHWC. Joined [group][row]
// [column of the grid][kernel row][channel]: the taps of an output pixel, column by column, are
// neighbours that the next pixel's taps overlap. Pixels that share none have [tap][channel] each.
OperandPlaces StagePlaces::InputColumns(const FilterCut& cut, const Pass& pass,
                                        const PixelStage& stage) {
  const int64_t panel_cols = cut.sizes.panels.cols;
  if (cut.UsesInputInPlace()) {
    OperandPlaces places = InputPixels(cut, pass, stage);
    places.block = panel_cols;
    places.begin += pass.panel_begin * panel_cols;
    return places;
  }
  const Slab grid = cut.GridSlab(stage);
  OperandPlaces places =
      OperandPlaces::Packed(grid, cut.cols.count, cut.joined ? cut.ColumnNumbers() : panel_cols);
  const int64_t pixels = grid.num_images() * places.image;
  places.block = cut.joined ? panel_cols : pixels;
  places.group = cut.joined ? pixels : (pass.panel_end - pass.panel_begin) * pixels;
  if (cut.joined) places.begin = pass.panel_begin * panel_cols;
  return places;
}

// As they lie in NHWC.
OperandPlaces StagePlaces::InputPixels(const FilterCut& cut, const Pass& pass,
                                       const PixelStage& stage) {
  const ConvGeometry& g = cut.geometry;
  const int64_t image = g.in_h * g.in_w * g.in_c, first = stage.output.image_begin;
  return {.channel = 1,
          .pixel = cut.cols.step * g.in_c,
          .row = cut.rows.step * g.in_w * g.in_c,
          .image = image,
          .first_image = first,
          .first_row = 0,
          .block = cut.ChannelBlock(),
          .group = g.group_in_c,
          .begin = first * image + (cut.rows.first * g.in_w + cut.cols.first) * g.in_c +
                   pass.group_begin * g.group_in_c};
}

// As they lie, or widened [pixel][channels of the pass' groups].
OperandPlaces StagePlaces::OutputRows(const FilterCut& cut, const Pass& pass,
                                      const PixelStage& stage) {
  const ConvGeometry& g = cut.geometry;
  OperandPlaces places = OperandPlaces::Packed(stage.output, g.out_w, cut.OutputWidth(pass));
  if (cut.UsesOutputInPlace()) {
    const bool nhwc = cut.format == DataFormat::kNHWC;
    places.channel = nhwc ? 1 : g.out_h * g.out_w;
    places.pixel = nhwc ? g.out_c : 1;
    places.row = g.out_w * places.pixel;
    places.image = g.out_h * g.out_w * g.out_c;
    places.first_row = 0;
    places.begin =
        places.first_image * places.image + pass.group_begin * g.group_out_c * places.channel;
  }
  places.group = g.group_out_c * places.channel;
  return places;
}

// [panel][pixel][columns of a panel], or as it lies in NHWC.
OperandPlaces StagePlaces::OutputColumns(const FilterCut& cut, const Pass& pass,
                                         const PixelStage& stage) {
  const ConvGeometry& g = cut.geometry;
  const int64_t panel_cols = cut.sizes.panels.cols;
  OperandPlaces places = OperandPlaces::Packed(stage.output, cut.out_cols,
                                               cut.UsesOutputInPlace() ? g.out_c : panel_cols);
  places.block = stage.num_pixels(cut.out_cols) * panel_cols;
  // All panels of several groups are in the pass.
  places.group = (pass.panel_end - pass.panel_begin) * places.block;
  if (cut.UsesOutputInPlace()) {
    places.group = g.group_out_c;
    places.block = panel_cols;
    places.image = g.out_h * places.row;
    places.first_row = 0;
    places.begin = places.first_image * places.image + pass.group_begin * g.group_out_c +
                   pass.panel_begin * panel_cols;
  }
  return places;
}

}  // namespace convgrad
