// One case of a batch, run in this process from its request to its entry in the report. Must not
// know of the other cases.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/batch/batch_options.h"
#include "cli/batch/turns.h"
#include "cli/case/case.h"
#include "cli/case/case_run.h"
#include "cli/case/images.h"
#include "cli/console/console.h"
#include "cli/manifest/manifest.h"
#include "cli/record/machine.h"
#include "cli/report/report.h"
#include "order/canonical_order.h"

namespace convgrad::cli {

// The options that decide results, beside the cases.
struct Program {
  std::string version = kBuild.version;
  std::string commit = kBuild.commit;
  std::string algo = kAlgo;
};

// A shard computes this of a case whose images are dealt to several.
struct PartJob {
  PartOfCase part;
  std::string path;      // of the file that it writes
  std::string identity;  // of the case
};

struct CaseJob {
  int64_t index = 0;     // in the plan
  std::string identity;  // of the case and the program: --resume trusts nothing of another
  CaseRequest request;
  int64_t count = 1;  // ManifestCase::count
  std::vector<std::string> tags = {};
  std::optional<PartJob> part = {};  // of the case that `request` describes; none: all of it

  std::string name() const { return request.flags.Get(FlagId::kName, ""); }
};

// `index`: of the case in its plan.
CaseJob JobOf(ManifestCase one, int64_t index, const Program& program = {});

// How a case ended, as the report and the journal have it.
struct CaseEnding {
  std::string text;  // its entry, if BatchOptions::has_entries
  CaseStatus status = CaseStatus::kError;
  ExitCode exit_code = ExitCode::kInternal;
  std::string why = {};  // it is not right
  std::string repro = {};
  std::string accept = {};  // how its result becomes the golden; empty unless it waits for review
};

class CaseRunner {
 public:
  // `options` and `console` must outlive this.
  CaseRunner(std::string program, const BatchOptions& options, const Console& console);

  // An error of the case is how it ends. Throws Stopped when the process
  // was asked to end. `result`: as CaseOptions has it.
  CaseEnding Run(const CaseJob& job, Turns& turns, const ResultSource& result = nullptr) const;

  // Gives what Run() would report before it computes, or the error that it would end with.
  CaseRecord Plan(const CaseJob& job) const;

  // Before anything is known of its result.
  CaseRecord BeginEntry(const CaseJob& job) const;
  CaseEnding EndingOf(const CaseRecord& entry) const;

 private:
  void Compute(const CaseJob& job, CaseRecord& entry, Turns& turns,
               const ResultSource& result) const;
  void ComputePart(const CaseJob& job, CaseRecord& entry, Turns& turns) const;
  CaseOptions OptionsOfCases() const;
  CaseSpec LimitResources(CaseSpec spec) const;

  const std::string program_;
  const BatchOptions& options_;
  const Console& console_;
};

// The error of a case that took longer than BatchOptions::timeout.
Error TimeoutError(double timeout);

// An entry with the end that another one tells of instead of its own.
std::string WithEnding(const std::string& entry, std::string_view ended);

// A case as a command line that runs it alone.
std::string CommandLineOf(const std::string& program, const CaseRequest& request,
                          bool with_outputs);

}  // namespace convgrad::cli
