// Measured peaks as JSON, for reports and for the cache.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "measure/peaks.h"

namespace convgrad::cli {

nlohmann::ordered_json PeaksToJson(const Peaks& peaks);

// Throws the JSON library's exceptions for anything that PeaksToJson would not have written.
Peaks PeaksFromJson(const nlohmann::ordered_json& json);

}  // namespace convgrad::cli
