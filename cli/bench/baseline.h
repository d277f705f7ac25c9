// An earlier report to compare with: finds a case in it and judges. Must not measure anything.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "cli/report/report.h"

namespace convgrad::cli {

class Baseline {
 public:
  // Reads a report of `bench`. Throws I/O errors, and data "baseline/malformed".
  Baseline(const std::string& path, double tolerance);

  const std::string& path() const { return path_; }

  // Its benchmarks[], and the machine it was measured on.
  const nlohmann::ordered_json& entries() const;
  std::string cpu_model() const;
  // Why it is not whole; empty where its `bench` ended well.
  std::string error() const;

  // The case of the name and number of threads of `entry`; null without one.
  const nlohmann::ordered_json* Find(const nlohmann::ordered_json& entry) const;

  // `entry`, measured by `bench` and as the report has it, against the case of the same name and
  // number of threads: without one it is new. Where it was another problem, another machine, or
  // measured in another way, nothing is concluded, and the record says why.
  ComparisonRecord Judge(const nlohmann::ordered_json& entry, const std::string& cpu_model) const;

 private:
  std::string path_;
  double tolerance_;
  std::shared_ptr<const nlohmann::ordered_json> report_;
};

// A text inside an entry, empty where there is none.
std::string TextAt(const nlohmann::ordered_json& json, const char* pointer);
// An entry's number of threads.
int64_t ThreadsOf(const nlohmann::ordered_json& entry);

}  // namespace convgrad::cli
