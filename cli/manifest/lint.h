// Every mistake of a manifest, not the first alone. Must not run anything.
#pragma once

#include <functional>
#include <optional>

#include "cli/manifest/manifest_plan.h"

namespace convgrad::cli {

// Tells each mistake once, those of the cases in their order; of a text that is no JSON any more,
// the last is that. Returns the plan of all cases if there is none. Files that clash are looked for
// where nothing else is wrong.
std::optional<ManifestPlan> LintManifest(const ManifestFile& file, ManifestOptions options,
                                         const BatchFiles& batch_files,
                                         const std::function<void(const Error&)>& tell);

}  // namespace convgrad::cli
