// The costs that the cases of a manifest are expected to have, by which they are dealt to shards.
#pragma once

#include <vector>

#include "cli/manifest/manifest_plan.h"
#include "cli/shards/launchers.h"

namespace convgrad::cli {

// PredictSeconds of each selected case, in their order. Reads the headers of all operands that are
// files, many at a time, since on a network's file system each takes a while. A case that can't run
// costs little; it is dealt all the same, so that one shard reports why.
std::vector<double> PredictCases(const ManifestFile& file, const ManifestOptions& options,
                                 const CaseSelection& selection);

// Which of the selected cases, in their order, `shard` runs. Every shard of a plan finds the same
// deal, as long as the headers of the operands stay what they are.
std::vector<bool> CasesOfShard(const ManifestFile& file, const ManifestOptions& options,
                               const CaseSelection& selection, const Shard& shard);

}  // namespace convgrad::cli
