// Packing an operand of a filter gradient with lanes along blocks, as block_lanes_cut.h says:
// numbers of the compute type, one lane for each of some blocks. Multiplies nothing.
#pragma once

#include <algorithm>
#include <vector>

#include "base/memory.h"
#include "conv/conv2d/filter/units/block_lanes_cut.h"
#include "kernels/pack/pack.h"
#include "order/canonical_order.h"

namespace convgrad {

// One thread's.
template <class Stored>
class BlockLanesPacker {
 public:
  using Compute = ComputeType<Stored>;

  BlockLanesPacker(const BlockLanesCut& cut, const PixelBlockGrid& blocks,
                   const PackKernels<Stored>& kernels, int64_t lanes)
      : cut_(cut),
        blocks_(blocks),
        first_(blocks[0]),
        kernels_(kernels),
        lanes_(lanes),
        places_(static_cast<size_t>(lanes)) {
    if (cut.whole_rows) return;
    part_size_ =
        std::max(cut.input.cols * cut.input.channels, cut.output.cols * cut.output.channels);
    parts_ = AlignedArray<Stored>(part_size_ * lanes);
  }

  // Lane i is block first + i, for i < count; surplus lanes are zeros.
  void SetBlocks(int64_t first, int64_t count) {
    of_lanes_.clear();
    for (int64_t i = first; i < first + count; ++i) of_lanes_.push_back(blocks_[i]);
  }

  // Packs what the blocks have of the groups of a unit of `data`, the tensor of operand `form`.
  // Columns beside the image are left alone where they are the same in all blocks.
  void Pack(const BlockLanesOperand& form, const Stored* data, int64_t unit, Compute* to) {
    form_ = &form;
    data_ = data;
    first_channel_ = unit * form.channels;
    num_channels_ = cut_.GroupsOf(unit) * form.group_c;
    for (int64_t image = 0; image < cut_.most.images; ++image) {
      for (int64_t row = 0; row < form.rows; ++row, to += form.cols * form.pixel * lanes_) {
        PackRow(image, row, to);
      }
    }
  }

 private:
  const Stored* PutBetweenZeros(const PixelBlock& block, int64_t lane, const Stored* row);
  bool LiesAsPacked(const PixelBlock& block) const;
  const Stored* RowOf(const PixelBlock& block, int64_t lane, int64_t image, int64_t row,
                      int64_t channel);
  void FindPlaces(int64_t image, int64_t row, int64_t channel);
  void MovePlaces(int64_t step) {
    for (const Stored*& place : places_) place += place == nullptr ? 0 : step;
  }
  void PackRow(int64_t image, int64_t row, Compute* to);

  const BlockLanesCut& cut_;
  const PixelBlockGrid& blocks_;
  const PixelBlock first_;
  std::vector<PixelBlock> of_lanes_;  // surplus lanes have none
  const PackKernels<Stored>& kernels_;
  const int64_t lanes_;
  std::vector<const Stored*> places_;  // by lane; null: zeros
  bool in_tensor_ = false;             // all of them, that are there
  AlignedArray<Stored> parts_;         // of a row of each lane, between zeros
  int64_t part_size_ = 0;
  // The place of what is packed now.
  const BlockLanesOperand* form_ = nullptr;
  const Stored* data_ = nullptr;
  int64_t first_channel_ = 0, num_channels_ = 0;
};

// Part of a row of the image in its place among zeros, where rows are cut.
template <class Stored>
const Stored* BlockLanesPacker<Stored>::PutBetweenZeros(const PixelBlock& block, int64_t lane,
                                                        const Stored* row) {
  in_tensor_ = false;
  const Range cols = form_->OnImage(block);
  const int64_t size = form_->whole_pixels ? form_->channels : 1;
  const int64_t first = block.col_begin * form_->col_step + form_->col_first;
  // The output's columns behind a block's last belong to the next one.
  const int64_t end = form_ == &cut_.output ? block.col_end - block.col_begin : cols.end;
  Stored* part = parts_.data() + lane * part_size_;
  std::fill_n(part, form_->cols * size, Stored{});
  std::copy_n(row + (first + cols.begin) * size, (std::min(end, cols.end) - cols.begin) * size,
              part + cols.begin * size);
  return part;
}

// Where a row of a block begins, from channel `channel` of the unit on; null if there is none.
template <class Stored>
const Stored* BlockLanesPacker<Stored>::RowOf(const PixelBlock& block, int64_t lane, int64_t image,
                                              int64_t row, int64_t channel) {
  const DataShape& shape = form_->shape;
  const int64_t at_row = block.row_begin * form_->row_step + form_->row_first + row;
  const int64_t at_image = block.image_begin + image;
  if (at_image >= block.image_end || at_row < 0 || at_row >= shape.h) return nullptr;
  if (form_ == &cut_.output && at_row >= block.row_end) return nullptr;
  const bool nhwc = shape.format == DataFormat::kNHWC;
  const int64_t at_channel = first_channel_ + channel;
  const Stored* begin =
      data_ + at_image * shape.Image() +
      (nhwc ? at_row * shape.w * shape.c + at_channel : (at_channel * shape.h + at_row) * shape.w);
  const int64_t pixel = nhwc ? shape.c : 1;
  if (cut_.whole_rows) return begin + std::max<int64_t>(form_->col_first, 0) * pixel;
  if (!LiesAsPacked(block)) return PutBetweenZeros(block, lane, begin);
  return begin + (block.col_begin * form_->col_step + form_->col_first) * pixel;
}

// True if a part of a row can be read where it lies: nothing of it is off the image or another
// block's.
template <class Stored>
bool BlockLanesPacker<Stored>::LiesAsPacked(const PixelBlock& block) const {
  if (form_ == &cut_.output) return block.col_end - block.col_begin == form_->cols;
  const Range cols = form_->OnImage(block);
  return cols.begin == 0 && cols.end == form_->cols;
}

template <class Stored>
void BlockLanesPacker<Stored>::FindPlaces(int64_t image, int64_t row, int64_t channel) {
  in_tensor_ = true;
  for (int64_t lane = 0; lane < lanes_; ++lane) {
    places_[static_cast<size_t>(lane)] =
        lane < std::ssize(of_lanes_)
            ? RowOf(of_lanes_[static_cast<size_t>(lane)], lane, image, row, channel)
            : nullptr;
  }
}

// One row of every lane's block.
template <class Stored>
void BlockLanesPacker<Stored>::PackRow(int64_t image, int64_t row, Compute* to) {
  constexpr int64_t kPixelsAhead = 8;
  const DataShape& shape = form_->shape;
  const Range on_image = cut_.whole_rows ? form_->OnImage(first_) : Range{0, form_->cols};
  const int64_t pixels = on_image.end - on_image.begin;
  to += on_image.begin * form_->pixel * lanes_;
  if (shape.format == DataFormat::kNCHW) {
    const int64_t plane = shape.h * shape.w;
    for (int64_t c = 0; c < num_channels_; ++c) {
      if (c == 0 || !in_tensor_) FindPlaces(image, row, c);
      kernels_.gather_widen(places_.data(), pixels, to + c * lanes_, form_->pixel * lanes_, plane);
      MovePlaces(plane);
    }
    return;
  }
  FindPlaces(image, row, 0);
  if (form_->whole_pixels) {
    kernels_.gather_widen(places_.data(), pixels * num_channels_, to, lanes_, 0);
    return;
  }
  for (int64_t i = 0; i < pixels; ++i, to += form_->pixel * lanes_) {
    kernels_.gather_widen(places_.data(), num_channels_, to, lanes_, kPixelsAhead * shape.c);
    MovePlaces(shape.c);
  }
}

}  // namespace convgrad
