// Comparison by the data, the quick way: results that are right, as nearly all are, are known to be
// so from coarser numbers than the oracle's best, which are asked for where a number may be an
// extreme. What comes out is the same.
#pragma once

#include <optional>

#include "verify/compare/by_data.h"

namespace convgrad {

// The tally of TallyByData, but for its odds; none unless every element passes and all odds are 1.
std::optional<Tally> TallyScreened(const DataQuestion& question, const Oracle& oracle,
                                   const CompareOptions& options, const Parallel& parallel);

}  // namespace convgrad
