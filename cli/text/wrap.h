// Text for people broken at blanks, so that it fits a terminal.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace convgrad::cli {

// `text`, which stands at column `indent` already, with no line beyond `width` where a blank allows
// it; further lines are indented likewise. No line feed at the end.
std::string Wrap(std::string_view text, size_t indent, size_t width);

// A line, or several, with `left` in a column of its own and `text` beside it.
std::string TwoColumns(const std::string& left, std::string_view text, size_t width);

}  // namespace convgrad::cli
