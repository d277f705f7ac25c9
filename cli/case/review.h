// A result whose golden fails or is missing, left for whoever reviews it: where it lies, and how
// far it and the golden are from the exact values. What becomes of it there is pending_golden.h's.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/case/case.h"
#include "cli/case/golden.h"
#include "cli/case/operands.h"
#include "cli/case/pending_golden.h"
#include "cli/console/console.h"

namespace convgrad::cli {

// Whoever reviews a result wants to know which is nearer to the truth: it, or the golden so far.
// Nothing where measuring would take more than a few seconds; of the golden, if it has a tensor of
// the result's shape.
PendingErrors MeasureErrors(const Operands& operands, const Result& result,
                            const std::optional<Golden>& golden, const Parallel& parallel);

// Writes the result beneath `directory` as the golden that `spec` names, marked with `errors`;
// `reading` is how a golden that waits there is read. None, and a note, where its file holds other
// tensors too. Throws I/O errors.
std::optional<PendingRecord> LeaveForReview(const std::string& directory, const CaseSpec& spec,
                                            const Problem& problem, const Tensor& result,
                                            const std::vector<InputRecord>& inputs,
                                            const PendingErrors& errors, NpyReadOptions reading,
                                            const Console& console);

}  // namespace convgrad::cli
