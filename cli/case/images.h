// The images of a case's batch, alone or in smaller batches: --invariance and --actual-parts.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "cli/case/case.h"
#include "files/tensor_file.h"
#include "verify/probe/invariance.h"

namespace convgrad::cli {

// Says whether one of the flags is given; throws usage where the operation has no images to part,
// or someone's results lack their parts.
bool ParseInvariance(const FlagValues& flags, const OpInfo& op);

// The files of --actual-parts.
std::vector<std::string> ParseActualParts(const FlagValues& flags);

// These files, read.
std::vector<StoredTensor> ReadParts(const CaseSpec& spec, const NpyReadOptions& options);

// The verdict on them beside `whole`, someone's result of the batch; throws I/O if one has changed
// since it was read.
CheckResult CompareParts(const Problem& problem, const Tensor& whole,
                         std::span<const std::string> names, std::span<const StoredTensor> files,
                         const Parallel& parallel);

}  // namespace convgrad::cli
