#include "conv/parts/slices.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <mutex>
#include <numeric>

#include "base/checked.h"
#include "order/superaccumulator.h"

namespace convgrad {
namespace {

// Elements that a thread takes at a time.
constexpr int64_t kPieceNumbers = 1 << 14;

// Both factors of a power of two that may itself be beyond double's range.
void SetFactors(int exponent, double* factors) {
  factors[0] = std::ldexp(1.0, exponent / 2);
  factors[1] = std::ldexp(1.0, exponent - exponent / 2);
}

}  // namespace

template <class Stored>
BitProfile::BitProfile(const Stored* numbers, int64_t count, const Parallel& parallel)
    : count_(count) {
  std::mutex mutex;
  int top = -2000;
  // Few pieces: each has a table of its own.
  const int64_t size = std::max<int64_t>(kPieceNumbers, CeilDiv(count, 4 * parallel.num_threads()));
  parallel.For(CeilDiv(count, size), [&](int64_t piece) {
    std::array<int64_t, kExponents> ends{};
    int64_t num_finite = 0, num_special = 0;
    int highest = -2000;
    const int64_t end = std::min(count, (piece + 1) * size);
    for (int64_t i = piece * size; i < end; ++i) {
      const double number = Widen(numbers[i]);
      if (!std::isfinite(number)) {
        ++num_special;
        continue;
      }
      const DecodedDouble decoded = Decode(number);
      if (decoded.significand == 0) continue;
      ++num_finite;
      highest = std::max(highest,
                         decoded.exponent + static_cast<int>(std::bit_width(decoded.significand)));
      ++ends[static_cast<size_t>(decoded.exponent + std::countr_zero(decoded.significand) -
                                 kLeast)];
    }
    const std::lock_guard lock(mutex);
    for (size_t i = 0; i < kExponents; ++i) below_[i + 1] += ends[i];
    num_finite_ += num_finite;
    num_special_ += num_special;
    top = std::max(top, highest);
  });
  if (num_finite_ == 0) return;
  top_ = top;
  const auto* lowest = std::ranges::find_if(below_, [](int64_t ends) { return ends > 0; });
  unit_ = kLeast + static_cast<int>(lowest - below_.begin()) - 1;
  std::partial_sum(below_.begin(), below_.end(), below_.begin());
}

Slicer::Slicer(const Cuts& cuts) : slices_(cuts.slices) {
  if (slices_ == 0) return;
  const int last = cuts.LastBit();
  least_ = std::ldexp(0.5, last);
  SetFactors(-last, down_);
  SetFactors(last, up_);
  for (int k = 0; k < slices_; ++k) {
    steps_[k] = std::ldexp(1.0, cuts.BitOf(k) - last);
    inverse_[k] = 1 / steps_[k];
  }
}

// Every step is exact: a product by a power of two of a number that stays normal, or the difference
// of a number and a multiple of a unit that is nearest to it.
double Slicer::Cut(double number, double* integers) const {
  if (slices_ == 0) return number;
  if (!std::isfinite(number) || std::fabs(number) < least_) {
    std::fill_n(integers, slices_, 0.0);
    return number;
  }
  constexpr double kToInteger = 0x1.8p52;  // added and subtracted: rounds below 2^51
  double left = number * down_[0] * down_[1];
  for (int k = 0; k < slices_; ++k) {
    integers[k] = left * inverse_[k] + kToInteger - kToInteger;
    left -= integers[k] * steps_[k];
  }
  return left * up_[0] * up_[1];
}

template <class Stored>
Slices::Slices(const Stored* numbers, int64_t count, const Cuts& cuts, const Parallel& parallel)
    : cuts_(cuts), count_(count), integers_(cuts.slices * count) {
  const Slicer slicer(cuts);
  const int64_t pieces = CeilDiv(count, kPieceNumbers);
  std::vector<std::vector<Leftover>> of_piece(static_cast<size_t>(pieces));
  parallel.For(pieces, [&](int64_t piece) {
    const int64_t end = std::min(count, (piece + 1) * kPieceNumbers);
    for (int64_t i = piece * kPieceNumbers; i < end; ++i) {
      double integers[kMostSlices];
      const double rest = slicer.Cut(Widen(numbers[i]), integers);
      for (int k = 0; k < cuts_.slices; ++k) integers_[k * count_ + i] = integers[k];
      if (rest != 0) of_piece[static_cast<size_t>(piece)].push_back({i, rest});
    }
  });
  for (const std::vector<Leftover>& some : of_piece) {
    leftovers_.insert(leftovers_.end(), some.begin(), some.end());
  }
}

template BitProfile::BitProfile(const Float16*, int64_t, const Parallel&);
template BitProfile::BitProfile(const BFloat16*, int64_t, const Parallel&);
template BitProfile::BitProfile(const float*, int64_t, const Parallel&);
template BitProfile::BitProfile(const double*, int64_t, const Parallel&);
template Slices::Slices(const Float16*, int64_t, const Cuts&, const Parallel&);
template Slices::Slices(const BFloat16*, int64_t, const Cuts&, const Parallel&);
template Slices::Slices(const float*, int64_t, const Cuts&, const Parallel&);
template Slices::Slices(const double*, int64_t, const Cuts&, const Parallel&);

}  // namespace convgrad
