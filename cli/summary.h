// The report in Markdown, short, as job pages of CI systems show it (GITHUB_STEP_SUMMARY).
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "cli/outcome.h"

namespace convgrad::cli {

class Summary {
 public:
  // `title` names the batch: its manifest.
  explicit Summary(std::string title) : title_(std::move(title)) {}

  void Add(const CaseOutcome& outcome);
  // The counts, and the cases that did not pass: the first fifty, since pages have limits.
  std::string Render() const;

 private:
  std::string title_;
  std::map<std::string, int64_t> count_of_;  // by status
  int64_t passed_ = 0, bad_ = 0;
  double seconds_ = 0;
  std::string rows_, repros_;  // of the bad ones that are shown
};

}  // namespace convgrad::cli
