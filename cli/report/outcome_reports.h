// The flags --junit and --summary: gathers outcomes while cases finish, in whatever order, and
// writes both files at the end.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "cli/options/arguments.h"
#include "cli/report/junit.h"
#include "cli/report/summary.h"

namespace convgrad::cli {

class OutcomeReports {
 public:
  // `title` names the batch. Throws the errors that writing the files would throw.
  OutcomeReports(const Arguments& arguments, const std::string& title);

  // One of benchmarks[], as JSON text.
  void Add(std::string_view entry);

  void Write() const;

 private:
  std::optional<std::string> junit_path_, summary_path_;
  JunitReport junit_;
  SummaryPage summary_;
};

}  // namespace convgrad::cli
