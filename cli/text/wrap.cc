#include "cli/text/wrap.h"

#include <algorithm>

namespace convgrad::cli {

std::string Wrap(std::string_view text, size_t indent, size_t width) {
  const size_t room = width > indent ? width - indent : 1;
  std::string lines;
  while (text.size() > room) {
    size_t blank = text.rfind(' ', room);
    if (blank == std::string_view::npos) blank = text.find(' ');
    if (blank == std::string_view::npos) break;
    lines.append(text.substr(0, blank)).append("\n").append(indent, ' ');
    text.remove_prefix(blank + 1);
  }
  return lines.append(text);
}

std::string TwoColumns(const std::string& left, std::string_view text, size_t width) {
  const size_t column = std::min<size_t>(30, width * 3 / 10);
  std::string lines = "  " + left;
  if (text.empty()) return lines + "\n";
  if (left.size() + 4 > column) {
    lines.append("\n").append(column, ' ');
  } else {
    lines.append(column - left.size() - 2, ' ');
  }
  return lines + Wrap(text, column, width) + "\n";
}

}  // namespace convgrad::cli
