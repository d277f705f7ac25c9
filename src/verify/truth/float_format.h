// The binary floating-point formats that numbers are rounded to, as data: those of the tensors'
// types, TF32, whose numbers tensors of float32 hold, and formats that numbers are cut off to.
// Numbers of all of them are kept as doubles. Must not know what is rounded.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>

#include "tensor/dtype.h"

namespace convgrad {

struct FloatFormat {
  const char* name;
  int fraction_bits;  // explicit bits of the significand
  int max_exponent;   // of a finite number's leading bit; the least of a normal one is 1 - this
  bool truncates = false;  // numbers are cut off, not rounded to nearest even

  double unit_roundoff() const { return std::ldexp(1.0, -fraction_bits - 1); }
  int least_normal_exponent() const { return 1 - max_exponent; }
  double least_normal() const { return std::ldexp(1.0, least_normal_exponent()); }
  int least_subnormal_exponent() const { return least_normal_exponent() - fraction_bits; }

  // A unit in the last place of numbers of size `magnitude`, which is finite.
  double Ulp(double magnitude) const {
    return std::ldexp(1.0, LeadingExponent(magnitude, 0) - fraction_bits);
  }

  // Half a unit in the last place of numbers of size `magnitude` * 2^exponent, in units of
  // 2^exponent.
  double HalfUlp(double magnitude, int exponent = 0) const {
    if (std::isinf(magnitude)) return magnitude;
    return std::ldexp(1.0, LeadingExponent(magnitude, exponent) - fraction_bits - 1 - exponent);
  }

  // The nearest of its numbers, ties to even, or the next one towards zero.
  double Rounded(double value) const {
    if (fraction_bits == 52) return value;
    const auto bits = std::bit_cast<uint64_t>(value);
    const int exponent = static_cast<int>(bits >> 52 & 0x7FF) - 1023;
    if (exponent < least_normal_exponent()) return RoundedSubnormal(value);
    if (exponent == 1024) return value;
    const int shift = 52 - fraction_bits;
    const uint64_t unit = uint64_t{1} << shift;
    const uint64_t added = truncates ? 0 : unit / 2 - 1 + (bits >> shift & 1);
    const auto rounded = std::bit_cast<double>((bits + added) & ~(unit - 1));
    return exponent < max_exponent ? rounded : Ended(rounded);
  }

  bool operator==(const FloatFormat& other) const {
    return fraction_bits == other.fraction_bits && max_exponent == other.max_exponent &&
           truncates == other.truncates;
  }

 private:
  int LeadingExponent(double magnitude, int exponent) const {
    if (!(magnitude > 0)) return least_normal_exponent();
    return std::max(least_normal_exponent(), std::ilogb(magnitude) + exponent);
  }

  double RoundedSubnormal(double value) const {
    if (value == 0) return value;
    const double unit = std::ldexp(1.0, least_subnormal_exponent());
    return (truncates ? std::trunc(value / unit) : std::nearbyint(value / unit)) * unit;
  }

  // Takes a number that has the format's bits, but may be beyond its largest.
  double Ended(double rounded) const {
    const double end = 2 * std::ldexp(1.0, max_exponent);
    if (std::fabs(rounded) < end) return rounded;
    const double largest = end - std::ldexp(end, -fraction_bits - 1);
    return std::copysign(truncates ? largest : std::numeric_limits<double>::infinity(), rounded);
  }
};

enum class Format : uint8_t {
  kFloat64,
  kFloat32,
  kTruncatedFloat32,
  kTf32,
  kTruncatedTf32,
  kBFloat16,
  kTruncatedBFloat16,
  kFloat16,
};

// All rows, in the order of the enum. Those of types say what DTypeInfo does, at compile time.
inline constexpr FloatFormat kFormats[] = {
    {"float64", 52, 1023},
    {"float32", 23, 127},
    {"truncated float32", 23, 127, true},
    {"TF32", 10, 127},
    {"truncated TF32", 10, 127, true},
    {"bfloat16", 7, 127},
    {"truncated bfloat16", 7, 127, true},
    {"float16", 10, 15},
};

constexpr const FloatFormat& InfoOf(Format format) {
  return kFormats[static_cast<size_t>(format)];
}

// The format of the numbers of a floating-point type.
constexpr Format StoredFormat(DType dtype) {
  switch (dtype) {
    case DType::kFloat16: return Format::kFloat16;
    case DType::kBFloat16: return Format::kBFloat16;
    case DType::kFloat32: return Format::kFloat32;
    default: return Format::kFloat64;
  }
}
constexpr const FloatFormat& FormatOf(DType dtype) {
  return InfoOf(StoredFormat(dtype));
}

// The type whose numbers these are; none of a format that only operands and sums are rounded to.
constexpr std::optional<DType> StoredType(Format format) {
  for (const DType dtype : {DType::kFloat16, DType::kBFloat16, DType::kFloat32, DType::kFloat64}) {
    if (StoredFormat(dtype) == format) return dtype;
  }
  return std::nullopt;
}

inline constexpr Format kNarrowerThanFloat64[] = {Format::kFloat32};
inline constexpr Format kNarrowerThanFloat32[] = {Format::kTf32, Format::kTruncatedTf32,
                                                  Format::kBFloat16, Format::kTruncatedBFloat16,
                                                  Format::kFloat16};
// The formats that kernels are known to squeeze numbers of the type into.
constexpr std::span<const Format> NarrowerThan(DType dtype) {
  if (dtype == DType::kFloat64) return kNarrowerThanFloat64;
  if (dtype == DType::kFloat32) return kNarrowerThanFloat32;
  return {};
}

inline double Round(Format format, double value) {
  return InfoOf(format).Rounded(value);
}

// NVIDIA's TF32: float32's exponents and float16's significand.
inline constexpr FloatFormat kTf32Format = InfoOf(Format::kTf32);

// Sums are rounded to this: the numbers of a type, or TF32's, which are some of float32's.
struct Accumulator {
  // NOLINTNEXTLINE(google-explicit-constructor): a type is the accumulator of its own numbers.
  Accumulator(DType type, bool tf32 = false) : dtype(type), is_tf32(tf32) {}

  FloatFormat format() const { return is_tf32 ? kTf32Format : FormatOf(dtype); }
  bool operator==(const Accumulator&) const = default;

  DType dtype;
  bool is_tf32;
};

}  // namespace convgrad
