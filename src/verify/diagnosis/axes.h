// A tensor's axes by meaning, whatever the layout, and the computation in which one tensor is seen
// otherwise: what hypotheses about places draw on.
#pragma once

#include <array>
#include <cstdint>

#include "problem/geometry.h"
#include "verify/diagnosis/hypotheses.h"

namespace convgrad {

using Index = std::array<int64_t, 4>;

// A tensor's axes by meaning: image, row, column, channel; a filter's kernel row, kernel column,
// input channel, and output channel or multiplier.
struct Axes {
  Index sizes;
  std::array<int, 4> place;  // of each in the tensor's shape

  int64_t At(const Index& index) const;
  Index IndexOf(int64_t element) const;
};

Axes AxesOf(const Problem& problem, Role role);

// How sentences call the tensor: "the golden" if it is the result.
const char* SubjectOf(const Problem& problem, Role role);

// The role that the result has in the forward operation.
Role ResultRole(const Problem& problem);
// True if the operation has a tensor of this role, the result included.
bool HasRole(const Problem& problem, Role role);

// The computation with one tensor, operand or result, seen through `source`.
Alternative WithSource(const Problem& problem, Role role, Source source);

}  // namespace convgrad
