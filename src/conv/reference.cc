#include "conv/reference.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "base/checked.h"

namespace convgrad {
namespace {

// Follows the canonical tree of one element: chains of fused multiply-adds, folded block by block.
template <class Stored>
class ChainVisitor {
 public:
  using Compute = ComputeType<Stored>;

  ChainVisitor(const Stored* first, const Stored* second) : first_(first), second_(second) {}

  void Term(int64_t first, int64_t second) {
    chain_ = std::fma(static_cast<Compute>(Widen(first_[first])),
                      static_cast<Compute>(Widen(second_[second])), chain_);
  }
  void EndBlock() {
    fold_.AddBlock(chain_);
    chain_ = 0;
  }
  void EndRun() { fold_.EndRun(); }
  double Result() const { return fold_.Result(); }

 private:
  const Stored* first_;
  const Stored* second_;
  Compute chain_ = 0;
  std::conditional_t<std::is_same_v<Stored, double>, FoldDouble, FoldFloat> fold_;
};

void RunReference(const ConvArgs& args) {
  VisitFloat(args.problem.dtype, [&](auto tag) {
    using Stored = typename decltype(tag)::Type;
    VisitElements<Stored, ChainVisitor<Stored>>(args);
  });
}

}  // namespace

TapsByPhase::TapsByPhase(int64_t stride, int64_t dilation, int64_t pad, int64_t kernel)
    : stride_(stride), pad_(pad) {
  for (int64_t k = kernel - 1; k >= 0; --k) taps_[k * dilation % stride].push_back(k);
}

const std::vector<int64_t>& TapsByPhase::At(int64_t position) const {
  static const std::vector<int64_t> kNone;
  const auto taps = taps_.find((position + pad_) % stride_);
  return taps == taps_.end() ? kNone : taps->second;
}

TermWalk::TermWalk(const Problem& problem)
    : direction_(InfoOf(problem.op).direction),
      format_(problem.data_format),
      in_pairs_(TermsInPairs(problem)),
      geometry_(problem.geometry),
      input_(StridesOf(format_, geometry_.in_h, geometry_.in_w, geometry_.in_c)),
      output_(StridesOf(format_, geometry_.out_h, geometry_.out_w, geometry_.out_c)) {
  const ConvGeometry& g = geometry_;
  switch (direction_) {
    case Direction::kForward:
      tap_blocks_ = TapBlocks(g.kernel_h * g.kernel_w, g.group_in_c, in_pairs_);
      break;
    case Direction::kBackpropInput:
      row_taps_ = TapsByPhase(g.stride_h, g.dilation_h, g.pad_top, g.kernel_h);
      col_taps_ = TapsByPhase(g.stride_w, g.dilation_w, g.pad_left, g.kernel_w);
      break;
    case Direction::kBackpropFilter:
      pixel_blocks_ = PixelBlocks(g.batch, g.out_h, g.out_w, in_pairs_);
      break;
  }
}

TermWalk::DataStrides TermWalk::StridesOf(DataFormat format, int64_t h, int64_t w, int64_t c) {
  if (format == DataFormat::kNHWC) return {h * w * c, w * c, c, 1};
  return {c * h * w, w, 1, h * w};
}

TermWalk::Position TermWalk::PositionOf(int64_t element, DataFormat format, int64_t h, int64_t w,
                                        int64_t c) {
  const int64_t image = element / (h * w * c), in_image = element % (h * w * c);
  if (format == DataFormat::kNHWC)
    return {image, in_image / (w * c), in_image / c % w, in_image % c};
  return {image, in_image / w % h, in_image % w, in_image / (h * w)};
}

const Algorithm kReferenceAlgorithm = {
    .name = "reference",
    .summary = "one element at a time, by definition; slow, for checking",
    .accepts = [](const Problem&, const KernelTable&) { return true; },
    .scratch_bytes = [](const Problem&, const KernelTable&, int) -> int64_t { return 0; },
    .tiles = [](const Problem&, const KernelTable&) { return std::string("1 element"); },
    .run = RunReference,
};

}  // namespace convgrad
