// Which numbers make up the sums of a tile: packs them, from tensors of any layout, in the order of
// order/compensated_chain.h. All of its runner's geometry is here.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/error.h"
#include "conv/precise/compensated_tile.h"
#include "order/term_walk.h"
#include "problem/geometry.h"

namespace convgrad {

// A data tensor: which element is where, and where it ends.
struct BoundedStrides : DataStrides {
  int64_t rows, cols;

  static BoundedStrides Of(DataFormat format, int64_t h, int64_t w, int64_t c) {
    return {DataStrides::Of(format, h, w, c), h, w};
  }
};

// The terms of a tile whose columns are of one group: packs them, in order, into `sums`.
template <class Stored>
class TermPacker {
 public:
  virtual ~TermPacker() = default;
  // Rows that may share a tile have the same key.
  virtual int64_t KeyOf(int64_t) const { return 0; }
  // Terms of each row go to `counts`.
  virtual void Pack(std::span<const int64_t> rows, int64_t group, Range cols, TileSums& sums,
                    std::span<int64_t> counts) const = 0;
};

// Forward and input gradient: a result pixel p of an axis meets tap k at source position
// BaseOf(p) + DeltaOf(k), if p is of k's phase.
class SourceAxis {
 public:
  SourceAxis(bool forward, int64_t stride, int64_t dilation, int64_t pad, int64_t kernel)
      : forward_(forward), stride_(stride), dilation_(dilation), pad_(pad) {
    if (!forward) {
      by_phase_ = TapsByPhase(stride, dilation, pad, kernel);
    } else {
      for (int64_t k = 0; k < kernel; ++k) all_.push_back(k);
    }
  }

  int64_t PhaseOf(int64_t position) const { return forward_ ? 0 : (position + pad_) % stride_; }
  int64_t num_phases() const { return forward_ ? 1 : stride_; }
  int64_t BaseOf(int64_t position) const {
    return forward_ ? position * stride_ - pad_ : (position + pad_) / stride_;
  }
  int64_t DeltaOf(int64_t tap) const {
    return forward_ ? tap * dilation_ : -(tap * dilation_ / stride_);
  }
  // Those of the position's phase, in canonical order.
  const std::vector<int64_t>& TapsAt(int64_t position) const {
    return forward_ ? all_ : by_phase_.At(position);
  }

 private:
  bool forward_;
  int64_t stride_, dilation_, pad_;
  std::vector<int64_t> all_;
  TapsByPhase by_phase_;
};

template <class Stored>
class TapPacker : public TermPacker<Stored> {
 public:
  TapPacker(const Problem& problem, const Stored* source, const Stored* filter)
      : g_(problem.geometry),
        forward_(InfoOf(problem.op).direction == Direction::kForward),
        source_(source),
        filter_(filter),
        rows_(forward_, g_.stride_h, g_.dilation_h, g_.pad_top, g_.kernel_h),
        cols_(forward_, g_.stride_w, g_.dilation_w, g_.pad_left, g_.kernel_w),
        result_w_(forward_ ? g_.out_w : g_.in_w),
        plane_(result_w_ * (forward_ ? g_.out_h : g_.in_h)),
        layout_(forward_ ? BoundedStrides::Of(problem.data_format, g_.in_h, g_.in_w, g_.in_c)
                         : BoundedStrides::Of(problem.data_format, g_.out_h, g_.out_w, g_.out_c)) {}

  int64_t KeyOf(int64_t row) const override {
    const int64_t pixel = row % plane_;
    return rows_.PhaseOf(pixel / result_w_) * cols_.num_phases() + cols_.PhaseOf(pixel % result_w_);
  }

  void Pack(std::span<const int64_t> rows, int64_t group, Range cols, TileSums& sums,
            std::span<int64_t> counts) const override {
    Pixels pixels(*this, rows, counts);
    const int64_t first = rows.front() % plane_;
    const std::vector<int64_t>& col_taps = cols_.TapsAt(first % result_w_);
    for (const int64_t r : rows_.TapsAt(first / result_w_)) {
      if (!pixels.MeetRow(rows_.DeltaOf(r))) continue;
      for (const int64_t t : col_taps) {
        if (channels() == 1) {
          PackTapOfOne(r, t, group, cols, pixels, sums);
        } else if (pixels.MeetCol(cols_.DeltaOf(t))) {
          PackTap(r, t, group, cols, pixels, sums);
        }
      }
    }
    sums.Flush();
    for (int64_t& count : counts) count *= channels();
  }

 private:
  // The pixels of a tile, and where a tap finds their numbers.
  class Pixels {
   public:
    Pixels(const TapPacker& packer, std::span<const int64_t> rows, std::span<int64_t> counts)
        : packer_(packer), num_(rows.size()), counts_(counts) {
      for (size_t i = 0; i < num_; ++i) {
        const int64_t pixel = rows[i] % packer.plane_;
        images_[i] = rows[i] / packer.plane_ * packer.layout_.image;
        row_bases_[i] = packer.rows_.BaseOf(pixel / packer.result_w_);
        col_bases_[i] = packer.cols_.BaseOf(pixel % packer.result_w_);
        counts_[i] = 0;
      }
    }
    // True if any meets a row of the source at all.
    bool MeetRow(int64_t delta) {
      bool any = false;
      for (size_t i = 0; i < num_; ++i) {
        const int64_t row = row_bases_[i] + delta;
        row_offsets_[i] =
            row >= 0 && row < packer_.layout_.rows ? images_[i] + row * packer_.layout_.row : -1;
        any |= row_offsets_[i] >= 0;
      }
      return any;
    }
    bool MeetCol(int64_t delta) {
      bool any = false;
      for (size_t i = 0; i < num_; ++i) {
        const int64_t col = col_bases_[i] + delta;
        const bool is_met = row_offsets_[i] >= 0 && col >= 0 && col < packer_.layout_.cols;
        offsets_[i] = is_met ? row_offsets_[i] + col * packer_.layout_.col : -1;
        counts_[i] += is_met;
        any |= is_met;
      }
      return any;
    }
    // Both at once for sources of one channel, which have nothing else to do: packs what the tap
    // meets as term `at`, and tells whether that is anything.
    bool PackCol(int64_t delta, const Stored* source, PackedSide& side, int64_t at) {
      bool any = false;
      side.PackOne(count(), at, [&](int64_t i) {
        const int64_t col = col_bases_[i] + delta;
        const bool is_met = row_offsets_[i] >= 0 && col >= 0 && col < packer_.layout_.cols;
        counts_[static_cast<size_t>(i)] += is_met;
        any |= is_met;
        return is_met ? Widen(source[row_offsets_[i] + col * packer_.layout_.col]) : 0.0;
      });
      return any;
    }
    // The tap's items, `channel_offset` on, with `count` terms.
    const PackedItem* ItemsAt(int64_t channel_offset, int64_t count) {
      for (size_t i = 0; i < num_; ++i) {
        items_[i] = {offsets_[i] + channel_offset, 0, offsets_[i] < 0 ? 0 : count};
      }
      return items_;
    }
    int64_t count() const { return static_cast<int64_t>(num_); }

   private:
    const TapPacker& packer_;
    size_t num_;
    std::span<int64_t> counts_;
    int64_t images_[kTileRows], row_bases_[kTileRows], col_bases_[kTileRows];
    int64_t row_offsets_[kTileRows], offsets_[kTileRows];
    PackedItem items_[kTileRows];
  };

  int64_t channels() const { return forward_ ? g_.group_in_c : g_.group_out_c; }

  // All channels of the source's group.
  void PackTap(int64_t r, int64_t t, int64_t group, Range cols, Pixels& pixels,
               TileSums& sums) const {
    for (int64_t begin = 0; begin < channels();) {
      const int64_t count = std::min(channels() - begin, sums.room());
      const int64_t source_offset = (group * channels() + begin) * layout_.channel;
      sums.rows().Pack(source_, pixels.ItemsAt(source_offset, count), pixels.count(),
                       layout_.channel, sums.num_terms(), count);
      PackFilter(r, t, group, begin, count, cols, sums);
      sums.Advance(count);
      begin += count;
    }
  }

  void PackTapOfOne(int64_t r, int64_t t, int64_t group, Range cols, Pixels& pixels,
                    TileSums& sums) const {
    const Stored* channel = source_ + group * layout_.channel;
    if (!pixels.PackCol(cols_.DeltaOf(t), channel, sums.rows(), sums.num_terms())) return;
    PackFilter(r, t, group, 0, 1, cols, sums);
    sums.Advance(1);
  }

  // kernel[r][t][in channel of the group][out channel]: the columns are out channels, terms in
  // channels, or the other way round.
  void PackFilter(int64_t r, int64_t t, int64_t group, int64_t begin, int64_t count, Range cols,
                  TileSums& sums) const {
    PackedItem items[kTileCols];
    const int64_t tap = (r * g_.kernel_w + t) * g_.group_in_c * g_.out_c;
    for (int64_t j = 0; j < cols.size(); ++j) {
      const int64_t col = cols.begin + j;
      const int64_t offset =
          forward_ ? begin * g_.out_c + col
                   : (col % g_.group_in_c) * g_.out_c + group * g_.group_out_c + begin;
      items[j] = {tap + offset, 0, count};
    }
    sums.cols().Pack(filter_, items, cols.size(), forward_ ? g_.out_c : 1, sums.num_terms(), count);
  }

  const ConvGeometry g_;
  bool forward_;
  const Stored* source_;
  const Stored* filter_;
  SourceAxis rows_, cols_;
  int64_t result_w_, plane_;
  BoundedStrides layout_;  // of the source
};

// Filter gradient: terms are output pixels in raster order, image by image.
template <class Stored>
class PixelPacker : public TermPacker<Stored> {
 public:
  PixelPacker(const Problem& problem, const Stored* input, const Stored* out_backprop)
      : g_(problem.geometry),
        input_(input),
        out_backprop_(out_backprop),
        in_(BoundedStrides::Of(problem.data_format, g_.in_h, g_.in_w, g_.in_c)),
        out_(BoundedStrides::Of(problem.data_format, g_.out_h, g_.out_w, g_.out_c)) {}

  void Pack(std::span<const int64_t> rows, int64_t group, Range cols, TileSums& sums,
            std::span<int64_t> counts) const override {
    Tap taps[kTileRows];
    for (size_t i = 0; i < rows.size(); ++i) {
      taps[i] = TapOf(rows[i], group);
      counts[i] = taps[i].rows.size() * taps[i].cols.size() * g_.batch;
    }
    const std::span<const Tap> all(taps, rows.size());
    for (int64_t n = 0; n < g_.batch; ++n) {
      for (int64_t i = 0; i < g_.out_h; ++i) PackRow(n, i, all, cols, sums);
    }
    sums.Flush();
  }

 private:
  // A row of the result: its tap, the output pixels that meet the input there, and where it finds
  // the input's number of output pixel (0, 0) of image 0.
  struct Tap {
    Range rows, cols;
    int64_t offset;
  };

  Tap TapOf(int64_t row, int64_t group) const {
    const int64_t channel = group * g_.group_in_c + row % g_.group_in_c;
    const int64_t tap = row / g_.group_in_c;
    const int64_t down = tap / g_.kernel_w * g_.dilation_h - g_.pad_top;
    const int64_t right = tap % g_.kernel_w * g_.dilation_w - g_.pad_left;
    return {OutputsOnInput(down, g_.stride_h, g_.in_h, g_.out_h),
            OutputsOnInput(right, g_.stride_w, g_.in_w, g_.out_w),
            down * in_.row + right * in_.col + channel * in_.channel};
  }

  // Output row i of image n, where any tap meets it.
  void PackRow(int64_t n, int64_t i, std::span<const Tap> taps, Range cols, TileSums& sums) const {
    Range met = {g_.out_w, 0};
    for (const Tap& tap : taps) {
      if (i < tap.rows.begin || i >= tap.rows.end || tap.cols.size() == 0) continue;
      met = {std::min(met.begin, tap.cols.begin), std::max(met.end, tap.cols.end)};
    }
    for (int64_t j = met.begin; j < met.end;) {
      const int64_t count = std::min(met.end - j, sums.room());
      PackPixels(n, i, j, count, taps, cols, sums);
      sums.Advance(count);
      j += count;
    }
  }

  void PackPixels(int64_t n, int64_t i, int64_t j, int64_t count, std::span<const Tap> taps,
                  Range cols, TileSums& sums) const {
    PackedItem rows[kTileRows];
    const int64_t in_step = g_.stride_w * in_.col;
    const int64_t in_first = n * in_.image + i * g_.stride_h * in_.row + j * in_step;
    for (size_t m = 0; m < taps.size(); ++m) {
      const bool is_met = i >= taps[m].rows.begin && i < taps[m].rows.end;
      rows[m] = {taps[m].offset + in_first, is_met ? taps[m].cols.begin - j : 0,
                 is_met ? taps[m].cols.end - j : 0};
    }
    sums.rows().Pack(input_, rows, static_cast<int64_t>(taps.size()), in_step, sums.num_terms(),
                     count);
    PackedItem channels[kTileCols];
    const int64_t out_first = n * out_.image + i * out_.row + j * out_.col;
    for (int64_t o = 0; o < cols.size(); ++o) {
      channels[o] = {out_first + (cols.begin + o) * out_.channel, 0, count};
    }
    sums.cols().Pack(out_backprop_, channels, cols.size(), out_.col, sums.num_terms(), count);
  }

  const ConvGeometry g_;
  const Stored* input_;
  const Stored* out_backprop_;
  BoundedStrides in_, out_;
};

template <class Stored>
std::unique_ptr<TermPacker<Stored>> MakePacker(const Problem& problem, const void* first,
                                               const void* second) {
  const auto* a = static_cast<const Stored*>(first);
  const auto* b = static_cast<const Stored*>(second);
  switch (InfoOf(problem.op).direction) {
    case Direction::kForward: return std::make_unique<TapPacker<Stored>>(problem, a, b);
    // Its operands are the filter and out_backprop.
    case Direction::kBackpropInput: return std::make_unique<TapPacker<Stored>>(problem, b, a);
    case Direction::kBackpropFilter: return std::make_unique<PixelPacker<Stored>>(problem, a, b);
  }
  ThrowInternal("unknown direction");
}

}  // namespace convgrad
