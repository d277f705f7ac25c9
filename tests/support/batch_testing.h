// The end-to-end tests of batches share this: manifests of small cases, and what the reports and
// journals of their runs have in common.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "support/cli_testing.h"

namespace convgrad::testing {

using nlohmann::json;

class BatchTest : public CliTest {
 protected:
  void WriteManifest(const json& cases, const json& defaults = json::object()) const {
    const json manifest = {
        {"schema", "convgrad-manifest/1"}, {"defaults", defaults}, {"cases", cases}};
    WriteBytes(Path("m.json"), manifest.dump(1));
  }

  // A case that takes no file.
  static json Filled(const std::string& name, int seed = 0, int size = 6) {
    return {{"name", name},
            {"op", "conv2d"},
            {"padding", "SAME"},
            {"input", {{"fill", "normal"}, {"shape", {1, size, size, 3}}, {"seed", seed}}},
            {"filter", {{"fill", "normal"}, {"shape", {3, 3, 3, 4}}}}};
  }
  // One that takes forty seconds of one thread: to be ended before its end.
  static json Long(const std::string& name) {
    return With(
        Filled(name, 0, 2000),
        {{"algorithm", "reference"}, {"filter", {{"fill", "normal"}, {"shape", {15, 15, 3, 4}}}}});
  }
  static json With(json one, const json& keys) {
    one.update(keys);
    return one;
  }

  std::vector<json> Events(const std::string& name = "e.jsonl") const {
    std::vector<json> events;
    std::istringstream lines(ReadBytes(Path(name)));
    for (std::string line; std::getline(lines, line);) {
      events.push_back(json::parse(line, nullptr, false));
    }
    return events;
  }

  // A report's entries without what differs from run to run.
  static json Comparable(json report) {
    for (json& entry : report["benchmarks"]) {
      for (const char* key :
           {"real_time", "cpu_time", "bytes_per_second", "gflops", "timing", "resumed", "repro"}) {
        entry.erase(key);
      }
      if (entry.contains("run")) entry["run"].erase("peak_rss_bytes");
    }
    return {{"plan", report["context"]["plan"]}, {"benchmarks", report["benchmarks"]}};
  }

  static std::map<std::string, json> ByName(const json& report) {
    std::map<std::string, json> entries;
    for (const json& entry : report["benchmarks"]) entries[entry["name"]] = entry;
    return entries;
  }
};

}  // namespace convgrad::testing
