// The machine as JSON, for reports and `info`.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "cli/record/machine.h"

namespace convgrad::cli {

// In Google Benchmark's form.
nlohmann::ordered_json CachesJson(const Machine& machine);

}  // namespace convgrad::cli
