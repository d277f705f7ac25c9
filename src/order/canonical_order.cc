#include "order/canonical_order.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/checked.h"

namespace convgrad {
namespace {

// The x in [0, modulus) with value * x = 1 modulo `modulus`, by Euclid's algorithm; 0 for
// modulus 1. The two have no common divisor.
int64_t InverseModulo(int64_t value, int64_t modulus) {
  int64_t rest = modulus, next_rest = value % modulus;
  int64_t x = 0, next_x = 1;
  while (next_rest != 0) {
    const int64_t quotient = rest / next_rest;
    rest = std::exchange(next_rest, rest - quotient * next_rest);
    x = std::exchange(next_x, x - quotient * next_x);
  }
  return x < 0 ? x + modulus : x;
}

// Where part i of `parts` equal parts of [0, count) begins.
int64_t PartBegin(int64_t count, int64_t i, int64_t parts, bool in_pairs) {
  if (!in_pairs) return count * i / parts;
  return std::min(count, CeilDiv(count, int64_t{2}) * i / parts * 2);
}

}  // namespace

bool TermsInPairs(const Problem& problem) {
  return problem.dtype == DType::kBFloat16 && problem.geometry.group_in_c > 1;
}

std::vector<TapBlock> TapBlocks(int64_t num_taps, int64_t num_channels, bool in_pairs) {
  std::vector<TapBlock> blocks;
  if (num_taps == 0 || num_channels == 0) return blocks;
  if (num_channels <= kBlockTerms) {
    const int64_t num_blocks = CeilDiv(num_taps, kBlockTerms / num_channels);
    for (int64_t i = 0; i < num_blocks; ++i) {
      blocks.push_back(
          {num_taps * i / num_blocks, num_taps * (i + 1) / num_blocks, 0, num_channels});
    }
    return blocks;
  }
  const int64_t parts = CeilDiv(num_channels, kBlockTerms);
  for (int64_t tap = 0; tap < num_taps; ++tap) {
    for (int64_t i = 0; i < parts; ++i) {
      blocks.push_back({tap, tap + 1, PartBegin(num_channels, i, parts, in_pairs),
                        PartBegin(num_channels, i + 1, parts, in_pairs)});
    }
  }
  return blocks;
}

PixelBlockGrid::PixelBlockGrid(int64_t batch, int64_t out_h, int64_t out_w, bool in_pairs)
    : batch_(out_h == 0 || out_w == 0 ? 0 : batch) {
  if (batch_ == 0) return;
  // No overflow: both are output sizes of tensors that fit memory limits.
  const int64_t plane = out_h * out_w;
  if (plane <= kBlockTerms) {
    images_ = kBlockTerms / plane;
    rows_ = {0, out_h};
    cols_ = {0, out_w};
    return;
  }
  const auto cut = [](int64_t count, int64_t parts, bool pairs) {
    std::vector<int64_t> begins;
    for (int64_t i = 0; i <= parts; ++i) begins.push_back(PartBegin(count, i, parts, pairs));
    return begins;
  };
  rows_ = cut(out_h, CeilDiv(out_h, std::max<int64_t>(1, kBlockTerms / out_w)), false);
  cols_ = cut(out_w, CeilDiv(out_w, kBlockTerms), in_pairs);
}

int64_t PixelBlockGrid::size() const {
  return CeilDiv(batch_, images_) * of_image();
}

PixelBlock PixelBlockGrid::operator[](int64_t index) const {
  const int64_t image = index / of_image() * images_, in_image = index % of_image();
  const int64_t* rows = rows_.data() + in_image / (std::ssize(cols_) - 1);
  const int64_t* cols = cols_.data() + in_image % (std::ssize(cols_) - 1);
  return {image, std::min(image + images_, batch_), rows[0], rows[1], cols[0], cols[1]};
}

std::vector<PixelBlock> PixelBlocks(int64_t batch, int64_t out_h, int64_t out_w, bool in_pairs) {
  const PixelBlockGrid grid(batch, out_h, out_w, in_pairs);
  std::vector<PixelBlock> blocks;
  blocks.reserve(static_cast<size_t>(grid.size()));
  for (int64_t i = 0; i < grid.size(); ++i) blocks.push_back(grid[i]);
  return blocks;
}

std::vector<int64_t> PhaseTaps(int64_t phase, int64_t stride, int64_t dilation, int64_t kernel) {
  // k * dilation = phase modulo stride: when the common divisor divides phase, one k in every
  // stride / divisor solves it. Not by trial, which large strides would make slow.
  const int64_t divisor = std::gcd(stride, dilation);
  if (phase % divisor != 0) return {};
  const int64_t step = stride / divisor;
  const int64_t first = phase / divisor % step * InverseModulo(dilation / divisor, step) % step;
  std::vector<int64_t> taps;
  for (int64_t k = first; k < kernel; k += step) taps.push_back(k);
  std::reverse(taps.begin(), taps.end());
  return taps;
}

}  // namespace convgrad
