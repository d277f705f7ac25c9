// What each element of a result should be, far more precisely than any type holds it, and how much
// a summation order may move it. The truth that `check` stands on; slow, threaded, and of bounded
// memory: it streams over elements.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "base/parallel.h"
#include "conv/geometry.h"
#include "tensor/tensor.h"

namespace convgrad {

// The sum of one element's products. Finite numbers are kept as value * 2^exponent, so that sums
// outside double's range stay comparable; the exponent is 0 unless they need it.
struct Truth {
  double high = 0;       // r = high + low, to about 2^-100 of `magnitude`; or infinity, or NaN
  double low = 0;
  double magnitude = 0;  // S: sum of |x*y| over the finite products
  double norm = 0;       // Q: square root of the sum of squares of the finite products
  int64_t terms = 0;     // K: products on the input
  int exponent = 0;
};

// r rounded once, to nearest even, to `dtype`, as a double.
double RoundTo(DType dtype, const Truth& truth);

class Oracle {
 public:
  // The operands, in the order of InfoOf(problem.op).operands, must outlive it.
  Oracle(const Problem& problem, const Tensor& first, const Tensor& second);

  // Every product is an integer times 2^unit_exponent (0 when there is no non-zero product).
  int unit_exponent() const { return unit_exponent_; }

  // visit(begin, truths) for consecutive pieces [begin, begin + truths.size()) that cover all
  // elements of the result once, from several threads at once.
  using Visit = std::function<void(int64_t begin, std::span<const Truth> truths)>;
  void ForEachPiece(const Parallel& parallel, const Visit& visit) const;

 private:
  const Problem& problem_;
  const Tensor& first_;
  const Tensor& second_;
  int unit_exponent_ = 0;
};

}  // namespace convgrad
