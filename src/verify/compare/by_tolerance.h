// Two tensors compared by bits or by a user's tolerance: no operands are needed.
#pragma once

#include "base/parallel.h"
#include "tensor/tensor.h"
#include "verify/compare/error_sink.h"
#include "verify/compare/tally.h"
#include "verify/compare/tolerance.h"
#include "verify/where/where.h"

namespace convgrad {

// Both have one shape, and one type or are floats of two (DistanceIn has the rule). `errors` takes
// each element's error by the measure of the tolerance.
Tally TallyByTolerance(const Tensor& actual, const Tensor& expected, const Tolerance& tolerance,
                       const Layout& layout, ErrorSink& errors, const Parallel& parallel);

}  // namespace convgrad
