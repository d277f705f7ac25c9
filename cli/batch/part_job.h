// A shard computes a part of a case whose images are dealt to several: as a case of its own, and as
// its entry in the report says it to `merge`. Must not know how it is run.
#pragma once

#include <cstdint>
#include <string>

#include "cli/batch/batch_case.h"
#include "cli/case/case.h"
#include "cli/report/report.h"
#include "cli/text/json.h"

namespace convgrad::cli {

// The file of a part of the case with this number, beside the report of its shard.
std::string PartPathOf(const std::string& report, int64_t index);

// This part of a whole job, which has an identity of its own.
CaseJob PartOf(CaseJob whole, const PartOfCase& part, std::string path);

// The part as `run --images --partial` is asked for it.
CaseRequest RequestOfPart(const CaseJob& job);

SplitRecord SplitRecordOf(const CaseJob& job);

// That of an entry which has one. Throws JSON exceptions.
SplitRecord ReadSplit(const Json& entry);

// The case that parts with this record are of. Throws usage "flag/unknown", "command/unknown".
CaseRequest RequestOf(const SplitRecord& split);

}  // namespace convgrad::cli
