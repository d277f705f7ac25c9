// The profile of a comparison's errors as the report has it.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "verify/where/error_profile.h"

namespace convgrad::cli {

// Without the worst elements.
nlohmann::ordered_json ProfileJson(const ErrorProfile& profile);

}  // namespace convgrad::cli
