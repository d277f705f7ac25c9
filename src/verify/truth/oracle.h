// Knows what each element of a result should be, far more precisely than any type holds it, and how
// much a summation order may move it. The truth that `check` stands on; threaded, and of bounded
// memory: it streams over elements.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "base/parallel.h"
#include "problem/geometry.h"
#include "tensor/tensor.h"

namespace convgrad {

struct SizedSums;  // conv/precise/widened.h

// The sum of one element's products. Finite numbers are kept as value * 2^exponent, so that sums
// outside double's range stay comparable; the exponent is 0 unless they need it.
//
// high + low is the exact sum r but for 2 * (K * 2^-53)^2 * S: products are exact, in two parts for
// float64, and summed with compensation (Ogita, Rump and Oishi, "Accurate sum and dot product",
// SIAM J. Sci. Comput. 26 (2005), algorithm Dot2). `rounded` owes nothing to that: where the bound
// leaves a doubt it comes from an exact sum (order/superaccumulator.h).
struct Truth {
  double high = 0;  // the nearest double to r; or infinity, or NaN
  double low = 0;
  double magnitude = 0;  // S: sum of |x*y| over the finite products
  double norm = 0;       // Q: square root of the sum of squares of the finite products
  int64_t terms = 0;     // K: products on the input
  int exponent = 0;
  double rounded = 0;  // r rounded once to the problem's type, to nearest even; exponent 0 always
};

class Oracle {
 public:
  // The operands, in the order of InfoOf(problem.op).operands, must outlive it.
  Oracle(const Problem& problem, const Tensor& first, const Tensor& second,
         const Parallel& parallel);
  ~Oracle();

  // Every finite product is an integer times 2^unit_exponent(), the largest such power that the
  // operands' own units give. 0 when an operand has no finite element but zeros.
  int unit_exponent() const;

  // visit(begin, truths) for consecutive pieces [begin, begin + truths.size()) that cover all
  // elements of the result once, from several threads at once.
  using Visit = std::function<void(int64_t begin, std::span<const Truth> truths)>;
  void ForEachPiece(const Visit& visit) const;

  // At the price of `exact` and less than half as much again: for all elements what is enough for
  // most of them. False, and nothing is shown, for types for which this is not made, and where it
  // takes more than so much memory.
  bool ForEachSized(int64_t most_scratch_bytes,
                    const std::function<void(const SizedSums&)>& visit) const;

  Truth At(int64_t element) const;
  // The number that canon-1 gives there at the standard precision, by the definition, term by term.
  double InCanonicalOrder(int64_t element) const;
  // Every element's `rounded`, as a result of the problem.
  Tensor Rounded() const;

 private:
  class Elements;  // of one type
  template <class Stored>
  class ElementsOf;

  const Problem problem_;
  const Tensor& first_;
  const Tensor& second_;
  const Parallel& parallel_;
  std::unique_ptr<const Elements> elements_;
};

}  // namespace convgrad
