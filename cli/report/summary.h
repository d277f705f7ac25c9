// The report in Markdown, short, as job pages of CI systems show it (GITHUB_STEP_SUMMARY).
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "cli/report/outcome.h"

namespace convgrad::cli {

class SummaryPage {
 public:
  // `title` names the batch: its manifest.
  explicit SummaryPage(std::string title) : title_(std::move(title)) {}

  // In any order.
  void Add(const CaseOutcome& outcome);
  // The counts, and the cases that did not pass: the first fifty, since pages have limits.
  std::string Render() const;

 private:
  std::string Headline(int64_t total) const;

  std::string title_;
  std::map<std::string, int64_t> count_of_;  // by status
  int64_t passed_ = 0, computed_ = 0, bad_ = 0;
  double seconds_ = 0;
  // The bad ones that are shown: the first by their number in the plan.
  struct Row {
    std::string row, repro, accept;
  };
  std::multimap<int64_t, Row> shown_;
};

}  // namespace convgrad::cli
