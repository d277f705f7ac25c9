// Looks for a NaN in a result: where an algorithm multiplied padding, the sign that a zero of it
// may have met an infinity, and that one which skips padding has to decide.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "base/float16.h"

namespace convgrad {

template <class Stored>
bool HasNaN(const void* result, int64_t count) {
  const auto* values = static_cast<const Stored*>(result);
  return std::any_of(values, values + count, [](Stored value) { return std::isnan(Widen(value)); });
}

}  // namespace convgrad
