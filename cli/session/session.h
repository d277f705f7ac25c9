// One run of the tool: what was typed, what is printed, what is reported.
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cli/console/console.h"
#include "cli/options/arguments.h"
#include "cli/report/outcome_reports.h"
#include "cli/report/report.h"
#include "cli/report/report_writer.h"

namespace convgrad::cli {

class PageData;

struct Session {
  Arguments arguments;
  Console console;
  Report report;
  bool report_is_written = false;  // by the command itself
  // Writes the report of a batch while cases finish.
  std::unique_ptr<ReportWriter> report_writer = nullptr;
  std::unique_ptr<OutcomeReports> outcome_reports = nullptr;
  // Holds what --html shows of a batch or a merge; other commands show their report.
  std::unique_ptr<PageData> page{};
};

// Runs one case of several: whatever it throws is shown and goes into its entry of the report, and
// the next case can follow, unless the process was asked to end (StopRequested()).
ExitCode AttemptCase(Session& session, const std::function<ExitCode()>& step);

// The error of a process that was asked to end; `so_far` is added to the reason.
Error InterruptedError(const std::string& so_far = "", const std::string& fix = "");

// Turns what was thrown into an Error: internal unless it is one already.
Error Translate(const std::exception& exception);

// The error of a case that took too long, which is a status of its own.
inline constexpr const char* kTimeoutCode = "case/timeout";

// Ends the entry of a case with `error`.
void RecordError(CaseRecord& entry, const Error& error);

// The whole tool: dispatches, turns whatever is thrown into one line on standard error and an entry
// of the report, writes the report, and returns the exit code. `words` as main() got them.
int RunTool(std::vector<std::string> words);

}  // namespace convgrad::cli
