// The number formats that kernels round to on their way, as data. Numbers of all of them are kept
// as doubles. Must not know what is summed.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "tensor/dtype.h"

namespace convgrad {

enum class Format : uint8_t {
  kFloat64,
  kFloat32,
  kTf32,
  kTruncatedTf32,
  kBFloat16,
  kTruncatedBFloat16,
  kFloat16,
};

struct FormatInfo {
  const char* name;
  int precision;     // bits of the significand, the hidden one among them
  int max_exponent;  // of a finite number's leading bit; the least of a normal one is 1 - this
  bool truncates;    // numbers are cut off, not rounded to nearest even
};

inline constexpr FormatInfo kFormats[] = {
    {"float64", 53, 1023, false}, {"float32", 24, 127, false},
    {"TF32", 11, 127, false},     {"truncated TF32", 11, 127, true},
    {"bfloat16", 8, 127, false},  {"truncated bfloat16", 8, 127, true},
    {"float16", 11, 15, false},
};
constexpr const FormatInfo& InfoOf(Format format) {
  return kFormats[static_cast<size_t>(format)];
}

constexpr Format StoredFormat(DType dtype) {
  switch (dtype) {
    case DType::kFloat16: return Format::kFloat16;
    case DType::kBFloat16: return Format::kBFloat16;
    case DType::kFloat32: return Format::kFloat32;
    default: return Format::kFloat64;
  }
}

inline double LeastNormal(const FormatInfo& info) {
  return std::ldexp(1.0, 1 - info.max_exponent);
}

// A number below the least normal one.
inline double RoundSubnormal(const FormatInfo& info, double value) {
  if (value == 0) return value;
  const double unit = std::ldexp(1.0, 2 - info.max_exponent - info.precision);
  return (info.truncates ? std::trunc(value / unit) : std::nearbyint(value / unit)) * unit;
}

// `value` rounded once to a format shorter than float64.
inline double RoundShorter(const FormatInfo& info, double value) {
  const auto bits = std::bit_cast<uint64_t>(value);
  const int exponent = static_cast<int>(bits >> 52 & 0x7FF) - 1023;
  if (exponent < 1 - info.max_exponent) return RoundSubnormal(info, value);
  if (exponent == 1024) return value;
  const int shift = 53 - info.precision;
  const uint64_t unit = uint64_t{1} << shift;
  const uint64_t added = info.truncates ? 0 : unit / 2 - 1 + (bits >> shift & 1);
  const auto rounded = std::bit_cast<double>((bits + added) & ~(unit - 1));
  if (exponent < info.max_exponent) return rounded;
  const double end = 2 * std::ldexp(1.0, info.max_exponent);
  if (std::fabs(rounded) < end) return rounded;
  return std::copysign(info.truncates ? end - std::ldexp(end, -info.precision)
                                      : std::numeric_limits<double>::infinity(),
                       value);
}

inline double Round(Format format, double value) {
  if (format == Format::kFloat64) return value;
  if (format == Format::kFloat32) return static_cast<float>(value);
  return RoundShorter(InfoOf(format), value);
}

// A unit in the last place of numbers of size `magnitude`.
inline double UlpOf(Format format, double magnitude) {
  const FormatInfo& info = InfoOf(format);
  int exponent = 1 - info.max_exponent;
  if (magnitude > 0 && std::isfinite(magnitude)) {
    exponent = std::max(exponent, std::ilogb(magnitude));
  }
  return std::ldexp(1.0, exponent - info.precision + 1);
}

}  // namespace convgrad
