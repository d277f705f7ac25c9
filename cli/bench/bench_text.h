// The measurements of `bench` for people: a block for a case alone, a row as soon as one of many is
// measured, and what they say together.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "cli/console/console.h"
#include "cli/report/report.h"

namespace convgrad::cli {

std::string DescribeBench(const Console& console, const CaseRecord& entry);

// A table whose rows are printed one by one.
class BenchRows {
 public:
  // `name_width`: of the longest name. With counts, a column of them.
  BenchRows(size_t name_width, bool has_counts);

  std::string Head() const;
  // Empty for an entry that was not timed.
  std::string RowOf(const Console& console, const CaseRecord& entry) const;

 private:
  std::string Align(const std::vector<std::string>& row) const;

  const bool has_counts_;
  std::vector<size_t> widths_;
};

// Geometric means, counts, notes, and whether noise is in the way of the width that --ci asks for.
std::string BenchSummary(const Console& console, std::span<const CaseRecord> entries,
                         double target_width);
// Empty if there is none to warn of.
std::string NoiseWarning(const Console& console, std::span<const CaseRecord> entries,
                         double target_width);
// How many had each verdict, and the geometric mean of the ratios; empty for none.
std::string DescribeVerdicts(const Console& console,
                             const std::vector<const ComparisonRecord*>& records);

}  // namespace convgrad::cli
