// The algorithms of the precisions `double` and `exact`.
#pragma once

#include <span>

#include "conv/plan/algorithm.h"

namespace convgrad {

// Best first; the last accepts everything. Not of `standard`.
std::span<const Algorithm> PreciseAlgorithms(Precision precision);

}  // namespace convgrad
