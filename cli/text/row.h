// A named line of a block of text for people.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

namespace convgrad::cli {

// "  NAME         TEXT": the texts of several rows stand in one column.
inline std::string Row(std::string_view name, std::string_view text) {
  return fmt::format("  {:<13}{}\n", name, text);
}

}  // namespace convgrad::cli
