// Checks that need no golden and no tolerance: a problem run on small integers, where every order
// of summation gives the same value, and the adjoint identity of the three directions.
#pragma once

#include <cstdint>

#include "base/parallel.h"
#include "conv/compute.h"
#include "problem/geometry.h"
#include "verify/compare/compare.h"

namespace convgrad {

// Runs `problem` (its shape and type) with `execution` on integer fills and demands the exact
// values.
CheckResult Probe(const Problem& problem, const Execution& execution, uint64_t seed);

// The three sides of <conv(x,w), g> = <x, backprop_input(w,g)> = <w, backprop_filter(x,g)> for the
// geometry of `problem`, whatever its op, on integer data held in the problem's type; each is exact
// while no result is rounded.
struct AdjointSides {
  double forward, backprop_input, backprop_filter;
  bool holds() const { return forward == backprop_input && forward == backprop_filter; }
};
AdjointSides AdjointIdentity(const Problem& problem, const Execution& execution, uint64_t seed);

}  // namespace convgrad
