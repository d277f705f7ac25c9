// The costs that the cases of a manifest are expected to have, by which they and their images are
// dealt to shards.
#pragma once

#include <map>
#include <vector>

#include "cli/case/images.h"
#include "cli/manifest/manifest_plan.h"
#include "cli/shards/deal.h"
#include "cli/shards/launchers.h"

namespace convgrad::cli {

// PredictSeconds of each selected case, in their order, and how many images those have whose parts
// `merge` can put together: a filter gradient's at precision exact, any of the others, unless the
// check of the result needs more than a golden's bits. Reads the headers of all operands that are
// files, many at a time, since on a network's file system each takes a while. A case that can't run
// costs little; it is dealt all the same, so that one shard reports why.
std::vector<CaseWork> PredictCases(const ManifestFile& file, const ManifestOptions& options,
                                   const CaseSelection& selection);

// Which of the selected cases, in their order, a shard runs, and of which of these only a part.
struct CasesOfShard {
  std::vector<bool> is_ours;
  std::map<int64_t, PartOfCase> parts;
};

// Every shard of a plan finds the same deal, as long as the headers of the operands stay what they
// are. `split`: --split-images.
CasesOfShard FindCasesOfShard(std::span<const CaseWork> cases, const Shard& shard, bool split);

// The parts of a case with so many images, in the order of its shares.
std::vector<PartOfCase> PartsOfCase(std::span<const CaseShare> shares);

}  // namespace convgrad::cli
