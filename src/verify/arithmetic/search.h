// Which arithmetic made a tensor: tries model after model at the elements that tell most, and names
// the first that gives every element bit for bit, if chance would not; else says what its errors
// look like, if they look like something.
#pragma once

#include <cstdint>
#include <optional>

#include "base/parallel.h"
#include "problem/geometry.h"
#include "tensor/tensor.h"
#include "verify/arithmetic/fingerprint.h"

namespace convgrad {

struct ArithmeticSearch {
  std::optional<Fingerprint> found;
  // Models that were left out because trying them would have taken too long.
  int64_t untried = 0;
};

// The arithmetic of `made`, a result of `problem` on these operands in any float type; none where
// no model gives all its numbers, or so few of them differ from the exact sums that chance could.
// docs/design/arithmetic.md has the rules.
ArithmeticSearch FindArithmetic(const Problem& problem, const Tensor& first, const Tensor& second,
                                const Tensor& made, const Parallel& parallel);

}  // namespace convgrad
