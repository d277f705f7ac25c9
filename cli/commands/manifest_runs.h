// `bench` and `batch` on a manifest, wherever it comes from.
#pragma once

#include "cli/manifest/manifest.h"
#include "cli/session/session.h"

namespace convgrad::cli {

ExitCode BenchCases(Session& session, const ManifestFile& file);

ExitCode BatchCases(Session& session, const ManifestFile& file);

}  // namespace convgrad::cli
