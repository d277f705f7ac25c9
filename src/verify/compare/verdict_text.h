// A comparison's outcome in words. Must not judge: it only says what a tally holds.
#pragma once

#include "verify/compare/compare.h"
#include "verify/compare/tally.h"
#include "verify/odds/odds.h"

namespace convgrad {

// Set policy, reason and detail of `result`, whose status and numbers are there. `dtype` is that of
// anyone's tensor, `accumulator` what its sums are rounded to. `exact_sums`: each element was held
// to its exact sum, rounded, whatever its data.
void ExplainByData(const Tally& tally, const OddsVerdict& odds, DType dtype,
                   const FloatFormat& accumulator, bool exact_sums, CheckResult& result);
void ExplainByTolerance(const Tally& tally, const Tolerance& tolerance, CheckResult& result);

}  // namespace convgrad
