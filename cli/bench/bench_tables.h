// Writes the tables that --csv and --markdown of `bench` ask for, from entries of a report.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "cli/options/arguments.h"

namespace convgrad::cli {

// Each entry is a line, after one of names; numbers stand as the report has them.
std::string BenchCsv(const std::vector<nlohmann::ordered_json>& entries);
// Does the same for a table, where numbers are shortened.
std::string BenchMarkdown(const std::vector<nlohmann::ordered_json>& entries);

// Throws now what writing them later would throw.
void CheckBenchTables(const Arguments& arguments);
void WriteBenchTables(const Arguments& arguments,
                      const std::vector<nlohmann::ordered_json>& entries);

}  // namespace convgrad::cli
