#include "order/fixed_point.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <mutex>
#include <utility>

#include "base/checked.h"
#include "base/error.h"
#include "base/resources.h"

namespace convgrad {
namespace {

// Elements that a thread takes at a time.
constexpr int64_t kPiece = 1 << 14;
constexpr int kWordBits = 64;
// A tensor has fewer elements, so a sum fewer terms.
constexpr int kCountBits = 48;

bool IsNegative(std::span<const uint64_t> words) {
  return (words.back() >> (kWordBits - 1)) != 0;
}

// Adds words at `at` and, beyond them, what repeats their sign.
void AddWithSign(uint64_t* words, int count, int at, std::span<const uint64_t> added) {
  unsigned char carry = 0;
  const auto add = [&](uint64_t one) {
    const Uint128 sum = static_cast<Uint128>(words[at]) + one + carry;
    words[at] = static_cast<uint64_t>(sum);
    carry = static_cast<unsigned char>(sum >> kWordBits);
    ++at;
  };
  for (size_t i = 0; i < added.size() && at < count; ++i) add(added[i]);
  if (IsNegative(added)) {
    while (at < count && carry == 0) add(~uint64_t{0});
  } else {
    while (at < count && carry != 0) add(0);
  }
}

void Negate(std::span<uint64_t> words) {
  bool carry = true;
  for (uint64_t& word : words) {
    word = ~word + carry;
    carry = carry && word == 0;
  }
}

// The words in use of one number: those below are zero, those above repeat the sign.
struct Used {
  int begin = std::numeric_limits<int>::max(), end = std::numeric_limits<int>::min();

  void Take(std::span<const uint64_t> words, int first) {
    const int size = static_cast<int>(words.size());
    int low = 0, high = size - 1;
    const uint64_t sign = IsNegative(words) ? ~uint64_t{0} : 0;
    const auto word = [&](int i) { return words[static_cast<size_t>(i)]; };
    while (low < size && word(low) == 0) ++low;
    if (low == size) return;
    while (high > low && word(high) == sign && (word(high - 1) ^ sign) >> (kWordBits - 1) == 0) {
      --high;
    }
    begin = std::min(begin, first + low);
    end = std::max(end, first + high + 1);
  }
  void Take(const Used& other) {
    begin = std::min(begin, other.begin);
    end = std::max(end, other.end);
  }
};

}  // namespace

WordWindow WordWindow::Of(int lowest_bit, int highest_bit) {
  const auto first = static_cast<int>(FloorDiv(lowest_bit, kWordBits));
  return {first, static_cast<int>(FloorDiv(highest_bit, kWordBits)) + 1 - first};
}

WordWindow WordWindow::With(const WordWindow& other) const {
  const int low = std::min(first, other.first);
  return {low, std::max(end(), other.end()) - low};
}

WordWindow WidestWindow(DType dtype) {
  return VisitFloat(dtype, [](auto tag) {
    using Stored = typename decltype(tag)::Type;
    return WordWindow::Of(2 * kLastBit<Stored>,
                          2 * (NumbersOf<Stored>::kMaxExponent + 1) + kCountBits);
  });
}

SpecialSum SpecialSumOf(double product) {
  if (std::isnan(product)) return kNaNSum;
  return product > 0 ? kPositiveSum : kNegativeSum;
}

FixedPointSums::FixedPointSums(int64_t count, int64_t max_bytes)
    : count_(count), max_bytes_(max_bytes), words_(count) {
  std::fill_n(words_.data(), words_.size(), uint64_t{0});
}

FixedPointSums::FixedPointSums(int64_t count, const WordWindow& window)
    : count_(count), max_bytes_(0), window_(window), words_(count * window.count) {
  std::fill_n(words_.data(), words_.size(), uint64_t{0});
}

bool FixedPointSums::HasSpecial() const {
  return std::ranges::any_of(states_, [](uint8_t state) { return state != kFiniteSum; });
}

void FixedPointSums::KeepStates() {
  states_.resize(static_cast<size_t>(count_));
}

void FixedPointSums::Widen(const WordWindow& window, const Parallel& parallel) {
  const WordWindow wider = window_.With(window);
  if (wider == window_) return;
  const int64_t bytes = count_ * wider.count * static_cast<int64_t>(sizeof(uint64_t));
  if (max_bytes_ > 0 && bytes > max_bytes_) {
    ThrowIo("memory/limit", "memory",
            fmt::format("exact sums of {} words take {}, {} are left for them", wider.count,
                        FormatExactBytes(bytes), FormatBytes(max_bytes_)),
            "raise --max-memory");
  }
  Move(wider, parallel);
}

void FixedPointSums::Move(const WordWindow& window, const Parallel& parallel) {
  AlignedArray<uint64_t> moved(count_ * window.count);
  parallel.For(CeilDiv(count_, kPiece), [&](int64_t piece) {
    const int64_t end = std::min(count_, (piece + 1) * kPiece);
    for (int64_t element = piece * kPiece; element < end; ++element) {
      const std::span<const uint64_t> from = At(element);
      const uint64_t sign = IsNegative(from) ? ~uint64_t{0} : 0;
      uint64_t* to = moved.data() + element * window.count;
      for (int i = 0; i < window.count; ++i) {
        const int at = window.first + i - window_.first;
        to[i] = at < 0 ? 0 : at < window_.count ? from[static_cast<size_t>(at)] : sign;
      }
    }
  });
  words_ = std::move(moved);
  window_ = window;
}

void FixedPointSums::AddInteger(int64_t element, int64_t value, int exponent) {
  if (value == 0) return;
  const auto bits = static_cast<uint64_t>(value);
  const uint64_t magnitude = value < 0 ? -bits : bits;
  const int zeros = std::countr_zero(magnitude);
  const int position = exponent + zeros - kWordBits * window_.first;
  const Uint128 shifted = static_cast<Uint128>(magnitude >> zeros) << (position % kWordBits);
  const Uint128 both = value < 0 ? -shifted : shifted;
  const uint64_t parts[] = {static_cast<uint64_t>(both), static_cast<uint64_t>(both >> kWordBits)};
  AddWithSign(MutableAt(element), window_.count, position / kWordBits, parts);
}

void FixedPointSums::AddProduct(int64_t element, double x, double y) {
  const DecodedDouble a = Decode(x), b = Decode(y);
  if (a.significand == 0 || b.significand == 0) return;
  // Without the zeros at their ends the window has the product's last bit.
  const int a_zeros = std::countr_zero(a.significand), b_zeros = std::countr_zero(b.significand);
  const Uint128 product =
      static_cast<Uint128>(a.significand >> a_zeros) * (b.significand >> b_zeros);
  const int position = a.exponent + a_zeros + b.exponent + b_zeros - kWordBits * window_.first;
  std::array<uint64_t, 3> parts = ShiftedWords(product, position % kWordBits);
  if (a.negative != b.negative) Negate(parts);
  AddWithSign(MutableAt(element), window_.count, position / kWordBits, parts);
}

void FixedPointSums::AddWords(int64_t element, const uint64_t* words, const WordWindow& window) {
  AddWithSign(MutableAt(element), window_.count, window.first - window_.first,
              {words, static_cast<size_t>(window.count)});
}

WordWindow FixedPointSums::UsedWindow(const Parallel& parallel) const {
  Used used;
  std::mutex mutex;
  parallel.For(CeilDiv(count_, kPiece), [&](int64_t piece) {
    Used mine;
    const int64_t end = std::min(count_, (piece + 1) * kPiece);
    for (int64_t element = piece * kPiece; element < end; ++element) {
      mine.Take(At(element), window_.first);
    }
    const std::lock_guard lock(mutex);
    used.Take(mine);
  });
  if (used.begin > used.end) return {};  // zeros alone
  return {used.begin, used.end - used.begin};
}

void FixedPointSums::Normalize(const Parallel& parallel) {
  if (!HasSpecial()) states_.clear();
  for (size_t element = 0; element < states_.size(); ++element) {
    if (states_[element] == kFiniteSum) continue;
    std::fill_n(MutableAt(static_cast<int64_t>(element)), window_.count, uint64_t{0});
  }
  const WordWindow used = UsedWindow(parallel);
  if (used != window_) Move(used, parallel);
}

template <class Stored>
double FixedPointSums::Rounded(int64_t element) const {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  switch (StateAt(element)) {
    case kFiniteSum: break;
    case kPositiveSum: return kInfinity;
    case kNegativeSum: return -kInfinity;
    case kNaNSum: return std::numeric_limits<double>::quiet_NaN();
  }
  const std::span<const uint64_t> words = At(element);
  const int first_bit = kWordBits * window_.first;
  if (!IsNegative(words)) return RoundMagnitude<Stored>(words, first_bit, false);
  std::vector<uint64_t> magnitude(words.begin(), words.end());
  Negate(magnitude);
  return RoundMagnitude<Stored>(magnitude, first_bit, true);
}

template double FixedPointSums::Rounded<Float16>(int64_t) const;
template double FixedPointSums::Rounded<BFloat16>(int64_t) const;
template double FixedPointSums::Rounded<float>(int64_t) const;
template double FixedPointSums::Rounded<double>(int64_t) const;

}  // namespace convgrad
