// What `bench` measured, for people: a block for a case alone, a table for many.
#pragma once

#include <span>
#include <string>

#include "cli/console/console.h"
#include "cli/report/report.h"

namespace convgrad::cli {

std::string DescribeBench(const Console& console, const CaseRecord& entry);

// A row for each entry that was timed, and geometric means of the shares of those alike.
std::string BenchTable(const Console& console, std::span<const CaseRecord> entries);

}  // namespace convgrad::cli
