// Decides if the entry that an earlier run left of a case is still true.
#pragma once

#include <optional>
#include <string>

#include "cli/batch/batch_case.h"
#include "cli/case/case.h"
#include "cli/console/console.h"
#include "cli/report/report.h"

namespace convgrad::cli {

struct ResumedEntry {
  std::string text;  // the entry with `resumed`: true, as this run's report has it
  CaseStatus status;
  ExitCode exit_code;
};

// `line` is the journal's entry with the identity that the case has now, so version and flags are
// the same. None unless it tells of a result, right or wrong, and all inputs, the golden and its
// record, and the output still have the data that it names.
std::optional<ResumedEntry> ResumeFrom(const std::string& line, const CaseSpec& spec,
                                       int64_t index);

// A part of a case is resumed likewise: not unless its file is the one of which the entry tells,
// and what the operands, which are read for it, give now.
std::optional<ResumedEntry> ResumePart(const std::string& line, const CaseJob& job,
                                       const Console& console);

}  // namespace convgrad::cli
