// Guesses what a golden of another shape than the result's may be: a tensor in another layout,
// another tensor of the same problem, the result of other attributes.
#pragma once

#include <string>

#include "problem/geometry.h"
#include "tensor/tensor.h"

namespace convgrad {

// A sentence that says what to do, or "" where nothing is recognised.
std::string RecogniseShape(const Problem& problem, const Shape& golden);

}  // namespace convgrad
