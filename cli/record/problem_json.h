// A problem as reports show it.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "problem/geometry.h"

namespace convgrad::cli {

nlohmann::ordered_json ProblemJson(const Problem& problem);

}  // namespace convgrad::cli
