// The report as JUnit XML, which GitLab, Jenkins and most other CI systems show. Grows by about two
// hundred bytes for each case that passed.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "cli/report/outcome.h"

namespace convgrad::cli {

class JunitReport {
 public:
  // `suite` names the batch: its manifest.
  explicit JunitReport(std::string suite) : suite_(std::move(suite)) {}

  // In any order.
  void Add(const CaseOutcome& outcome);
  std::string Render() const;

 private:
  std::string suite_;
  int64_t tests_ = 0, failures_ = 0, errors_ = 0, skipped_ = 0;
  double seconds_ = 0;
  std::multimap<int64_t, std::string> cases_;  // by their number in the plan
};

}  // namespace convgrad::cli
