// The losses of real sums of an element's own terms, one term after another in orders that kernels
// take and in those that lose most. It is what odds that take roundings for independent cannot
// know: small terms lost one after another against a large sum, terms that are all alike, sums that
// are cut off. Must not judge.
#pragma once

#include <cstdint>
#include <span>

#include "order/term_walk.h"
#include "tensor/tensor.h"
#include "verify/truth/float_format.h"
#include "verify/truth/oracle.h"

namespace convgrad {

// In the units of the truth.
struct ChainLosses {
  double natural = 0;  // the largest of orders that do not look at the terms
  double any = 0;      // the largest of all chains: by size, by sign, cut off
  uint32_t same = 0;   // bit i: PlainOrders()[i], rounded to the stored type, is the number itself
};

// The orders that do not look at the terms, in words that follow "one after another".
std::span<const char* const> PlainOrders();

class Chains {
 public:
  // All must outlive it; sums are rounded to `accumulator`.
  Chains(const Problem& problem, const Tensor& first, const Tensor& second,
         const FloatFormat& accumulator);

  // `value` is the number that is judged, of type `stored`.
  ChainLosses LossesAt(int64_t element, const Truth& truth, double value, DType stored) const;

 private:
  const Problem& problem_;
  const Tensor& first_;
  const Tensor& second_;
  const FloatFormat accumulator_;
  TermWalk walk_;
};

}  // namespace convgrad
