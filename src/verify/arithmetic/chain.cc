#include "verify/arithmetic/chain.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "order/rounding.h"
#include "order/two_sum.h"

namespace convgrad {
namespace {

// --- the operations of one format ---

// The generic one: sums of two numbers of at most 24 bits, rounded to float64 and then to fewer
// than half its bits, are rounded right (S. Figueroa, "When is double rounding innocuous?", ACM
// SIGNUM Newsletter 30 (1995)); a fused sum goes through a number rounded to odd.
template <Format kFormat>
struct Narrow16 {
  using Value = double;
  static double Round(double value) { return InfoOf(kFormat).Rounded(value); }
  static double Product(double x, double y) { return Round(x * y); }
  static double Add(double a, double b) { return Round(a + b); }
  static double FusedAdd(double x, double y, double sum) {
    const TwoSum next(x * y, sum);
    return Round(RoundToOdd(next.sum, next.lost));
  }
};

struct InFloat32 {
  using Value = float;
  static float Product(double x, double y) { return static_cast<float>(x * y); }
  static float Add(float a, float b) { return a + b; }
  static float FusedAdd(double x, double y, float sum) {
    return std::fma(static_cast<float>(x), static_cast<float>(y), sum);
  }
};

struct InFloat64 {
  using Value = double;
  static double Product(double x, double y) { return x * y; }
  static double Add(double a, double b) { return a + b; }
  static double FusedAdd(double x, double y, double sum) { return std::fma(x, y, sum); }
};

// The same where subnormal numbers become zero, operands among them.
template <class Operations, Format kFormat>
struct Flushing {
  using Value = typename Operations::Value;
  static Value Flush(Value value) {
    static const auto kLeast = static_cast<Value>(InfoOf(kFormat).least_normal());
    return std::fabs(value) < kLeast ? Value{0} : value;
  }
  static double Operand(double value) {
    static const double kLeast = InfoOf(kFormat).least_normal();
    return std::fabs(value) < kLeast ? 0 : value;
  }
  static Value Product(double x, double y) {
    return Flush(Operations::Product(Operand(x), Operand(y)));
  }
  static Value Add(Value a, Value b) { return Flush(Operations::Add(a, b)); }
  static Value FusedAdd(double x, double y, Value sum) {
    return Flush(Operations::FusedAdd(Operand(x), Operand(y), sum));
  }
};

template <class F>
double VisitOperations(Format format, bool flushes, const F& f) {
  const auto visit = [&]<class Operations, Format kFormat>() {
    return flushes ? f(Flushing<Operations, kFormat>{}) : f(Operations{});
  };
  switch (format) {
    case Format::kFloat64: return visit.template operator()<InFloat64, Format::kFloat64>();
    case Format::kFloat32:
    case Format::kTruncatedFloat32: return visit.template operator()<InFloat32, Format::kFloat32>();
    case Format::kTf32:
    case Format::kTruncatedTf32:
      return visit.template operator()<Narrow16<Format::kTf32>, Format::kTf32>();
    case Format::kBFloat16:
    case Format::kTruncatedBFloat16:
      return visit.template operator()<Narrow16<Format::kBFloat16>, Format::kBFloat16>();
    case Format::kFloat16: break;
  }
  return visit.template operator()<Narrow16<Format::kFloat16>, Format::kFloat16>();
}

// --- joining ---

template <class Operations>
auto Joined(std::span<typename Operations::Value> numbers, Join join) {
  using Value = typename Operations::Value;
  size_t n = numbers.size();
  if (n == 0) return Value{0};
  switch (join) {
    case Join::kInOrder:
    case Join::kReversed: break;
    case Join::kNeighbours:
      for (; n > 1; n = (n + 1) / 2) {
        for (size_t i = 0; i < n / 2; ++i) {
          numbers[i] = Operations::Add(numbers[2 * i], numbers[2 * i + 1]);
        }
        if (n % 2 == 1) numbers[n / 2] = numbers[n - 1];
      }
      return numbers[0];
    case Join::kHalves:
      for (; n > 1; n = (n + 1) / 2) {
        const size_t half = (n + 1) / 2;
        for (size_t i = 0; i + half < n; ++i) {
          numbers[i] = Operations::Add(numbers[i], numbers[i + half]);
        }
      }
      return numbers[0];
  }
  const bool is_reversed = join == Join::kReversed;
  Value sum = is_reversed ? numbers[n - 1] : numbers[0];
  for (size_t i = 1; i < n; ++i) {
    sum = Operations::Add(sum, is_reversed ? numbers[n - 1 - i] : numbers[i]);
  }
  return sum;
}

// Float32 adds in float64 with the same outcome: half its bits are enough (Figueroa, as above).
struct Float32InDouble {
  using Value = double;
  static double Add(double a, double b) { return static_cast<float>(a + b); }
};

// --- chains ---

template <class Operations, bool kFused>
class Chains {
 public:
  using Value = typename Operations::Value;

  static Value Step(double x, double y, Value sum) {
    if constexpr (kFused) return Operations::FusedAdd(x, y, sum);
    return Operations::Add(sum, Operations::Product(x, y));
  }
  static Value InOrder(const double* x, const double* y, int64_t n) {
    Value sum = 0;
    for (int64_t i = 0; i < n; ++i) sum = Step(x[i], y[i], sum);
    return sum;
  }
  static Value InPairs(const double* x, const double* y, int64_t n) {
    Value sum = 0;
    for (int64_t i = 0; i < n; i += 2) {
      if (i + 1 < n) sum = Step(x[i + 1], y[i + 1], sum);
      sum = Step(x[i], y[i], sum);
    }
    return sum;
  }
  static Value InLanes(const double* x, const double* y, int64_t n, int width, Join join) {
    std::array<Value, 64> lanes{};
    const auto count = static_cast<size_t>(width);
    int64_t i = 0;
    for (; i + width <= n; i += width) {
      for (size_t lane = 0; lane < count; ++lane) {
        const auto at = i + static_cast<int64_t>(lane);
        lanes[lane] = Step(x[at], y[at], lanes[lane]);
      }
    }
    for (size_t lane = 0; i < n; ++i, ++lane) lanes[lane] = Step(x[i], y[i], lanes[lane]);
    return Joined<Operations>(std::span(lanes.data(), count), join);
  }
  static Value Pairwise(const double* x, const double* y, int64_t n, int width) {
    if (n <= width) return InOrder(x, y, n);
    const int64_t half = n / 2;
    return Operations::Add(Pairwise(x, y, half, width),
                           Pairwise(x + half, y + half, n - half, width));
  }
  static Value Run(const Model& model, const double* x, const double* y, int64_t n) {
    switch (model.chain) {
      case Chain::kPairs: return InPairs(x, y, n);
      case Chain::kLanes: return InLanes(x, y, n, model.width, model.lanes_join);
      case Chain::kPairwise: return Pairwise(x, y, n, model.width);
      case Chain::kInOrder:
      case Chain::kAnyOrder:
      case Chain::kMatrixUnit: break;
    }
    return InOrder(x, y, n);
  }
};

// --- matrix units ---

constexpr int kNoExponent = -100000;

int ExponentOf(double value) {
  const auto field = static_cast<int>(std::bit_cast<uint64_t>(value) >> 52 & 0x7FF);
  if (field == 0) return value == 0 ? kNoExponent : std::ilogb(value);
  return field - 1023;
}

// One step of a matrix unit: products are exact; they and the sum so far are aligned to the largest
// exponent among them, a product's being the sum of its factors', and cut off `extra_bits` below
// float32's last bit; their exact sum is cut off to float32 (M. Fasi, N. Higham, M. Mikaitis and S.
// Pranesh, "Numerical behavior of NVIDIA tensor cores", PeerJ Computer Science 7 (2021)).
double MatrixUnitStep(const double* x, const double* y, int64_t n, int extra_bits, double sum) {
  int largest = ExponentOf(sum);
  for (int64_t i = 0; i < n; ++i) {
    if (x[i] != 0 && y[i] != 0) largest = std::max(largest, ExponentOf(x[i]) + ExponentOf(y[i]));
  }
  if (largest == kNoExponent) return sum;
  // Scaling by powers of two is exact far beyond float32's range.
  const double unit = std::ldexp(1.0, largest - 23 - extra_bits), scale = 1 / unit;
  double total = std::trunc(sum * scale);
  for (int64_t i = 0; i < n; ++i) total += std::trunc(x[i] * y[i] * scale);
  if (!std::isfinite(total)) return total;
  return Round(Format::kTruncatedFloat32, total * unit);
}

double MatrixUnitSum(const Model& model, const double* x, const double* y, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; i += model.width) {
    const int64_t group = std::min<int64_t>(model.width, n - i);
    sum = MatrixUnitStep(x + i, y + i, group, model.extra_bits, sum);
  }
  return sum;
}

}  // namespace

double ChainSum(const Model& model, const double* x, const double* y, int64_t n) {
  if (model.chain == Chain::kMatrixUnit) return MatrixUnitSum(model, x, y, n);
  return VisitOperations(model.accumulator, model.flushes, [&](auto operations) -> double {
    using Operations = decltype(operations);
    return model.fused ? Chains<Operations, true>::Run(model, x, y, n)
                       : Chains<Operations, false>::Run(model, x, y, n);
  });
}

double JoinSums(std::span<double> numbers, Join join, Format format) {
  return VisitOperations(format, false, [&](auto operations) -> double {
    using Operations = decltype(operations);
    if constexpr (std::is_same_v<typename Operations::Value, double>) {
      return Joined<Operations>(numbers, join);
    } else {
      return Joined<Float32InDouble>(numbers, join);
    }
  });
}

}  // namespace convgrad
