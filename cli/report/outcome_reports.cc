#include "cli/report/outcome_reports.h"

#include "base/output_file.h"
#include "cli/text/json.h"

namespace convgrad::cli {
namespace {

std::optional<std::string> PathOf(const Arguments& arguments, FlagId id) {
  const std::string* path = arguments.Find(id);
  if (path == nullptr) return std::nullopt;
  CheckOutputPath(*path);
  return *path;
}

}  // namespace

OutcomeReports::OutcomeReports(const Arguments& arguments, const std::string& title)
    : junit_path_(PathOf(arguments, FlagId::kJunit)),
      summary_path_(PathOf(arguments, FlagId::kSummary)),
      junit_(title),
      summary_(title) {}

void OutcomeReports::Add(std::string_view entry) {
  if (!junit_path_ && !summary_path_) return;
  const CaseOutcome outcome = OutcomeOf(ParseJson(entry));
  if (junit_path_) junit_.Add(outcome);
  if (summary_path_) summary_.Add(outcome);
}

void OutcomeReports::Write() const {
  if (junit_path_) WriteTextFile(*junit_path_, junit_.Render());
  if (summary_path_) WriteTextFile(*summary_path_, summary_.Render());
}

}  // namespace convgrad::cli
