// Runs one part of a forward convolution or an input gradient with lanes along images. Tiles are
// pixels by channels of the result; the source is copied into [row][column][channel][lane], just
// ahead of the strip of rows that reads it. Knows how the work is cut (image_lanes_form.h), not
// when it pays.
#pragma once

#include <algorithm>
#include <array>
#include <type_traits>
#include <vector>

#include "base/checked.h"
#include "base/memory.h"
#include "conv/conv2d/data/image_lanes_form.h"
#include "conv/conv2d/data/sliding_rows_runner.h"
#include "conv/move/staging.h"
#include "conv/plan/algorithm.h"

namespace convgrad {

inline constexpr int kMostImageLanes = 16;

// Exchanges the neighbours 2i and 2i + 1 of every run of `count` rows of `width` numbers: terms
// that are taken in pairs, second first, are so in ascending order.
template <class Compute>
void SwapPairs(Compute* data, int64_t runs, int64_t count, int64_t width) {
  for (int64_t run = 0; run < runs; ++run, data += count * width) {
    for (int64_t i = 0; i + 1 < count; i += 2) {
      Compute* first = data + i * width;
      std::swap_ranges(first, first + width, first + width);
    }
  }
}

// One part: packs, computes and stores strip by strip.
template <class Stored, class Element>
class ImageLanesRunner {
 public:
  using Compute = ComputeType<Stored>;
  static constexpr bool kPairs = ImageLanesForm<Stored, Element>::kPairs;

  using Scratch = ImageLanesScratch<Stored, Element>;

  ImageLanesRunner(const ConvArgs& args, const ImageLanesForm<Stored, Element>& plan,
                   const Element* filter, const ImageLanesPart& part, Scratch& scratch)
      : args_(args),
        plan_(plan),
        pack_(args.kernels.Pack<Stored>()),
        filter_(filter),
        part_(part),
        scratch_(scratch),
        source_cols_(plan.cuts.SourceCols(part)),
        result_cols_(plan.cuts.ResultCols(part)),
        source_c_(part.num_groups * plan.sum.source_c),
        result_c_(part.num_groups * plan.sum.result_c) {}

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

  int64_t lanes() const { return plan_.kernels.lanes; }
  bool Place(int64_t lane, int64_t& image, int64_t& band) const;
  void PackRows(RowRange rows);
  void PackRun(RowRange rows);
  using Places = std::array<const Stored*, kMostImageLanes>;
  void GatherChannels(const Places& from, int64_t count, Element* to) const;
  void GatherPlane(const Places& from, int64_t pixels, Element* to) const;
  void RunStrip(int64_t begin, int64_t end);
  void RunClass(const TapPhase& phase, const AxisClass& rows, const AxisClass& cols, int64_t begin,
                int64_t end);
  void RunTiles(Pixels& pixels);
  void StoreRows(RowRange rows);
  void StoreRun(RowRange rows);

  const ConvArgs& args_;
  const ImageLanesForm<Stored, Element>& plan_;
  const PackKernels<Stored>& pack_;
  const Element* filter_;  // [group][channel block][terms][tile columns]
  const ImageLanesPart part_;
  Scratch& scratch_;
  const RowRange source_cols_, result_cols_;
  const int64_t source_c_, result_c_;  // channels of the chunk

  int64_t source_row_ = 0;  // the first row in scratch, relative to a band's
  int64_t result_row_ = 0;
  VectorTileArgs<Element> tile_{};
};

template <class Stored, class Element>
void ImageLanesRunner<Stored, Element>::Run() {
  const ImageLanesCuts& cuts = plan_.cuts;
  tile_.sums = scratch_.sums.data();
  tile_.odd = sizeof(Stored) == 2;
  source_row_ = cuts.rows.Of(part_.row_begin, part_.row_end).begin;
  int64_t packed = source_row_;
  SlidingRows<Stored, Element> sliding(plan_, part_, filter_, scratch_);
  const int64_t step = plan_.sum.row_phases.front().step;
  for (int64_t begin = part_.row_begin; begin < part_.row_end; begin += cuts.strip_rows) {
    const int64_t end = std::min(begin + cuts.strip_rows, part_.row_end);
    const int64_t needed = cuts.rows.Of(begin, end).end;
    if (cuts.slides) source_row_ = packed;
    if (needed > packed) PackRows({packed, needed});
    packed = std::max(packed, needed);
    result_row_ = begin * step;
    if (cuts.slides) {
      sliding.Run(begin, end);
    } else {
      RunStrip(begin, end);
    }
    StoreRows({result_row_, end * step});
  }
}

// The place of a lane, or false for surplus lanes.
template <class Stored, class Element>
bool ImageLanesRunner<Stored, Element>::Place(int64_t lane, int64_t& image, int64_t& band) const {
  const int64_t place = part_.lane_group * lanes() + lane;
  image = place / plan_.cuts.bands.count;
  band = place % plan_.cuts.bands.count;
  return image < plan_.sum.batch;
}

// Rows relative to a band's first. Whole images in whole rows are one run.
template <class Stored, class Element>
void ImageLanesRunner<Stored, Element>::PackRows(RowRange rows) {
  if (source_cols_.begin == source_cols_.end) return;
  if (plan_.cuts.whole_images()) {
    rows = {std::max<int64_t>(rows.begin, 0), std::min(rows.end, plan_.source.h)};
    if (source_cols_.end - source_cols_.begin == plan_.source.w) {
      if (rows.begin < rows.end) PackRun(rows);
      return;
    }
  }
  for (int64_t row = rows.begin; row < rows.end; ++row) PackRun({row, row + 1});
}

// Rows whose pixels follow each other in the tensor and in scratch.
template <class Stored, class Element>
void ImageLanesRunner<Stored, Element>::PackRun(RowRange rows) {
  const DataShape& shape = plan_.source;
  const auto* source =
      static_cast<const Stored*>(plan_.sum.forward ? args_.input : args_.out_backprop);
  const int64_t width = source_cols_.end - source_cols_.begin;
  const int64_t pixels = (rows.end - rows.begin) * width;
  const int64_t channel = part_.first_group * plan_.sum.source_c;
  const int64_t plane = shape.h * shape.w;
  const bool nhwc = shape.format == DataFormat::kNHWC;
  constexpr int64_t kNumbers = kPairs ? 2 : 1;  // of an element
  Places from{};
  for (int64_t lane = 0; lane < lanes(); ++lane) {
    int64_t image, band;
    if (!Place(lane, image, band)) continue;
    const int64_t row = rows.begin + band * plan_.cuts.bands.positions * plan_.cuts.rows.step;
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
    if (plan_.sum.in_pairs) {
      SwapPairs(first_row, pixels * part_.num_groups, plan_.sum.source_c, lanes());
    }
  }
}

// The next `count` elements of every place.
template <class Stored, class Element>
void ImageLanesRunner<Stored, Element>::GatherChannels(const Places& from, int64_t count,
                                                       Element* to) const {
  if constexpr (kPairs) {
    args_.kernels.pack_bf16_pairs.gather_cols(from.data(), count, to, lanes());
  } else {
    pack_.gather_widen(from.data(), count, to, lanes(), 0);
  }
}

// One channel of these pixels, or two of them. Those of the next ones are fetched meanwhile.
template <class Stored, class Element>
void ImageLanesRunner<Stored, Element>::GatherPlane(const Places& from, int64_t pixels,
                                                    Element* to) const {
  const int64_t plane = plan_.source.h * plan_.source.w;
  if constexpr (kPairs) {
    args_.kernels.pack_bf16_pairs.gather_rows(from.data(), plane, pixels, to, source_c_ * lanes(),
                                              2 * plane);
  } else {
    pack_.gather_widen(from.data(), pixels, to, source_c_ * lanes(), plane);
  }
}

template <class Stored, class Element>
void ImageLanesRunner<Stored, Element>::RunStrip(int64_t begin, int64_t end) {
  for (const TapPhase& phase : plan_.phases) {
    const AxisClass all{0, plan_.cuts.bands.positions, 0,
                        static_cast<int64_t>(phase.rows->taps.size())};
    const std::span<const AxisClass> row_classes =
        plan_.cuts.whole_images() ? std::span<const AxisClass>(phase.rows->classes)
                                  : std::span<const AxisClass>(&all, 1);
    for (const AxisClass& rows : row_classes) {
      for (const AxisClass& cols : phase.cols->classes) RunClass(phase, rows, cols, begin, end);
    }
  }
}

// The pixels of one class in rows [begin, end) of the strip.
template <class Stored, class Element>
void ImageLanesRunner<Stored, Element>::RunClass(const TapPhase& phase, const AxisClass& rows,
                                                 const AxisClass& cols, int64_t begin,
                                                 int64_t end) {
  const RowRange row_range = {std::max(rows.begin, begin), std::min(rows.end, end)};
  const RowRange col_range = {std::max(cols.begin, part_.col_begin),
                              std::min(cols.end, part_.col_end)};
  if (row_range.begin >= row_range.end || col_range.begin >= col_range.end) return;
  const int64_t source_w = source_cols_.end - source_cols_.begin;
  const int64_t result_w = result_cols_.end - result_cols_.begin;
  const PixelOffsets offsets({DataFormat::kNHWC, 1, source_w, source_c_}, 0, 0, 1);
  scratch_.segments.Build(phase, rows, cols, offsets, plan_.sum.source_c, plan_.tile_cols, 0,
                          static_cast<int64_t>(phase.blocks.size()));
  scratch_.segments.Give(*this);
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
      if (pixels.count == plan_.tiles.front().rows) RunTiles(pixels);
    }
  }
  if (pixels.count > 0) RunTiles(pixels);
}

// All channels of these pixels.
template <class Stored, class Element>
void ImageLanesRunner<Stored, Element>::RunTiles(Pixels& pixels) {
  const TapSum& sum = plan_.sum;
  const VectorTile<Element>* tile = &plan_.tiles.front();
  for (const auto& smaller : plan_.tiles) {
    if (smaller.rows >= pixels.count) tile = &smaller;
  }
  std::fill(pixels.source.begin() + pixels.count, pixels.source.begin() + tile->rows,
            pixels.source[static_cast<size_t>(pixels.count - 1)]);
  tile_.a_rows = pixels.source.data();
  tile_.c_rows = pixels.result.data();
  tile_.num_rows = pixels.count;
  tile_.b = filter_ + part_.first_group * plan_.channel_blocks * plan_.BlockElements();
  for (int64_t group = 0; group < part_.num_groups; ++group) {
    tile_.a = scratch_.source.data() + group * sum.source_c * lanes();
    for (int64_t first = 0; first < sum.result_c; first += plan_.tile_cols) {
      tile_.num_cols = std::min(plan_.tile_cols, sum.result_c - first);
      tile_.c = scratch_.result.data() + (group * sum.result_c + first) * lanes();
      tile->run(tile_);
      tile_.b += plan_.BlockElements();
    }
  }
  pixels.count = 0;
}

template <class Stored, class Element>
void ImageLanesRunner<Stored, Element>::StoreRows(RowRange rows) {
  if (plan_.cuts.whole_images()) {
    rows.end = std::min(rows.end, plan_.result.h);
    if (result_cols_.end - result_cols_.begin == plan_.result.w) {
      if (rows.begin < rows.end) StoreRun(rows);
      return;
    }
  }
  for (int64_t row = rows.begin; row < rows.end; ++row) StoreRun({row, row + 1});
}

// The inverse of PackRun.
template <class Stored, class Element>
void ImageLanesRunner<Stored, Element>::StoreRun(RowRange rows) {
  const DataShape& shape = plan_.result;
  const int64_t width = result_cols_.end - result_cols_.begin;
  const int64_t pixels = (rows.end - rows.begin) * width;
  const int64_t channel = part_.first_group * plan_.sum.result_c;
  const bool nhwc = shape.format == DataFormat::kNHWC;
  const int64_t band_rows = plan_.cuts.bands.positions * plan_.sum.row_phases.front().step;
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
