// Lines taken apart.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace convgrad::cli {

// All parts, empty ones too.
std::vector<std::string_view> SplitAt(std::string_view text, char separator);

// Those between blanks.
std::vector<std::string_view> SplitWords(std::string_view text);

// A whole number and nothing else.
std::optional<int64_t> ReadInteger(std::string_view text);

}  // namespace convgrad::cli
