// The keys that `bench` adds to a case's entry in the report.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "cli/report/report.h"

namespace convgrad::cli {

// Adds the statistics of the samples to the object `timing`; milliseconds, but for counts and
// names.
void PutBenchTiming(nlohmann::ordered_json& timing, const BenchTiming& bench);

// The roofline of an entry that has one.
nlohmann::ordered_json RooflineJson(const CaseRecord& entry);

nlohmann::ordered_json ComparisonJson(const ComparisonRecord& record);

}  // namespace convgrad::cli
