// Flags that are about a manifest as a whole, read for every command that takes one.
#pragma once

#include "cli/manifest/manifest_plan.h"
#include "cli/options/arguments.h"

namespace convgrad::cli {

// Where outputs may lie, and flags of cases that hold for all.
ManifestOptions ParseManifestOptions(const Arguments& arguments);

// The manifest, and the files that flags name for all cases together: no case may touch them.
BatchFiles ParseBatchFiles(const Arguments& arguments);

// --match and --tag.
CaseSelection ParseSelection(const Arguments& arguments);

}  // namespace convgrad::cli
