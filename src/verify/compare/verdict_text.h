// A comparison's outcome in words. Must not judge: it only says what a tally holds.
#pragma once

#include "verify/compare/compare.h"
#include "verify/compare/tally.h"

namespace convgrad {

// Set policy, reason and detail of `result`, whose status and numbers are there. `exact_sums`: each
// element was held to its exact sum, rounded, whatever its data.
void ExplainByData(const Tally& tally, DType dtype, DType accumulator, bool exact_sums,
                   CheckResult& result);
void ExplainByTolerance(const Tally& tally, const Tolerance& tolerance, CheckResult& result);

}  // namespace convgrad
