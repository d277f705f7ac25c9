// Runs one part of a forward convolution or an input gradient with lanes along images. Tiles are
// pixels by channels of the result; the source is copied into [row][column][channel][lane], just
// ahead of the strip of rows that reads it. Knows how the work is cut (image_lanes_cut.h), not
// when it pays.
#pragma once

#include <algorithm>
#include <array>
#include <span>

#include "base/memory.h"
#include "conv/conv2d/data/image_lanes_cut.h"
#include "conv/conv2d/data/sliding_rows_runner.h"
#include "conv/gemm/tiles.h"
#include "conv/move/staging.h"
#include "conv/move/swap_pairs.h"
#include "conv/plan/algorithm.h"

namespace convgrad {

inline constexpr int kMostImageLanes = 16;

// One part: packs, computes and stores strip by strip.
template <class Stored, class Element>
class ImageLanesPartRunner {
 public:
  using Compute = ComputeType<Stored>;
  static constexpr bool kPairs = ImageLanesCut<Stored, Element>::kPairs;

  using Scratch = ImageLanesScratch<Stored, Element>;

  ImageLanesPartRunner(const ConvArgs& args, const ImageLanesCut<Stored, Element>& cut,
                       const Element* filter, const ImageLanesPart& part, Scratch& scratch)
      : args_(args),
        cut_(cut),
        pack_(args.kernels.Pack<Stored>()),
        lists_(cut.ListsOf(part)),
        filter_(filter),
        part_(part),
        scratch_(scratch),
        source_cols_(cut.parts.SourceCols(part)),
        result_cols_(cut.parts.ResultCols(part)),
        source_c_(part.num_groups * cut.sum.source_c),
        result_c_(part.num_groups * cut.sum.result_c) {}

  void Run();

  void SetSegments(const GemmSegment* segments, const int64_t* block_ends, int64_t num_blocks) {
    tile_.segments = segments;
    tile_.block_ends = block_ends;
    tile_.num_blocks = num_blocks;
  }

 private:
  // Consecutive pixels of a class, as the kernel wants them.
  struct Pixels {
    int64_t count = 0;
    std::array<int64_t, kMostImageTileRows> source, result;
  };

  int64_t lanes() const { return cut_.kernels.lanes; }
  bool Place(int64_t lane, int64_t& image, int64_t& band) const;
  void PackRows(Range rows);
  void PackRun(Range rows);
  using Places = std::array<const Stored*, kMostImageLanes>;
  void GatherChannels(const Places& from, int64_t count, Element* to) const;
  void GatherPlane(const Places& from, int64_t pixels, Element* to) const;
  void RunStrip(int64_t begin, int64_t end);
  void RunClass(const TapPhase& phase, const AxisClass& rows, const AxisClass& cols, Range strip);
  void RunTiles(Pixels& pixels);
  void StoreRows(Range rows);
  void StoreRun(Range rows);

  const ConvArgs& args_;
  const ImageLanesCut<Stored, Element>& cut_;
  const PackKernels<Stored>& pack_;
  const PartLists& lists_;
  const Element* filter_;  // [group][channel block][terms][tile columns]
  const ImageLanesPart part_;
  Scratch& scratch_;
  const Range source_cols_, result_cols_;
  const int64_t source_c_, result_c_;  // channels of the chunk

  int64_t source_row_ = 0;  // the first row in scratch, relative to a band's
  int64_t result_row_ = 0;
  VectorTileArgs<Element> tile_{};
};

template <class Stored, class Element>
void ImageLanesPartRunner<Stored, Element>::Run() {
  const ImageLanesParts& parts = cut_.parts;
  tile_.sums = scratch_.sums.data();
  tile_.odd = sizeof(Stored) == 2;
  source_row_ = parts.rows.Of(part_.row_begin, part_.row_end).begin;
  int64_t packed = source_row_;
  SlidingRows<Stored, Element> sliding(cut_, part_, filter_, scratch_);
  const int64_t step = cut_.sum.row_phases.front().step;
  for (int64_t begin = part_.row_begin; begin < part_.row_end; begin += parts.strip_rows) {
    const int64_t end = std::min(begin + parts.strip_rows, part_.row_end);
    const int64_t needed = parts.rows.Of(begin, end).end;
    if (parts.slides) source_row_ = packed;
    if (needed > packed) PackRows({packed, needed});
    packed = std::max(packed, needed);
    result_row_ = begin * step;
    if (parts.slides) {
      sliding.Run(begin, end);
    } else {
      RunStrip(begin, end);
    }
    StoreRows({result_row_, end * step});
  }
}

// The place of a lane, or false for surplus lanes.
template <class Stored, class Element>
bool ImageLanesPartRunner<Stored, Element>::Place(int64_t lane, int64_t& image,
                                                  int64_t& band) const {
  const int64_t place = part_.lane_group * lanes() + lane;
  image = place / cut_.parts.bands.count;
  band = place % cut_.parts.bands.count;
  return image < cut_.sum.batch;
}

// Rows relative to a band's first. Whole images in whole rows are one run.
template <class Stored, class Element>
void ImageLanesPartRunner<Stored, Element>::PackRows(Range rows) {
  if (source_cols_.begin == source_cols_.end) return;
  if (cut_.parts.whole_images()) {
    rows = {std::max<int64_t>(rows.begin, 0), std::min(rows.end, cut_.source.h)};
    if (source_cols_.end - source_cols_.begin == cut_.source.w) {
      if (rows.begin < rows.end) PackRun(rows);
      return;
    }
  }
  for (int64_t row = rows.begin; row < rows.end; ++row) PackRun({row, row + 1});
}

// Rows whose pixels follow each other in the tensor and in scratch.
template <class Stored, class Element>
void ImageLanesPartRunner<Stored, Element>::PackRun(Range rows) {
  const DataShape& shape = cut_.source;
  const auto* source = static_cast<const Stored*>(args_.Source(cut_.sum.forward));
  const int64_t width = source_cols_.end - source_cols_.begin;
  const int64_t pixels = (rows.end - rows.begin) * width;
  const int64_t channel = part_.first_group * cut_.sum.source_c;
  const int64_t plane = shape.h * shape.w;
  const bool nhwc = shape.format == DataFormat::kNHWC;
  constexpr int64_t kNumbers = kPairs ? 2 : 1;  // of an element
  Places from{};
  for (int64_t lane = 0; lane < lanes(); ++lane) {
    int64_t image, band;
    if (!Place(lane, image, band)) continue;
    const int64_t row = rows.begin + band * cut_.parts.bands.positions * cut_.parts.rows.step;
    if (row < 0 || row >= shape.h) continue;
    const int64_t pixel = row * shape.w + source_cols_.begin;
    from[static_cast<size_t>(lane)] =
        source + image * shape.Image() * kNumbers +
        (nhwc ? (pixel * shape.c + channel) * kNumbers : channel * plane * kNumbers + pixel);
  }
  Element* const first_row =
      scratch_.source.data() + (rows.begin - source_row_) * width * source_c_ * lanes();
  Element* to = first_row;
  const auto advance = [&](int64_t by) {
    for (const Stored*& lane : from) lane += lane == nullptr ? 0 : by * kNumbers;
  };
  if (nhwc && source_c_ == shape.c) {
    GatherChannels(from, pixels * shape.c, to);
  } else if (nhwc) {
    for (int64_t i = 0; i < pixels; ++i, advance(shape.c), to += source_c_ * lanes()) {
      GatherChannels(from, source_c_, to);
    }
  } else {
    for (int64_t q = 0; q < source_c_; ++q, advance(plane), to += lanes()) {
      GatherPlane(from, pixels, to);
    }
  }
  if constexpr (!kPairs) {
    if (cut_.sum.in_pairs) {
      SwapPairs(pack_, first_row, pixels * part_.num_groups, cut_.sum.source_c, lanes());
    }
  }
}

// The next `count` elements of every place.
template <class Stored, class Element>
void ImageLanesPartRunner<Stored, Element>::GatherChannels(const Places& from, int64_t count,
                                                           Element* to) const {
  if constexpr (kPairs) {
    args_.kernels.pack_bf16_pairs.gather_cols(from.data(), count, to, lanes());
  } else {
    pack_.gather_widen(from.data(), count, to, lanes(), 0);
  }
}

// One channel of these pixels, or two of them. Those of the next ones are fetched meanwhile.
template <class Stored, class Element>
void ImageLanesPartRunner<Stored, Element>::GatherPlane(const Places& from, int64_t pixels,
                                                        Element* to) const {
  const int64_t plane = cut_.source.h * cut_.source.w;
  if constexpr (kPairs) {
    args_.kernels.pack_bf16_pairs.gather_rows(from.data(), plane, pixels, to, source_c_ * lanes(),
                                              2 * plane);
  } else {
    pack_.gather_widen(from.data(), pixels, to, source_c_ * lanes(), plane);
  }
}

template <class Stored, class Element>
void ImageLanesPartRunner<Stored, Element>::RunStrip(int64_t begin, int64_t end) {
  for (size_t i = 0; i < cut_.phases.size(); ++i) {
    lists_.segments->ForClasses(
        i, 0, scratch_.segments,
        [&](const AxisClass& rows, const AxisClass& cols, const SegmentList& segments) {
          segments.Give(*this);
          RunClass(cut_.phases[i], rows, cols, {begin, end});
        });
  }
}

// The pixels of one class in these rows.
template <class Stored, class Element>
void ImageLanesPartRunner<Stored, Element>::RunClass(const TapPhase& phase, const AxisClass& rows,
                                                     const AxisClass& cols, Range strip) {
  const Range row_range = {std::max(rows.begin, strip.begin), std::min(rows.end, strip.end)};
  const Range col_range = {std::max(cols.begin, part_.col_begin),
                           std::min(cols.end, part_.col_end)};
  if (row_range.begin >= row_range.end || col_range.begin >= col_range.end) return;
  const int64_t source_w = source_cols_.end - source_cols_.begin;
  const int64_t result_w = result_cols_.end - result_cols_.begin;
  const auto source_at = [](const AxisPhase& axis, const AxisClass& c, int64_t p) {
    return axis.source_first + p * axis.source_step +
           axis.offsets[static_cast<size_t>(c.tap_begin)];
  };
  const bool has_taps = rows.tap_begin < rows.tap_end && cols.tap_begin < cols.tap_end;
  Pixels pixels;
  for (int64_t i = row_range.begin; i < row_range.end; ++i) {
    const int64_t result_row = phase.rows->first + i * phase.rows->step - result_row_;
    const int64_t source_row = has_taps ? source_at(*phase.rows, rows, i) - source_row_ : 0;
    for (int64_t j = col_range.begin; j < col_range.end; ++j) {
      const int64_t result_col = phase.cols->first + j * phase.cols->step - result_cols_.begin;
      const int64_t source_col =
          has_taps ? source_at(*phase.cols, cols, j) - source_cols_.begin : 0;
      const auto at = static_cast<size_t>(pixels.count++);
      pixels.source[at] = (source_row * source_w + source_col) * source_c_;
      pixels.result[at] = (result_row * result_w + result_col) * result_c_;
      if (pixels.count == cut_.tiles.front().rows) RunTiles(pixels);
    }
  }
  if (pixels.count > 0) RunTiles(pixels);
}

// All channels of these pixels.
template <class Stored, class Element>
void ImageLanesPartRunner<Stored, Element>::RunTiles(Pixels& pixels) {
  const TapSum& sum = cut_.sum;
  const VectorTile<Element>& tile = SmallestTile(std::span(cut_.tiles), pixels.count);
  std::fill(pixels.source.begin() + pixels.count, pixels.source.begin() + tile.rows,
            pixels.source[static_cast<size_t>(pixels.count - 1)]);
  tile_.a_rows = pixels.source.data();
  tile_.c_rows = pixels.result.data();
  tile_.num_rows = pixels.count;
  tile_.b = filter_ + part_.first_group * cut_.channel_blocks * cut_.BlockElements();
  for (int64_t group = 0; group < part_.num_groups; ++group) {
    tile_.a = scratch_.source.data() + group * sum.source_c * lanes();
    for (int64_t first = 0; first < sum.result_c; first += cut_.tile_cols) {
      tile_.num_cols = std::min(cut_.tile_cols, sum.result_c - first);
      tile_.c = scratch_.result.data() + (group * sum.result_c + first) * lanes();
      tile.run(tile_);
      tile_.b += cut_.BlockElements();
    }
  }
  pixels.count = 0;
}

template <class Stored, class Element>
void ImageLanesPartRunner<Stored, Element>::StoreRows(Range rows) {
  if (cut_.parts.whole_images()) {
    rows.end = std::min(rows.end, cut_.result.h);
    if (result_cols_.end - result_cols_.begin == cut_.result.w) {
      if (rows.begin < rows.end) StoreRun(rows);
      return;
    }
  }
  for (int64_t row = rows.begin; row < rows.end; ++row) StoreRun({row, row + 1});
}

// The inverse of PackRun.
template <class Stored, class Element>
void ImageLanesPartRunner<Stored, Element>::StoreRun(Range rows) {
  const DataShape& shape = cut_.result;
  const int64_t width = result_cols_.end - result_cols_.begin;
  const int64_t pixels = (rows.end - rows.begin) * width;
  const int64_t channel = part_.first_group * cut_.sum.result_c;
  const bool nhwc = shape.format == DataFormat::kNHWC;
  const int64_t band_rows = cut_.parts.bands.positions * cut_.sum.row_phases.front().step;
  std::array<Stored*, kMostImageLanes> to{};
  for (int64_t lane = 0; lane < lanes(); ++lane) {
    int64_t image, band;
    if (!Place(lane, image, band)) continue;
    const int64_t row = rows.begin + band * band_rows;
    if (row >= std::min(shape.h, (band + 1) * band_rows)) continue;
    const int64_t pixel = row * shape.w + result_cols_.begin;
    to[static_cast<size_t>(lane)] =
        static_cast<Stored*>(args_.result) + image * shape.Image() +
        (nhwc ? pixel * shape.c + channel : channel * shape.h * shape.w + pixel);
  }
  const Compute* from =
      scratch_.result.data() + (rows.begin - result_row_) * width * result_c_ * lanes();
  const auto advance = [&](int64_t by) {
    for (Stored*& lane : to) lane += lane == nullptr ? 0 : by;
  };
  if (nhwc && result_c_ == shape.c) {
    pack_.scatter_narrow(from, lanes(), pixels * shape.c, to.data());
  } else if (nhwc) {
    for (int64_t i = 0; i < pixels; ++i, advance(shape.c), from += result_c_ * lanes()) {
      pack_.scatter_narrow(from, lanes(), result_c_, to.data());
    }
  } else {
    for (int64_t q = 0; q < result_c_; ++q, advance(shape.h * shape.w), from += lanes()) {
      pack_.scatter_narrow(from, result_c_ * lanes(), pixels, to.data());
    }
  }
}

}  // namespace convgrad
