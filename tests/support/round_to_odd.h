// A double rounded to float32 "to odd", by its definition: what kernels that round so are held
// against.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace convgrad::testing {

// `value` if float32 holds it, else the neighbour whose last bit is one.
inline float RoundedToOdd(double value) {
  const float nearest = static_cast<float>(value);
  if (std::isnan(value) || static_cast<double>(nearest) == value) return nearest;
  const bool is_away = std::fabs(static_cast<double>(nearest)) > std::fabs(value);
  const float towards_zero = is_away ? std::nextafter(nearest, 0.0F) : nearest;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(towards_zero) | 1U);
}

}  // namespace convgrad::testing
