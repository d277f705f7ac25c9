// Integer arithmetic that says when it overflows. Every product of sizes from outside goes through
// it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace convgrad {

inline std::optional<int64_t> CheckedMul(int64_t a, int64_t b) {
  int64_t product;
  if (__builtin_mul_overflow(a, b, &product)) return std::nullopt;
  return product;
}

inline std::optional<int64_t> CheckedAdd(int64_t a, int64_t b) {
  int64_t sum;
  if (__builtin_add_overflow(a, b, &sum)) return std::nullopt;
  return sum;
}

// The product of `sizes`; a zero does not hide an overflow of the others.
inline std::optional<int64_t> CheckedProduct(std::span<const int64_t> sizes) {
  int64_t product = 1;
  bool has_zero = false;
  for (const int64_t size : sizes) {
    if (size == 0) {
      has_zero = true;
      continue;
    }
    if (__builtin_mul_overflow(product, size, &product)) return std::nullopt;
  }
  return has_zero ? 0 : product;
}

// ceil(a / b) for a >= 0, b > 0.
constexpr int64_t CeilDiv(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

// floor(a / b) for b > 0.
constexpr int64_t FloorDiv(int64_t a, int64_t b) {
  return a / b - (a % b < 0 ? 1 : 0);
}

// a rounded up to a multiple of b, for a >= 0, b > 0.
constexpr int64_t RoundUp(int64_t a, int64_t b) {
  return CeilDiv(a, b) * b;
}

}  // namespace convgrad
