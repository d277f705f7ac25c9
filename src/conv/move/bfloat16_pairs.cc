#include "conv/move/bfloat16_pairs.h"

#include <algorithm>
#include <vector>

#include "base/checked.h"
#include "order/canonical_order.h"

namespace convgrad {
namespace {

BFloat16Magnitudes MagnitudesOf(const ConvArgs& args, const void* tensor, int64_t count) {
  constexpr int64_t kPiece = 1 << 16;
  const auto* numbers = static_cast<const BFloat16*>(tensor);
  std::vector<BFloat16Magnitudes> pieces(static_cast<size_t>(CeilDiv(count, kPiece)));
  args.parallel.For(static_cast<int64_t>(pieces.size()), [&](int64_t i) {
    pieces[static_cast<size_t>(i)] = args.kernels.pack_bf16_pairs.magnitudes(
        numbers + i * kPiece, std::min(kPiece, count - i * kPiece));
  });
  BFloat16Magnitudes result{0xFFFF, 0};
  for (const BFloat16Magnitudes& piece : pieces) {
    result.least = std::min(result.least, piece.least);
    result.greatest = std::max(result.greatest, piece.greatest);
  }
  return result;
}

}  // namespace

bool ServesPairs(const Problem& problem, const KernelTable& kernels) {
  const ConvGeometry& g = problem.geometry;
  if (!kernels.takes_bf16_pairs || !TermsInPairs(problem)) return false;
  switch (InfoOf(problem.op).direction) {
    case Direction::kForward: return g.group_in_c > 1;
    case Direction::kBackpropInput: return g.group_out_c > 1;
    // A stride beyond the input would pair little but padding.
    case Direction::kBackpropFilter: return g.out_w > 1 && g.stride_w <= g.in_w;
  }
  return false;
}

bool PairsAreExact(const ConvArgs& args) {
  constexpr int kBias = 127, kLeastExponent = -126, kMostExponent = 127, kFractionBits = 7;
  constexpr int kInfinity = 0x7F80;
  static_assert(kBlockTerms <= 1 << 8);
  int least_product = 0, most_sum = 8;  // exponents of a unit, and of a bound
  for (const Role role : InfoOf(args.problem.op).operands) {
    const void* tensor = role == Role::kInput    ? args.input
                         : role == Role::kFilter ? args.filter
                                                 : args.out_backprop;
    const BFloat16Magnitudes magnitudes =
        MagnitudesOf(args, tensor, args.problem.NumElements(role));
    const int least = magnitudes.least >> kFractionBits;
    if (magnitudes.greatest >= kInfinity || least == 0) return false;
    least_product += least - kBias - kFractionBits;
    most_sum += (magnitudes.greatest >> kFractionBits) - kBias + 1;
  }
  return least_product >= kLeastExponent && most_sum <= kMostExponent;
}

void LoadSlabPairs(const Parallel& parallel, const PackPairKernels& kernels, const DataShape& shape,
                   int64_t group_c, const Slab& slab, const BFloat16* tensor,
                   const CopiedPixels<BFloat16Pair>& to) {
  const int64_t plane = slab.num_rows() * shape.w;
  const int64_t group_pairs = CeilDiv(group_c, int64_t{2});
  const int64_t groups = shape.c / group_pairs, channels = groups * group_c;
  staging::ForPieces(parallel, shape, slab, [&](int64_t n, int64_t pixel, int64_t pixels) {
    const BFloat16* image = tensor + (slab.image_begin + n) * shape.h * shape.w * channels;
    const int64_t first = slab.row_begin * shape.w + pixel;
    BFloat16Pair* piece = to.first + (n * plane + pixel) * to.distance;
    for (int64_t group = 0; group < groups; ++group, piece += group_pairs) {
      if (shape.format == DataFormat::kNHWC) {
        kernels.pair_cols(image + first * channels + group * group_c, channels, piece, to.distance,
                          pixels, group_c);
      } else {
        kernels.pair_rows_transposed(image + group * group_c * shape.h * shape.w + first,
                                     shape.h * shape.w, piece, to.distance, group_c, pixels);
      }
    }
  });
}

void PackFilterPairs(const PackPairKernels& kernels, const Problem& problem, const TapSum& sum,
                     const std::vector<TapPhase>& phases, const BFloat16* filter,
                     const FilterPanel& panel, const Range& terms, BFloat16Pair* to) {
  const ConvGeometry& g = problem.geometry;
  if (panel.num_channels < panel.cols) {
    std::fill_n(to + terms.begin * panel.cols, (terms.end - terms.begin) * panel.cols,
                BFloat16Pair{});
  }
  filter += panel.group * g.group_out_c;
  const int64_t channels = sum.forward ? g.group_in_c : g.group_out_c;
  ForTapsOf(sum, phases, terms, [&](int64_t tap, int64_t pair, int64_t count, int64_t term) {
    const BFloat16* from = filter + tap * g.group_in_c * g.out_c;
    const int64_t channel = 2 * pair, num_channels = std::min(2 * count, channels - channel);
    BFloat16Pair* rows = to + term * panel.cols;
    if (sum.forward) {
      kernels.pair_rows(from + channel * g.out_c + panel.first_channel, g.out_c, rows, panel.cols,
                        num_channels, panel.num_channels);
    } else {
      kernels.pair_cols_transposed(from + panel.first_channel * g.out_c + channel, g.out_c, rows,
                                   panel.cols, panel.num_channels, num_channels);
    }
  });
}

}  // namespace convgrad
