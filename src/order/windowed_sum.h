// The sum of one element's products in an integer of 128 bits, which lie where its size allows:
// exact as a rule, and cheaper than a superaccumulator by far. Terms below the window are cut off,
// so that it may have to leave the answer open. Of types whose products have at most 64 bits.
#pragma once

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
    Uint128 units;
    if (up >= 0) {
      units = static_cast<Uint128>(product) << (up & 127);
    } else {
      units = up > -64 ? product >> -up : 0;
      num_cut_ += up <= -64 ? product != 0 : (units << -up) != product;
    }
    sum_ = x.negative != y.negative ? sum_ - units : sum_ + units;
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

  // A finite number that has at most 32 bits.
  static DecodedNumber DecodeNarrow(double value) {
    const DecodedDouble decoded = Decode(value);
    return {decoded.negative, decoded.exponent + 21, decoded.significand >> 21};
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
  Uint128 sum_ = 0;      // of 2^last_bit_, as a two's complement
  uint64_t num_cut_ = 0;  // terms of which less than one unit each was cut off
};

}  // namespace convgrad
