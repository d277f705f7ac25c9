// Every mistake of a manifest, not the first alone. Must not run anything.
#pragma once

#include <cstdint>
#include <functional>

#include "cli/manifest/manifest_plan.h"

namespace convgrad::cli {

// Tells each mistake once, those of the cases in their order; of a text that is no JSON any more,
// the last is that. Returns how many there are. Files that clash are looked for where nothing else
// is wrong.
int64_t LintManifest(const ManifestFile& file, ManifestOptions options,
                     const BatchFiles& batch_files, const std::function<void(const Error&)>& tell);

}  // namespace convgrad::cli
