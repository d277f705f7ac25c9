// Single elements of a result by their own terms: what settles those that a coarser bound leaves in
// doubt, in twice double's precision with the bound of compensated_runner.h, and exactly where even
// that is not enough.
#pragma once

#include <cmath>
#include <cstdint>
#include <mutex>
#include <optional>
#include <type_traits>

#include "base/checked.h"
#include "conv/plan/plan.h"
#include "conv/precise/compensated_runner.h"
#include "conv/precise/product_unit.h"
#include "order/compensated_chain.h"
#include "order/exact_sum.h"
#include "order/rounding.h"
#include "order/term_walk.h"

namespace convgrad {

// A chain of compensated additions is off by less, if its terms' absolute values are `magnitude` in
// all; products, or their errors, may underflow or not.
inline double CompensatedBound(double magnitude, int64_t num_terms, bool may_underflow) {
  const double terms = static_cast<double>(num_terms + 4), relative = terms * 0x1p-53;
  return 2 * relative * relative * magnitude + (may_underflow ? terms * 0x1p-1074 : 0);
}

// The runner's sum rounded once, if its bound says how.
template <class Stored>
std::optional<Stored> RoundCertified(const ElementSum& sum, const ProductUnit& unit) {
  // TwoSum is only exact while nothing in it overflows.
  if (!(sum.magnitude < 0x1p1000)) return std::nullopt;
  const double bound = sum.magnitude < unit.exact_below
                           ? 0
                           : CompensatedBound(sum.magnitude, sum.terms, unit.may_underflow);
  return RoundCertified<Stored>(sum.high, sum.low, bound);
}

// A visitor of TermWalk.
template <class Stored>
class BoundedChain {
 public:
  BoundedChain(const Stored* first, const Stored* second) : first_(first), second_(second) {}

  void Term(int64_t first, int64_t second) {
    const double x = Widen(first_[first]), y = Widen(second_[second]), product = x * y;
    if constexpr (kAreProductsExact) {
      num_losses_ += sum_.Add(product, 0) != 0;
    } else {
      sum_.Add(product, std::fma(x, y, -product));
    }
    size_ += std::fabs(product);
    ++terms_;
  }
  void EndBlock() {}
  void EndRun() {}

  // None where even that leaves a doubt.
  std::optional<Stored> Result() const {
    // Sums of 16-bit numbers often end in ties: one loss is all that low has.
    const bool is_exact = kAreProductsExact && num_losses_ <= 1 && std::isfinite(size_);
    return RoundCertified<Stored>(
        sum_.high(), sum_.low(),
        is_exact ? 0 : CompensatedBound(size_, terms_, /*may_underflow=*/true));
  }

 private:
  static constexpr bool kAreProductsExact = !std::is_same_v<Stored, double>;

  const Stored* first_;
  const Stored* second_;
  CompensatedSum sum_;
  double size_ = 0;
  int64_t terms_ = 0, num_losses_ = 0;
};

template <class Stored>
class SingleElements {
 public:
  // The operands, in the order of InfoOf(problem.op).operands, must outlive it.
  SingleElements(const Problem& problem, const Stored* first, const Stored* second,
                 const Parallel& parallel)
      : problem_(problem), first_(first), second_(second), parallel_(parallel), walk_(problem) {}
  explicit SingleElements(const ConvArgs& args)
      : SingleElements(args.problem, OperandOf(args, 0), OperandOf(args, 1), args.parallel) {}

  template <class Visitor>
  void Visit(int64_t element, Visitor& visitor) const {
    walk_.Visit(element, visitor);
  }
  // The result of a visitor that is made of both operands.
  template <class Visitor>
  auto ResultOf(int64_t element) const {
    Visitor visitor(first_, second_);
    walk_.Visit(element, visitor);
    return visitor.Result();
  }
  Stored Exact(int64_t element) const {
    return Narrow<Stored>(WithCanonicalNaN(ResultOf<ExactSum<Stored>>(element)));
  }
  // The same, several times as fast for most elements.
  Stored Settled(int64_t element) const {
    const std::optional<Stored> sum = ResultOf<BoundedChain<Stored>>(element);
    return sum ? *sum : Exact(element);
  }
  // It takes a pass over the operands when it is first asked for.
  const ProductUnit& Unit() const {
    std::call_once(has_unit_, [&] {
      const auto& operands = InfoOf(problem_.op).operands;
      unit_ = ProductUnit::Of(problem_.dtype, first_, problem_.NumElements(operands[0]), second_,
                              problem_.NumElements(operands[1]), parallel_);
    });
    return unit_;
  }

 private:
  static const Stored* OperandOf(const ConvArgs& args, int i) {
    return static_cast<const Stored*>(args.OperandOf(InfoOf(args.problem.op).operands[i]));
  }

  const Problem problem_;
  const Stored* const first_;
  const Stored* const second_;
  const Parallel& parallel_;
  const TermWalk walk_;
  mutable std::once_flag has_unit_;
  mutable ProductUnit unit_;
};

}  // namespace convgrad
