#include "order/term_walk.h"

namespace convgrad {

TapsByPhase::TapsByPhase(int64_t stride, int64_t dilation, int64_t pad, int64_t kernel)
    : stride_(stride), pad_(pad) {
  for (int64_t k = kernel - 1; k >= 0; --k) taps_[k * dilation % stride].push_back(k);
}

const std::vector<int64_t>& TapsByPhase::At(int64_t position) const {
  static const std::vector<int64_t> kNone;
  const auto taps = taps_.find((position + pad_) % stride_);
  return taps == taps_.end() ? kNone : taps->second;
}

std::vector<int64_t> TapsByPhase::Counts() const {
  std::vector<int64_t> counts = {0};
  for (const auto& [phase, taps] : taps_) {
    if (std::ranges::find(counts, std::ssize(taps)) == counts.end()) {
      counts.push_back(std::ssize(taps));
    }
  }
  return counts;
}

TermWalk::TermWalk(const Problem& problem)
    : direction_(InfoOf(problem.op).direction),
      format_(problem.data_format),
      in_pairs_(TermsInPairs(problem)),
      geometry_(problem.geometry),
      input_(DataStrides::Of(format_, geometry_.in_h, geometry_.in_w, geometry_.in_c)),
      output_(DataStrides::Of(format_, geometry_.out_h, geometry_.out_w, geometry_.out_c)) {
  const ConvGeometry& g = geometry_;
  switch (direction_) {
    case Direction::kForward:
      tap_blocks_ = TapBlocks(g.kernel_h * g.kernel_w, g.group_in_c, in_pairs_);
      break;
    case Direction::kBackpropInput:
      row_taps_ = TapsByPhase(g.stride_h, g.dilation_h, g.pad_top, g.kernel_h);
      col_taps_ = TapsByPhase(g.stride_w, g.dilation_w, g.pad_left, g.kernel_w);
      for (const int64_t rows : row_taps_.Counts()) {
        for (const int64_t cols : col_taps_.Counts()) {
          phase_blocks_.emplace_back(rows * cols, TapBlocks(rows * cols, g.group_out_c, in_pairs_));
        }
      }
      break;
    case Direction::kBackpropFilter:
      pixel_blocks_ = PixelBlocks(g.batch, g.out_h, g.out_w, in_pairs_);
      break;
  }
}

TermWalk::Position TermWalk::PositionOf(int64_t element, DataFormat format, int64_t h, int64_t w,
                                        int64_t c) {
  const int64_t image = element / (h * w * c), in_image = element % (h * w * c);
  if (format == DataFormat::kNHWC)
    return {image, in_image / (w * c), in_image / c % w, in_image % c};
  return {image, in_image / w % h, in_image % w, in_image / (h * w)};
}

}  // namespace convgrad
