// Two saved reports of `bench` against each other; nothing runs.
#pragma once

#include <string>

#include "cli/bench/bench_options.h"
#include "cli/session/session.h"

namespace convgrad::cli {

// Tells a report from a manifest by the file's first key.
bool IsReport(const std::string& path);

// The report that the command names against --baseline. Throws usage errors, data
// "baseline/malformed", and kNothingRan "bench/nothing-compared".
ExitCode CompareReports(Session& session, const BenchOptions& options);

}  // namespace convgrad::cli
