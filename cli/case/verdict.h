// A comparison's outcome in words.
#pragma once

#include <string>

#include "cli/console/console.h"
#include "verify/compare/compare.h"

namespace convgrad::cli {

// Several lines: the verdict with its reason and `title`, the counts, the worst elements, where
// they are, what would pass. Values print as their types read them back.
std::string DescribeCheck(const Console& console, const std::string& title,
                          const CheckResult& check);

}  // namespace convgrad::cli
