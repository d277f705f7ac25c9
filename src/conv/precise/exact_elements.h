// The facts about operands that a bound on a sum's error needs, and the way out where it leaves a
// doubt: single elements, exactly.
#pragma once

#include <cmath>
#include <cstdint>
#include <optional>

#include "base/checked.h"
#include "conv/precise/compensated_engine.h"
#include "conv/precise/product_unit.h"
#include "order/exact_sum.h"
#include "order/rounding.h"
#include "order/term_walk.h"

namespace convgrad {

template <class Stored>
class ExactElements {
 public:
  // The operands, in the order of InfoOf(problem.op).operands, must outlive it.
  ExactElements(const Problem& problem, const Stored* first, const Stored* second,
                const Parallel& parallel)
      : walk_(problem), first_(first), second_(second) {
    const auto& operands = InfoOf(problem.op).operands;
    unit_ = ProductUnit(problem.dtype, first_, *CheckedProduct(problem.ShapeOf(operands[0])),
                        second_, *CheckedProduct(problem.ShapeOf(operands[1])), parallel);
    exact_size_ = ProductsUnderflow() ? 0 : std::ldexp(0.5, unit_ + 53);
  }
  explicit ExactElements(const ConvArgs& args)
      : ExactElements(args.problem, OperandOf(args, 0), OperandOf(args, 1), args.parallel) {}

  // The largest power of two of which every finite product is a multiple, as an exponent.
  int unit() const { return unit_; }

  // True if no addition of a sum in double was rounded, in whatever order: all are multiples of one
  // unit, and not too many. `size` is S as computed.
  bool IsExactInDouble(double size) const { return size < exact_size_; }
  // True if a product, or its error, may be no multiple of double's least number.
  bool ProductsUnderflow() const { return unit_ < -1074; }

  Stored Sum(int64_t element) const {
    ExactSum<Stored> sum(first_, second_);
    walk_.Visit(element, sum);
    return Narrow<Stored>(WithCanonicalNaN(sum.Result()));
  }

  template <class Visitor>
  void Visit(int64_t element, Visitor& visitor) const {
    walk_.Visit(element, visitor);
  }
  const Stored* first() const { return first_; }
  const Stored* second() const { return second_; }

 private:
  static const Stored* OperandOf(const ConvArgs& args, int i) {
    return static_cast<const Stored*>(args.OperandOf(InfoOf(args.problem.op).operands[i]));
  }

  TermWalk walk_;
  const Stored* first_;
  const Stored* second_;
  int unit_;
  double exact_size_;
};

// The sum rounded once, if its bound (compensated_engine.h) says how.
template <class Rounded, class Stored>
std::optional<Rounded> RoundCertified(const ElementSum& sum, const ExactElements<Stored>& exact) {
  // TwoSum is only exact while nothing in it overflows.
  if (!(sum.magnitude < 0x1p1000)) return std::nullopt;
  double bound = 0;
  if (!exact.IsExactInDouble(sum.magnitude)) {
    const double terms = static_cast<double>(sum.terms + 4);
    bound = 2 * (terms * 0x1p-53) * (terms * 0x1p-53) * sum.magnitude;
    if (exact.ProductsUnderflow()) bound += terms * 0x1p-1074;
  }
  return RoundCertified<Rounded>(sum.high, sum.low, bound);
}

}  // namespace convgrad
