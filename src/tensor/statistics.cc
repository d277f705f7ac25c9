#include "tensor/statistics.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/file.h"
#include "base/parallel.h"

namespace convgrad {
namespace {

constexpr int64_t kBlock = 1 << 16;  // between two looks at a request to stop

// The least magnitude of a normal number; an integer is never below it.
double LeastNormal(DType dtype) {
  const DTypeInfo& info = InfoOf(dtype);
  return info.is_float ? std::ldexp(1.0, 1 - info.max_exponent) : 0;
}

// A sum that keeps what each addition rounds away (Neumaier), so that a mean of many values is
// right to the last digits.
class CompensatedSum {
 public:
  void Add(double value) {
    const double sum = sum_ + value;
    lost_ += std::abs(sum_) >= std::abs(value) ? (sum_ - sum) + value : (value - sum) + sum_;
    sum_ = sum;
  }
  double Total() const { return std::isfinite(sum_) ? sum_ + lost_ : sum_; }

 private:
  double sum_ = 0;
  double lost_ = 0;
};

class Gatherer {
 public:
  explicit Gatherer(DType dtype) : least_normal_(LeastNormal(dtype)) {
    statistics_.min = std::numeric_limits<double>::infinity();
    statistics_.max = -std::numeric_limits<double>::infinity();
  }

  void Add(double value) {
    if (!std::isfinite(value)) {
      AddSpecial(value);
      return;
    }
    ++statistics_.finite;
    statistics_.zero += value == 0;
    statistics_.subnormal += value != 0 && std::abs(value) < least_normal_;
    statistics_.min = std::min(statistics_.min, value);
    statistics_.max = std::max(statistics_.max, value);
    sum_.Add(value);
  }

  TensorStatistics Result() const {
    TensorStatistics result = statistics_;
    result.mean = sum_.Total() / static_cast<double>(result.finite);
    if (result.finite == 0) result.min = result.max = std::numeric_limits<double>::quiet_NaN();
    return result;
  }

 private:
  void AddSpecial(double value) {
    statistics_.nan += std::isnan(value);
    statistics_.positive_infinity += value > 0;
    statistics_.negative_infinity += value < 0;
  }

  double least_normal_;
  TensorStatistics statistics_;
  CompensatedSum sum_;
};

// On the bits, in a loop that compilers turn into vector code: the counts have the elements' width.
template <class Bits>
void AddSpecial(const Bits* elements, int64_t count, int fraction_bits, SpecialCounts& counts) {
  const Bits sign = static_cast<Bits>(Bits{1} << (8 * sizeof(Bits) - 1));
  const Bits least_normal = static_cast<Bits>(Bits{1} << fraction_bits);
  const Bits infinity = static_cast<Bits>(sign - least_normal);
  Bits nan = 0, infinite = 0, subnormal = 0;
  for (int64_t at = 0; at < count; ++at) {
    const Bits magnitude = static_cast<Bits>(elements[at] & ~sign);
    nan = static_cast<Bits>(nan + (magnitude > infinity));
    infinite = static_cast<Bits>(infinite + (magnitude == infinity));
    subnormal = static_cast<Bits>(subnormal + (magnitude != 0 && magnitude < least_normal));
  }
  counts.nan += static_cast<int64_t>(nan);
  counts.inf += static_cast<int64_t>(infinite);
  counts.subnormal += static_cast<int64_t>(subnormal);
}

template <class Bits>
SpecialCounts CountSpecialBits(const Tensor& tensor) {
  constexpr int64_t kCounted = (1 << 15) - 1;  // the most that the counts of any type hold
  SpecialCounts counts;
  const Bits* elements = static_cast<const Bits*>(tensor.raw());
  for (int64_t at = 0; at < tensor.num_elements(); at += kCounted) {
    RetryUnlessStopped();
    AddSpecial(elements + at, std::min(kCounted, tensor.num_elements() - at),
               InfoOf(tensor.dtype()).fraction_bits, counts);
  }
  return counts;
}

}  // namespace

void SpecialCounts::Add(double value, DType dtype) {
  nan += std::isnan(value);
  inf += std::isinf(value);
  subnormal += value != 0 && std::fabs(value) < LeastNormal(dtype);
}

void SpecialCounts::Join(const SpecialCounts& other) {
  nan += other.nan;
  inf += other.inf;
  subnormal += other.subnormal;
}

SpecialCounts CountSpecial(const Tensor& tensor) {
  switch (InfoOf(tensor.dtype()).bytes) {
    case 2: return CountSpecialBits<uint16_t>(tensor);
    case 4: return CountSpecialBits<uint32_t>(tensor);
    default: return CountSpecialBits<uint64_t>(tensor);
  }
}

TensorStatistics ComputeStatistics(const Tensor& tensor) {
  const ScopedFpEnvironment environment;  // or subnormals might count as zeros
  Gatherer gatherer(tensor.dtype());
  VisitStored(tensor.dtype(), [&](auto tag) {
    const auto* elements = tensor.data<typename decltype(tag)::Type>();
    for (int64_t at = 0; at < tensor.num_elements(); ++at) {
      if (at % kBlock == 0) RetryUnlessStopped();
      gatherer.Add(Widen(elements[at]));
    }
  });
  return gatherer.Result();
}

}  // namespace convgrad
