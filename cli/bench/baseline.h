// An earlier report to compare with: finds a case in it and judges. Must not measure anything.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "cli/report/report.h"

namespace convgrad::cli {

class Baseline {
 public:
  // Reads a report of `bench`. Throws I/O errors, and data "baseline/malformed".
  Baseline(const std::string& path, double tolerance);

  // `entry` against the case of the same name and number of threads: without one it is new. Where
  // it was another problem, another machine, or measured in another way, nothing is concluded, and
  // the record says why.
  ComparisonRecord Judge(const CaseRecord& entry, const std::string& cpu_model) const;

 private:
  const nlohmann::ordered_json* Find(const CaseRecord& entry) const;

  std::string path_;
  double tolerance_;
  std::shared_ptr<const nlohmann::ordered_json> report_;
};

}  // namespace convgrad::cli
