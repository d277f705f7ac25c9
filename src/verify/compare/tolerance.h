// How close two results must be, as a user may say it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "verify/truth/float_format.h"

namespace convgrad {

// A tensor whose errors are less likely is FAILED, unless told otherwise.
inline constexpr double kDefaultOdds = 1e-12;

struct Tolerance {
  // kAuto takes the sharpest level that applies: bits, exact class, bound.
  // kNumpy: |actual - expected| <= absolute + relative * |expected|.
  enum class Kind { kAuto, kBits, kUlp, kAbs, kRel, kNumpy };
  Kind kind = Kind::kAuto;
  uint64_t ulp = 0;
  double absolute = 0;
  double relative = 0;

  // The text that ParseTolerance reads back.
  std::string ToString() const;

  // Errors are shares of this by it, "ulp", "abs", "rel" or "tolerance" (what it allows), and the
  // largest that passes.
  const char* Measure() const;
  double Limit() const;
};

// "auto", "bits", "ulp:4", "abs:1e-6", "rel:1e-5", "rtol:1e-5,atol:1e-8" (either order). Throws
// usage "tolerance/syntax" for anything else, negative, infinite and NaN numbers among it.
Tolerance ParseTolerance(std::string_view text);

// "f16", "bf16", "tf32", "f32" or "f64". Throws usage "accumulator/unknown".
Accumulator ParseAccumulator(std::string_view text);

}  // namespace convgrad
