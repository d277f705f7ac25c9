// What rounding to a binary floating-point format means: those of the tensors' types, and TF32,
// whose numbers tensors of float32 hold. Must not know what is rounded.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "tensor/dtype.h"

namespace convgrad {

struct FloatFormat {
  const char* name;
  int fraction_bits;  // explicit bits of the significand
  int max_exponent;   // of a finite number's leading bit; the least of a normal one is 1 - this

  double unit_roundoff() const { return std::ldexp(1.0, -fraction_bits - 1); }
  int least_normal_exponent() const { return 1 - max_exponent; }
  double least_normal() const { return std::ldexp(1.0, least_normal_exponent()); }
  int least_subnormal_exponent() const { return least_normal_exponent() - fraction_bits; }

  // Half a unit in the last place of numbers of size `magnitude` * 2^exponent, in units of
  // 2^exponent.
  double HalfUlp(double magnitude, int exponent = 0) const {
    if (std::isinf(magnitude)) return magnitude;
    int leading = least_normal_exponent();
    if (magnitude > 0) leading = std::max(leading, std::ilogb(magnitude) + exponent);
    return std::ldexp(1.0, leading - fraction_bits - 1 - exponent);
  }

  // The nearest of its numbers, ties to even.
  double Rounded(double value) const {
    if (value == 0 || !std::isfinite(value)) return value;
    const int last = std::max(std::ilogb(value), least_normal_exponent()) - fraction_bits;
    const double rounded = std::ldexp(std::nearbyint(std::ldexp(value, -last)), last);
    const bool overflows = std::ilogb(rounded) > max_exponent;
    return overflows ? std::copysign(std::numeric_limits<double>::infinity(), value) : rounded;
  }

  bool operator==(const FloatFormat& other) const {
    return fraction_bits == other.fraction_bits && max_exponent == other.max_exponent;
  }
};

inline FloatFormat FormatOf(DType dtype) {
  const DTypeInfo& info = InfoOf(dtype);
  return {info.name, info.fraction_bits, info.max_exponent};
}

// NVIDIA's TF32: float32's exponents and float16's significand.
inline constexpr FloatFormat kTf32Format = {"TF32", 10, 127};

// What sums are rounded to: the numbers of a type, or TF32's, which are some of float32's.
struct Accumulator {
  // NOLINTNEXTLINE(google-explicit-constructor): a type is the accumulator of its own numbers.
  Accumulator(DType type, bool tf32 = false) : dtype(type), is_tf32(tf32) {}

  FloatFormat format() const { return is_tf32 ? kTf32Format : FormatOf(dtype); }
  bool operator==(const Accumulator&) const = default;

  DType dtype;
  bool is_tf32;
};

}  // namespace convgrad
