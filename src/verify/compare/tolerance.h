// What a user may say about how close two results must be.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tensor/dtype.h"

namespace convgrad {

struct Tolerance {
  // kAuto takes the sharpest level that applies: bits, exact class, bound.
  // kNumpy: |actual - expected| <= absolute + relative * |expected|.
  enum class Kind { kAuto, kBits, kUlp, kAbs, kRel, kNumpy };
  Kind kind = Kind::kAuto;
  uint64_t ulp = 0;
  double absolute = 0;
  double relative = 0;

  // What ParseTolerance reads back.
  std::string ToString() const;
};

// "auto", "bits", "ulp:4", "abs:1e-6", "rel:1e-5", "rtol:1e-5,atol:1e-8" (either order). Throws
// usage "tolerance/syntax" for anything else, negative, infinite and NaN numbers among it.
Tolerance ParseTolerance(std::string_view text);

// "f16", "bf16", "f32" or "f64". Throws usage "accumulator/unknown".
DType ParseAccumulator(std::string_view text);

}  // namespace convgrad
