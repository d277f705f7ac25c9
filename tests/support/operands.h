// Operand tensors for tests: ordinary numbers, or sown with the values that break kernels.
#pragma once

#include <cstdint>
#include <limits>
#include <random>

#include "problem/geometry.h"
#include "tensor/tensor.h"

namespace convgrad::testing {

enum class Values {
  kOrdinary,  // uniform in (-1, 1), so that the order of summation shows in the last bits
  kSpecial,   // the same with infinities, NaNs, zeros of both signs, subnormals and huge numbers
};

inline double DrawValue(std::mt19937_64& random, Values values, DType dtype) {
  const double ordinary = std::uniform_real_distribution<double>(-1, 1)(random);
  if (values == Values::kOrdinary) return ordinary;
  const double huge = dtype == DType::kFloat64 ? 1e300 : dtype == DType::kFloat16 ? 6e4 : 3e38;
  const double tiny = dtype == DType::kFloat64 ? 5e-324 : dtype == DType::kFloat16 ? 6e-8 : 1e-40;
  switch (random() % 64) {
    case 0: return std::numeric_limits<double>::infinity();
    case 1: return -std::numeric_limits<double>::infinity();
    case 2: return -std::numeric_limits<double>::quiet_NaN();
    case 3:
    case 4:
    case 5: return -0.0;
    case 6:
    case 7:
    case 8: return 0.0;
    case 9:
    case 10: return tiny * ordinary * 100;
    case 11: return huge * ordinary;
    default: return ordinary;
  }
}

inline Tensor RandomTensor(DType dtype, const Shape& shape, uint64_t seed, Values values) {
  Tensor tensor(dtype, shape);
  std::mt19937_64 random(seed);
  VisitFloat(dtype, [&](auto tag) {
    using Stored = typename decltype(tag)::Type;
    for (int64_t i = 0; i < tensor.num_elements(); ++i) {
      tensor.mutable_data<Stored>()[i] = Narrow<Stored>(DrawValue(random, values, dtype));
    }
  });
  return tensor;
}

// The two operands of a problem, in the order of InfoOf(op).operands.
struct Operands {
  Tensor first, second;
};

inline Operands RandomOperands(const Problem& problem, uint64_t seed, Values values) {
  const OpInfo& op = InfoOf(problem.op);
  return {RandomTensor(problem.dtype, problem.ShapeOf(op.operands[0]), seed * 2 + 1, values),
          RandomTensor(problem.dtype, problem.ShapeOf(op.operands[1]), seed * 2 + 2, values)};
}

// Each value rounded to `dtype`.
inline Tensor TensorOf(DType dtype, const Shape& shape, const std::vector<double>& values) {
  Tensor tensor(dtype, shape);
  VisitFloat(dtype, [&](auto tag) {
    using Stored = typename decltype(tag)::Type;
    for (size_t i = 0; i < values.size(); ++i) {
      tensor.mutable_data<Stored>()[i] = Narrow<Stored>(values[i]);
    }
  });
  return tensor;
}

}  // namespace convgrad::testing
