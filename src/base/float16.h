// The two 16-bit floating-point formats as storage, with exact widening and single-rounding
// narrowing. Integer code, so that every machine gives the same bits; NaN becomes the canonical one
// (quiet, positive, no payload).
#pragma once

#include <bit>
#include <cstdint>

namespace convgrad {

struct Float16 {  // IEEE 754 binary16
  uint16_t bits;
};
struct BFloat16 {  // the upper half of a binary32
  uint16_t bits;
};
// Two neighbours, as instructions for products of pairs take them.
struct BFloat16Pair {
  BFloat16 first, second;
};

inline float ToFloat(BFloat16 value) {
  return std::bit_cast<float>(static_cast<uint32_t>(value.bits) << 16);
}

inline float ToFloat(Float16 value) {
  const uint32_t sign = static_cast<uint32_t>(value.bits & 0x8000) << 16;
  const uint32_t exponent = (value.bits >> 10) & 0x1F;
  const uint32_t fraction = value.bits & 0x3FF;
  if (exponent == 0x1F) return std::bit_cast<float>(sign | 0x7F800000 | (fraction << 13));
  if (exponent != 0)
    return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (fraction << 13));
  const float magnitude = static_cast<float>(fraction) * 0x1p-24f;  // subnormal: exact
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(magnitude));
}

// `value` rounded once, to nearest even, to a format with so many bits of fraction and exponent, as
// bits; over the largest finite number: infinity.
template <int kFractionBits, int kExponentBits>
uint16_t NarrowBits(double value) {
  constexpr int kBias = (1 << (kExponentBits - 1)) - 1;
  constexpr uint16_t kInfinity = ((1 << kExponentBits) - 1) << kFractionBits;
  const uint64_t bits = std::bit_cast<uint64_t>(value);
  const uint16_t sign = static_cast<uint16_t>((bits >> 63) << 15);
  const uint64_t magnitude = bits & ~(uint64_t{1} << 63);
  if (magnitude > uint64_t{0x7FF} << 52) return kInfinity | (1 << (kFractionBits - 1));  // NaN
  const int exponent = static_cast<int>(magnitude >> 52) - 1023;
  if (exponent > kBias) return sign | kInfinity;
  if (exponent < -kBias - kFractionBits - 1) return sign;  // under half the least subnormal
  const int shift =
      exponent < 1 - kBias ? 52 - kFractionBits + (1 - kBias - exponent) : 52 - kFractionBits;
  const uint64_t significand = (magnitude & ((uint64_t{1} << 52) - 1)) | (uint64_t{1} << 52);
  const uint64_t half = uint64_t{1} << (shift - 1);
  const uint64_t kept = significand >> shift;
  const uint64_t rest = significand & ((uint64_t{1} << shift) - 1);
  const uint64_t rounded = kept + (rest > half || (rest == half && (kept & 1)));
  // A normal number's hidden bit adds 1 to the exponent field; a carry moves on to the next one.
  const int64_t base = exponent < 1 - kBias ? 0 : static_cast<int64_t>(exponent + kBias - 1);
  return sign | static_cast<uint16_t>((base << kFractionBits) + static_cast<int64_t>(rounded));
}

inline Float16 ToFloat16(double value) {
  return {NarrowBits<10, 5>(value)};
}
inline BFloat16 ToBFloat16(double value) {
  return {NarrowBits<7, 8>(value)};
}

// The type that a kernel computes in for a storage type: double for double, else float.
template <class Stored>
struct ComputeTypeOf {
  using Type = float;
};
template <>
struct ComputeTypeOf<double> {
  using Type = double;
};
template <class Stored>
using ComputeType = typename ComputeTypeOf<Stored>::Type;

}  // namespace convgrad
