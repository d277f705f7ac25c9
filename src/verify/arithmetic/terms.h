// The terms of one element of a result, gathered once from both operands and laid out in any order
// that a kernel's loops may take. Must not know how they are added.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "order/term_walk.h"
#include "tensor/tensor.h"
#include "verify/arithmetic/model.h"

namespace convgrad {

// All places that the three loops of a sum visit, those without a term among them.
struct Terms {
  std::array<int64_t, 3> extents;
  std::vector<double> x, y;  // zeros where there is no term
  std::vector<uint8_t> exists;
  int64_t count = 0;  // of terms

  double exact = 0;  // the sum, but for a few units of long double
  double norm = 0;   // root of the sum of squares
  double magnitude = 0;
};

class TermSource {
 public:
  // Both operands must outlive it.
  TermSource(const Problem& problem, const Tensor& first, const Tensor& second);

  std::array<int64_t, 3> extents() const { return extents_; }
  int64_t num_places() const { return extents_[0] * extents_[1] * extents_[2]; }
  // Without the exact sum and the sizes, unless they are asked for.
  Terms Of(int64_t element, bool measured = true) const;

  // The nests of loops that differ on this problem, the usual ones first.
  std::vector<LoopOrder> Orders() const;
  // True if padding takes places that a kernel might count.
  bool HasPadding() const;
  bool is_filter_gradient() const { return direction_ == Direction::kBackpropFilter; }

 private:
  template <class Stored, bool kMeasured>
  class Gatherer;

  Problem problem_;
  const Tensor& first_;
  const Tensor& second_;
  Direction direction_;
  std::array<int64_t, 3> extents_;
  TermWalk walk_;
};

// Terms in one sequence, rounded as it says.
struct Arranged {
  std::vector<double> x, y;
  // Where the turns of the outermost loop, and of the two outermost, begin.
  std::vector<int64_t> outer, outer_two;

  int64_t size() const { return static_cast<int64_t>(x.size()); }
};
Arranged Arrange(const Terms& terms, const Sequence& sequence);

}  // namespace convgrad
