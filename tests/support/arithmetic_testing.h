// The tests of named arithmetics share this: layers of normal numbers, kernels' roundings and sums
// as their makers write them, and the name that is found for what they made.
#pragma once

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "support/arithmetic_kernel.h"
#include "support/diagnosis_testing.h"
#include "verify/arithmetic/search.h"

namespace convgrad::testing {

using Terms = std::vector<MadeTerm>;

inline double BF16(double value) {
  return Widen(Narrow<BFloat16>(value));
}
inline double F16(double value) {
  return Widen(Narrow<Float16>(value));
}

inline Tensor NormalTensor(DType dtype, const Shape& shape, uint64_t seed,
                           bool one_signed = false) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  Tensor tensor(dtype, shape);
  VisitFloat(dtype, [&](auto tag) {
    using Stored = typename decltype(tag)::Type;
    for (int64_t i = 0; i < tensor.num_elements(); ++i) {
      const double value = normal(random);
      tensor.mutable_data<Stored>()[i] = Narrow<Stored>(one_signed ? std::fabs(value) : value);
    }
  });
  return tensor;
}

struct Layer {
  Problem problem;
  Operands operands;

  Tensor Made(DType stored, const MadeSum& sum) const {
    return ArithmeticKernel(problem, operands).Run(stored, sum);
  }
};

inline Layer MakeLayer(Op op, DType dtype, const Shape& input, const Shape& filter,
                       uint64_t seed = 1, bool one_signed = false) {
  ConvSpec spec;
  spec.op = Op::kConv2D;
  spec.dtype = dtype;
  spec.input = input;
  spec.filter = filter;
  Problem problem = MakeProblem(spec);
  problem.op = op;
  const auto& roles = InfoOf(op).operands;
  return {problem,
          {NormalTensor(dtype, problem.ShapeOf(roles[0]), seed, one_signed),
           NormalTensor(dtype, problem.ShapeOf(roles[1]), seed + 1000, one_signed)}};
}

inline std::string NameOf(const Layer& layer, const Tensor& made) {
  const ArithmeticSearch search =
      FindArithmetic(layer.problem, layer.operands.first, layer.operands.second, made, Parallel(2));
  return search.found ? search.found->kind.name + std::string(": ") + search.found->words
                      : "nothing";
}

inline float InFloat32(const Terms& terms, size_t begin, size_t end) {
  float sum = 0;
  for (size_t i = begin; i < end; ++i) {
    sum += static_cast<float>(terms[i].x) * static_cast<float>(terms[i].y);
  }
  return sum;
}
inline float InFloat32(const Terms& terms) {
  return InFloat32(terms, 0, terms.size());
}

inline float Lanes(const Terms& terms, size_t width, bool fused) {
  std::vector<float> lanes(width);
  for (size_t i = 0; i < terms.size(); ++i) {
    const auto x = static_cast<float>(terms[i].x), y = static_cast<float>(terms[i].y);
    lanes[i % width] = fused ? std::fma(x, y, lanes[i % width]) : lanes[i % width] + x * y;
  }
  for (size_t half = width / 2; half > 0; half /= 2) {
    for (size_t i = 0; i < half; ++i) lanes[i] += lanes[i + half];
  }
  return lanes[0];
}

inline double Keep(double value) {
  return static_cast<float>(value);
}

// Groups of products and the sum so far as whole numbers of the largest one's last kept bit.
inline MadeSum MatrixUnit(size_t group, int extra_bits) {
  return [=](const Terms& terms) {
    double sum = 0;
    for (size_t begin = 0; begin < terms.size(); begin += group) {
      const size_t end = std::min(terms.size(), begin + group);
      int largest = sum == 0 ? -1000 : std::ilogb(sum);
      for (size_t i = begin; i < end; ++i) {
        if (terms[i].x == 0 || terms[i].y == 0) continue;
        largest = std::max(largest, std::ilogb(terms[i].x) + std::ilogb(terms[i].y));
      }
      const int last = largest - 23 - extra_bits;
      auto whole = static_cast<int64_t>(std::ldexp(sum, -last));
      for (size_t i = begin; i < end; ++i) {
        whole += static_cast<int64_t>(std::ldexp(terms[i].x * terms[i].y, -last));
      }
      int bits = 0;  // beyond float32's
      while (std::llabs(whole) >> bits >= int64_t{1} << 24) ++bits;
      sum = std::ldexp(static_cast<double>(whole / (int64_t{1} << bits)), last + bits);
    }
    return sum;
  };
}

}  // namespace convgrad::testing
