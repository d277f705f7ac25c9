// A case whose result is a part of a larger one: `run --partial`. The exact sum of a filter
// gradient, not rounded, or the images of a forward pass or an input gradient.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "cli/case/case.h"
#include "cli/report/report.h"
#include "cli/session/session.h"
#include "files/part_file.h"
#include "order/fixed_point.h"

namespace convgrad::cli {

// The case that the command line describes, to the file of --partial, whole or not at all.
ExitCode RunPart(Session& session);

// These say what a file's header and the report have of sums, and write their bytes.
PartSums PartSumsOf(const FixedPointSums& sums);
void WriteSums(PartWriter& writer, const FixedPointSums& sums);
PartRecord RecordOf(const std::string& path, const PartHeader& header, const std::string& sha256);

// The largest file that a part of this result can be, and how that comes about; empty where a part
// is just images.
std::string DescribePartSize(const Problem& problem);

}  // namespace convgrad::cli
