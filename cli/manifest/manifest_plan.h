// The first pass over a manifest: everything that makes it wrong as a whole is found before a case
// runs, and what makes a plan of it is counted and hashed. Must not know how cases are run.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/file.h"
#include "cli/manifest/manifest.h"

namespace convgrad::cli {

struct ManifestPlan {
  int64_t num_cases = 0;     // in the manifest
  int64_t num_selected = 0;  // of them
  // The hash of the identities of the selected cases, in their order.
  std::string sha256;
};

// Which cases run.
using CaseSelection = std::function<bool(const ManifestCase&)>;

// Files that the batch itself reads and writes.
struct BatchFiles {
  std::vector<NamedPath> inputs, outputs;
};

// Reads the whole manifest, each case as ParseCase does. Throws usage errors with line and column,
// also for a name that comes twice ("manifest/duplicate-name") and for a file that two cases write
// or that one reads and another writes ("manifest/same-file"). Takes some 20 bytes for each case.
ManifestPlan PlanManifest(const ManifestFile& file, const ManifestOptions& options,
                          const CaseSelection& selection, const BatchFiles& batch_files);

}  // namespace convgrad::cli
