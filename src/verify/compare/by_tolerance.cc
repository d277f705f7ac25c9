#include "verify/compare/by_tolerance.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>

#include "base/checked.h"
#include "verify/compare/other_type.h"
#include "verify/truth/distance.h"

namespace convgrad {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// True if a user's tolerance (or bits) lets an element through. Equal infinities are equal; NaN
// matches NaN only.
bool Tolerates(const Tolerance& tolerance, const Distance& distance, double expected) {
  if (tolerance.kind == Tolerance::Kind::kBits) return distance.same_bits;
  if (distance.same_value()) return true;
  if (distance.nan_mismatch) return false;
  switch (tolerance.kind) {
    case Tolerance::Kind::kUlp: return distance.ulp <= tolerance.ulp;
    case Tolerance::Kind::kAbs: return distance.absolute <= tolerance.absolute;
    case Tolerance::Kind::kRel: return distance.relative <= tolerance.relative;
    case Tolerance::Kind::kNumpy:
      return distance.absolute < kInfinity &&
             distance.absolute <= tolerance.absolute + tolerance.relative * std::fabs(expected);
    case Tolerance::Kind::kAuto:
    case Tolerance::Kind::kBits: break;
  }
  ThrowInternal("a tolerance that is none of the user's");
}

// How far apart two numbers are by the measure of a tolerance.
double ErrorBy(const Tolerance& tolerance, const Distance& distance, double expected) {
  if (distance.same_value()) return 0;
  if (distance.nan_mismatch) return kInfinity;
  switch (tolerance.kind) {
    case Tolerance::Kind::kAbs: return distance.absolute;
    case Tolerance::Kind::kRel: return distance.relative;
    case Tolerance::Kind::kNumpy: {
      const double allowed = tolerance.absolute + tolerance.relative * std::fabs(expected);
      return distance.absolute / allowed;
    }
    case Tolerance::Kind::kUlp:
    case Tolerance::Kind::kAuto:
    case Tolerance::Kind::kBits: break;
  }
  return static_cast<double>(distance.ulp);
}

// The largest difference from `expected` that a user's tolerance lets through.
double AllowedDifference(const Tolerance& tolerance, double expected, DType dtype) {
  const double size = std::fabs(expected);
  const DTypeInfo& info = InfoOf(dtype);
  const int exponent = std::max(1 - info.max_exponent, size == 0 ? -2000 : std::ilogb(size));
  const double ulp = std::ldexp(1.0, exponent - info.fraction_bits);
  switch (tolerance.kind) {
    case Tolerance::Kind::kAbs: return tolerance.absolute;
    case Tolerance::Kind::kRel: return tolerance.relative * size;
    case Tolerance::Kind::kNumpy: return tolerance.absolute + tolerance.relative * size;
    case Tolerance::Kind::kUlp: return (static_cast<double>(tolerance.ulp) + 0.5) * ulp;
    case Tolerance::Kind::kAuto:
    case Tolerance::Kind::kBits: return 0.5 * ulp;
  }
  ThrowInternal("unknown kind of tolerance");
}

// Runs body(begin, end, tally) over pieces of the elements on all threads and joins their tallies.
template <class Body>
Tally TallyPieces(int64_t num_elements, const Parallel& parallel, const Body& body) {
  constexpr int64_t kPiece = 1 << 16;
  Tally whole;
  std::mutex joining;
  parallel.For(CeilDiv(num_elements, kPiece), [&](int64_t piece) {
    Tally mine;
    body(piece * kPiece, std::min(num_elements, (piece + 1) * kPiece), mine);
    const std::lock_guard lock(joining);
    whole.Join(mine);
  });
  return whole;
}

}  // namespace

Tally TallyByTolerance(const Tensor& actual, const Tensor& expected, const Tolerance& tolerance,
                       const Layout& layout, ErrorSink& errors, const Parallel& parallel) {
  const auto take = [&](const Distance& distance, double own, double value, DType dtype, int64_t i,
                        Tally& tally) {
    // Both zeros differ by bits; numbers of two types may be apart and round to one.
    if (!distance.same_bits && distance.ulp == 0) {
      tally.differ += tolerance.kind == Tolerance::Kind::kBits || !distance.same_value();
    }
    const bool passes = Tolerates(tolerance, distance, value);
    tally.Count(passes ? Verdict::kPassed : Verdict::kFailed, layout, i);
    errors.Keep(i, ErrorBy(tolerance, distance, value), distance, own < value);
    if (value == 0 || !std::isfinite(value)) return;
    tally.least_seen = std::min(tally.least_seen, AllowedDifference(tolerance, value, dtype));
  };
  const DType dtype = actual.dtype();
  if (dtype != expected.dtype()) {
    const DType coarse = CoarserOf(dtype, expected.dtype());
    const auto body = [&](int64_t begin, int64_t end, Tally& tally) {
      for (int64_t i = begin; i < end; ++i) {
        const double own = ValueAt(actual, i), value = ValueAt(expected, i);
        take(tally.MeasureAcross(own, value, dtype, expected.dtype(), i), own, value, coarse, i,
             tally);
      }
    };
    return TallyPieces(actual.num_elements(), parallel, body);
  }
  return VisitAny(dtype, [&](auto tag) {
    using Stored = typename decltype(tag)::Type;
    const Stored* a = actual.data<Stored>();
    const Stored* e = expected.data<Stored>();
    const auto body = [&](int64_t begin, int64_t end, Tally& tally) {
      for (int64_t i = begin; i < end; ++i) {
        take(tally.Measure(a[i], e[i], dtype, i), ValueOf(a[i]), ValueOf(e[i]), dtype, i, tally);
      }
    };
    return TallyPieces(actual.num_elements(), parallel, body);
  });
}

}  // namespace convgrad
