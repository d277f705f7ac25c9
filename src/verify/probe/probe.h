// A check that needs no golden and no tolerance: a problem run on small integers, where every order
// of summation gives the same value.
#pragma once

#include <cstdint>

#include "conv/compute.h"
#include "problem/geometry.h"
#include "verify/compare/compare.h"

namespace convgrad {

// Runs `problem` (its shape and type) with `execution` on integer fills and demands the exact
// values.
CheckResult Probe(const Problem& problem, const Execution& execution, uint64_t seed);

}  // namespace convgrad
