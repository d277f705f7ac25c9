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

// Throws usage "flag/no-effect" for the first flag that is about a manifest, where there is none.
void RefuseManifestFlags(const FlagValues& flags);

// Throws kNothingRan `code` for a plan without cases, unless --allow-empty is given: a green end
// would hide that the cases are gone.
void RequireCases(const Arguments& arguments, const ManifestPlan& plan,
                  const char* code = "manifest/nothing-selected");

}  // namespace convgrad::cli
