// A tensor's values at a glance: range, mean, and how many are special. Must not
// know what they are for.
#pragma once

#include <cstdint>

#include "tensor/tensor.h"

namespace convgrad {

struct TensorStatistics {
  int64_t nan = 0;
  int64_t positive_infinity = 0;
  int64_t negative_infinity = 0;
  int64_t subnormal = 0;  // of the storage type
  int64_t zero = 0;       // of either sign
  int64_t finite = 0;     // how many values the following three are of; without any they are NaN
  double min = 0;
  double max = 0;
  double mean = 0;

  int64_t infinite() const { return positive_infinity + negative_infinity; }
};

TensorStatistics ComputeStatistics(const Tensor& tensor);

// How many values are special; subnormal is meant of the storage type.
struct SpecialCounts {
  int64_t nan = 0, inf = 0, subnormal = 0;

  void Add(double value, DType dtype);
  void Join(const SpecialCounts& other);
};

// Counts in a floating-point tensor as ComputeStatistics does, many times as fast.
SpecialCounts CountSpecial(const Tensor& tensor);

}  // namespace convgrad
