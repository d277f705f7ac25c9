// The sum of one element's products in an integer of 128 bits, which lie where its size allows:
// exact as a rule, and cheaper than a superaccumulator by far. Terms below the window are cut off,
// so that it may have to leave the answer open. Of types whose products have at most 64 bits.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <optional>

#include "order/superaccumulator.h"

namespace convgrad {

// A visitor of TermWalk.
template <class Stored>
class WindowedSum {
 public:
  // `size` is at least about the sum of the products' absolute values; beyond any that finite
  // numbers have, there may be others.
  WindowedSum(const Stored* first, const Stored* second, double size)
      : first_(first), second_(second), is_open_(!(size < 0x1p400)) {
    static_assert(NumbersOf<Stored>::kFractionBits < 32);
    // Every partial sum is below 2^126 of the last bit.
    if (!is_open_) last_bit_ = (size > 0 ? std::ilogb(size) : 0) + 1 - 126;
  }

  void Term(int64_t first, int64_t second) {
    const DecodedNumber x = DecodeNarrow(Widen(first_[first]));
    const DecodedNumber y = DecodeNarrow(Widen(second_[second]));
    const uint64_t product = x.significand * y.significand;
    const int up = x.exponent + y.exponent - last_bit_;
    if (up >= 0) [[likely]] {
      Add(static_cast<Uint128>(product) << (up & 127), x.negative != y.negative);
    } else {
      const uint64_t units = up > -64 ? product >> -up : 0;
      num_cut_ += up > -64 ? (units << -up) != product : product != 0;
      Add(units, x.negative != y.negative);
    }
  }
  void EndBlock() {}
  void EndRun() {}

  // Rounded once to the type; none where what was cut off may decide, or numbers may be infinite or
  // NaN.
  std::optional<double> Result() const {
    if (is_open_) return std::nullopt;
    const double least = Rounded(sum_ - num_cut_), most = Rounded(sum_ + num_cut_);
    if (least != most || std::signbit(least) != std::signbit(most)) return std::nullopt;
    return least;
  }

 private:
  struct DecodedNumber {
    bool negative;
    int exponent;
    uint64_t significand;  // below 2^32
  };

  // A finite number that has at most 32 bits. Without branches, which would be guessed wrong as
  // often as not.
  static DecodedNumber DecodeNarrow(double value) {
    const uint64_t bits = std::bit_cast<uint64_t>(value);
    const int field = static_cast<int>(bits >> 52) & 0x7FF;
    const uint64_t fraction = bits << 12 >> 33, hidden = uint64_t{field != 0} << 31;
    return {(bits >> 63) != 0, field - 1075 + 21, fraction | hidden};
  }
  void Add(Uint128 units, bool negative) {
    const Uint128 all = -static_cast<Uint128>(negative);
    sum_ += (units ^ all) - all;
  }
  double Rounded(Uint128 units) const {
    const bool negative = (units >> 127) != 0;
    const Uint128 magnitude = negative ? -units : units;
    const uint64_t words[] = {static_cast<uint64_t>(magnitude),
                              static_cast<uint64_t>(magnitude >> 64)};
    return RoundMagnitude<Stored>(words, last_bit_, negative);
  }

  const Stored* first_;
  const Stored* second_;
  bool is_open_;
  int last_bit_ = 0;
  Uint128 sum_ = 0;       // of 2^last_bit_, as a two's complement
  uint64_t num_cut_ = 0;  // terms of which less than one unit each was cut off
};

}  // namespace convgrad
