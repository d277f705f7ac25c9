// How far apart two stored numbers are, for every storage type: the facts that every level of
// comparison starts from. Must not know what is tolerable.
#pragma once

#include <bit>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "tensor/dtype.h"

namespace convgrad {

// f(TypeTag<T>{}) with the storage type of any dtype, the integer ones too.
template <class F>
decltype(auto) VisitAny(DType dtype, F&& f) {
  if (dtype == DType::kInt32) return std::forward<F>(f)(TypeTag<int32_t>{});
  if (dtype == DType::kInt64) return std::forward<F>(f)(TypeTag<int64_t>{});
  return VisitFloat(dtype, std::forward<F>(f));
}

template <class Stored>
double ValueOf(Stored stored) {
  if constexpr (std::integral<Stored>) {
    return static_cast<double>(stored);
  } else {
    return Widen(stored);
  }
}

template <class Stored>
using BitsOfStored =
    std::conditional_t<sizeof(Stored) == 2, uint16_t,
                       std::conditional_t<sizeof(Stored) == 4, uint32_t, uint64_t>>;

template <class Stored>
uint64_t BitsOf(Stored stored) {
  return std::bit_cast<BitsOfStored<Stored>>(stored);
}

// Position of a number on its type's line, on which neighbours are 1 apart and both zeros are 0.
template <class Stored>
int64_t LinePosition(Stored stored) {
  if constexpr (std::integral<Stored>) {
    return stored;
  } else {
    constexpr int kSignShift = sizeof(Stored) * 8 - 1;
    const uint64_t bits = BitsOf(stored);
    const auto magnitude = static_cast<int64_t>(bits & ((uint64_t{1} << kSignShift) - 1));
    return (bits >> kSignShift) != 0 ? -magnitude : magnitude;
  }
}

// The least double that is no less: a tolerance of it lets the distance through.
inline double RoundedUp(uint64_t ulp) {
  const auto nearest = static_cast<double>(ulp);
  const bool is_less = nearest < 0x1p64 && static_cast<uint64_t>(nearest) < ulp;
  return is_less ? std::nextafter(nearest, std::numeric_limits<double>::infinity()) : nearest;
}

struct Distance {
  bool same_bits = false;  // NaN has the bits of every other NaN
  bool nan_mismatch = false;
  double absolute = 0;  // |actual - expected|; infinite when one side is NaN
  double relative = 0;  // of |expected|
  uint64_t ulp = 0;     // the largest when one side is NaN

  // Numbers of two types may round to one of the coarser and be apart, as 100,000 and infinity.
  bool same_value() const { return ulp == 0 && absolute == 0; }
};

template <class Stored>
Distance DistanceBetween(Stored actual, Stored expected) {
  Distance distance;
  distance.same_bits = BitsOf(actual) == BitsOf(expected);
  if (distance.same_bits) return distance;
  const double a = ValueOf(actual), e = ValueOf(expected);
  if (std::isnan(a) && std::isnan(e)) {
    distance.same_bits = true;
    return distance;
  }
  if (std::isnan(a) || std::isnan(e)) {
    distance.nan_mismatch = true;
    distance.absolute = distance.relative = std::numeric_limits<double>::infinity();
    distance.ulp = std::numeric_limits<uint64_t>::max();
    return distance;
  }
  const int64_t from = LinePosition(actual), to = LinePosition(expected);
  distance.ulp = from > to ? static_cast<uint64_t>(from) - static_cast<uint64_t>(to)
                           : static_cast<uint64_t>(to) - static_cast<uint64_t>(from);
  if (distance.ulp == 0) return distance;  // +0 and -0
  // Integers beyond 2^53 may be apart where they are the same as doubles.
  distance.absolute = std::integral<Stored> ? RoundedUp(distance.ulp) : std::fabs(a - e);
  distance.relative = std::isinf(e) ? distance.absolute : distance.absolute / std::fabs(e);
  return distance;
}

// The distance of numbers that two types hold: ULP are those of `coarse`, to which each is rounded
// once; the rest is of the numbers as they are, which have the same bits if they are the same
// number.
inline Distance DistanceIn(DType coarse, double actual, double expected) {
  Distance distance = VisitFloat(coarse, [&](auto tag) {
    using Stored = typename decltype(tag)::Type;
    return DistanceBetween(Narrow<Stored>(actual), Narrow<Stored>(expected));
  });
  if (distance.nan_mismatch) return distance;
  const bool are_nan = std::isnan(actual) && std::isnan(expected);
  distance.same_bits =
      are_nan || std::bit_cast<uint64_t>(actual) == std::bit_cast<uint64_t>(expected);
  if (are_nan || actual == expected) return distance;
  distance.absolute = std::fabs(actual - expected);
  distance.relative =
      std::isinf(expected) ? distance.absolute : distance.absolute / std::fabs(expected);
  return distance;
}

}  // namespace convgrad
