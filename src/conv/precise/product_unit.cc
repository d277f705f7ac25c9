#include "conv/precise/product_unit.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>

#include "base/checked.h"
#include "kernels/precise/precise.h"

namespace convgrad {
namespace {

// The exponent of the lowest bit set in any finite, non-zero element.
int UnitExponent(const double* elements, int64_t count) {
  int least = kNoBit;
  for (int64_t i = 0; i < count; ++i) {
    const uint64_t bits = std::bit_cast<uint64_t>(elements[i]);
    const int field = static_cast<int>(bits >> 52) & 0x7FF;
    const uint64_t fraction = bits & ((uint64_t{1} << 52) - 1);
    if (field == 0x7FF || (field | fraction) == 0) continue;
    const uint64_t significand = field == 0 ? fraction : fraction | uint64_t{1} << 52;
    least = std::min(least, std::max(field, 1) - 1075 + std::countr_zero(significand));
  }
  return least;
}

template <class Stored>
int UnitExponent(const Stored* elements, int64_t count) {
  return PreciseKernelsOf<Stored>(SupportedKernels().front().isa).lowest_bit(elements, count);
}

template <class Stored>
int UnitExponentOf(const Stored* elements, int64_t count, const Parallel& parallel) {
  constexpr int64_t kPiece = 1 << 16;
  std::atomic<int> least = kNoBit;
  parallel.For(CeilDiv(count, kPiece), [&](int64_t piece) {
    const int64_t begin = piece * kPiece;
    const int mine = UnitExponent(elements + begin, std::min(count - begin, kPiece));
    int seen = least.load();
    while (mine < seen && !least.compare_exchange_weak(seen, mine)) {
    }
  });
  return least;
}

}  // namespace

ProductUnit ProductUnit::Of(DType dtype, const void* first, int64_t first_count, const void* second,
                            int64_t second_count, const Parallel& parallel) {
  return VisitFloat(dtype, [&](auto tag) {
    using Stored = typename decltype(tag)::Type;
    const int x = UnitExponentOf(static_cast<const Stored*>(first), first_count, parallel);
    const int y = UnitExponentOf(static_cast<const Stored*>(second), second_count, parallel);
    const int unit = x == kNoBit || y == kNoBit ? 0 : x + y;
    const bool may_underflow = unit < -1074;
    return ProductUnit{unit, may_underflow ? 0 : std::ldexp(0.5, unit + 53), may_underflow};
  });
}

}  // namespace convgrad
