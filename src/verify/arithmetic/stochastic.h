// Decides if results look as if they were rounded up or down by lot, up the more often the nearer
// the upper neighbour is.
#pragma once

#include <optional>

#include "base/parallel.h"
#include "verify/arithmetic/fingerprint.h"
#include "verify/arithmetic/made.h"
#include "verify/arithmetic/terms.h"

namespace convgrad {

std::optional<Fingerprint> FindStochasticRounding(const TermSource& source, const MadeNumbers& made,
                                                  const Parallel& parallel);

}  // namespace convgrad
