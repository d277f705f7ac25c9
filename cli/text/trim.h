// Text without the white space around it.
#pragma once

#include <string_view>

namespace convgrad::cli {

inline std::string_view Trim(std::string_view text) {
  constexpr const char* kWhiteSpace = " \t\r\n";
  const size_t first = text.find_first_not_of(kWhiteSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kWhiteSpace) - first + 1);
}

}  // namespace convgrad::cli
