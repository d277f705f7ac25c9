// Running the cases of a manifest: small ones side by side, large ones with all threads, reading
// and writing of some while others compute. Must not know flags.
#pragma once

#include <cstdint>

#include "cli/batch/batch_options.h"
#include "cli/manifest/manifest_plan.h"
#include "cli/report/bad_cases.h"
#include "cli/session/session.h"

namespace convgrad::cli {

// How many cases of the plan run.
int64_t NumRun(const ManifestPlan& plan, const BatchOptions& options);

// How the cases of a batch ended.
struct BatchTally {
  int64_t count[kNumCaseStatuses] = {};  // by CaseStatus
  int64_t calls[kNumCaseStatuses] = {};  // the same by ManifestCase::count
  int64_t resumed = 0;
  ExitCode worst = ExitCode::kOk;
  BadCases bad;

  int64_t total() const;
};

// Runs the selected cases (those of the shard) of a manifest that PlanManifest accepted; entries go
// to session.report_writer and session.outcome_reports, if there are any. What goes wrong with a
// case is that case's end; only what concerns them all is thrown: the journal or the report can't
// be written, the manifest changed. Throws Stopped when the process was asked to end; `tally` then
// has what was done until then.
void RunBatch(Session& session, const ManifestFile& file, const ManifestOptions& manifest,
              const CaseSelection& selection, const ManifestPlan& plan, const BatchOptions& options,
              BatchTally& tally);

}  // namespace convgrad::cli
