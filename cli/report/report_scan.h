// A scan finds where the parts of a report's text stand, and holds none of them: the text stays
// where it is.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace convgrad::cli {

// One of benchmarks[].
struct IndexedEntry {
  int64_t index = -1;                 // the case's number in the plan; -1 without one
  std::optional<ExitCode> exit_code;  // none without a known one
  std::string_view text;              // of the JSON object
  bool is_part = false;               // of a case whose images are dealt to several shards
};

struct ScannedReport {
  std::string_view context, error;  // of the JSON objects; empty without them
  std::vector<IndexedEntry> entries;
};

// Throws data "report/malformed" for a text that is no JSON, or without a context. `path` names it.
ScannedReport ScanReport(const std::string& path, std::string_view text);

// Throws data "report/malformed"; says who writes what is wanted.
[[noreturn]] void RefuseReport(const std::string& path, const std::string& why);

// Throws "report/malformed" unless the context is of a report that this program knows.
void CheckReportSchema(const std::string& path, const std::string& schema);

}  // namespace convgrad::cli
