// Terms of a filter gradient one by one: those of an operand's numbers that slices leave a rest of,
// and of infinite and NaN ones. Slow, for every data. Must not know how numbers are cut.
#pragma once

#include "base/parallel.h"
#include "conv/parts/slices.h"
#include "order/fixed_point.h"
#include "problem/geometry.h"

namespace convgrad {

// Both operands of a filter gradient, cut.
template <class Stored>
struct CutOperands {
  const Stored* input;
  const Stored* out_backprop;
  const Slices& input_slices;
  const Slices& out_slices;
};

// Adds to the sums all that the products of slices lack: rest * number for each rest of the input,
// and slices * rest for each of out_backprop. Sums with an infinite or NaN term are marked.
template <class Stored>
void AddSingleTerms(const Problem& problem, const CutOperands<Stored>& operands,
                    const Parallel& parallel, FixedPointSums& sums);

}  // namespace convgrad
