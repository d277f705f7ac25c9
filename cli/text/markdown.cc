#include "cli/text/markdown.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "cli/text/trim.h"
#include "cli/text/wrap.h"

namespace convgrad::cli {
namespace {

// "[text](address)" at `at` as its text; moves `at` behind it. Nothing where no link is.
bool TakeLink(std::string_view text, size_t& at, std::string& plain) {
  const size_t middle = text.find("](", at);
  if (text[at] != '[' || middle == std::string_view::npos) return false;
  const size_t end = text.find(')', middle);
  const std::string_view shown = text.substr(at + 1, middle - at - 1);
  if (end == std::string_view::npos || shown.find('[') != std::string_view::npos) return false;
  plain += shown;
  at = end + 1;
  return true;
}

// Without the marks of code, links and escapes.
std::string WithoutMarks(std::string_view text) {
  std::string plain;
  bool is_code = false;
  for (size_t at = 0; at < text.size();) {
    if (text[at] == '`') {
      is_code = !is_code;
      ++at;
    } else if (text[at] == '\\' && at + 1 < text.size() && (!is_code || text[at + 1] == '|')) {
      plain += text[at + 1];
      at += 2;
    } else if (is_code || !TakeLink(text, at, plain)) {
      plain += text[at++];
    }
  }
  return plain;
}

// "| a | b |" as its cells.
std::vector<std::string> CellsOf(std::string_view line) {
  std::vector<std::string> cells;
  size_t begin = 1;
  for (size_t at = 1; at < line.size(); ++at) {
    if (line[at] != '|' || line[at - 1] == '\\') continue;
    cells.push_back(WithoutMarks(Trim(line.substr(begin, at - begin))));
    begin = at + 1;
  }
  return cells;
}

class Renderer {
 public:
  explicit Renderer(size_t width) : width_(width) {}

  void Add(std::string_view line) {
    if (line.starts_with("```")) {
      EndParagraph();
      is_code_ = !is_code_;
    } else if (is_code_) {
      text_ += fmt::format("  {}\n", line);
    } else if (line.starts_with('|')) {
      EndParagraph();
      AddRow(line);
    } else if (line.empty()) {
      EndParagraph();
      header_.clear();
      if (!text_.empty() && !text_.ends_with("\n\n")) text_ += "\n";
    } else if (line.starts_with('#')) {
      text_ += fmt::format("{}\n", WithoutMarks(Trim(line.substr(line.find_first_not_of('#')))));
    } else {
      if (line.starts_with("- ")) EndParagraph();
      paragraph_.append(paragraph_.empty() ? "" : " ").append(WithoutMarks(Trim(line)));
    }
  }

  std::string Finish() {
    EndParagraph();
    text_.erase(text_.find_last_not_of('\n') + 1);
    return text_ + "\n";
  }

 private:
  void EndParagraph() {
    if (paragraph_.empty()) return;
    text_ += Wrap(paragraph_, paragraph_.starts_with("- ") ? 2 : 0, width_) + "\n";
    paragraph_.clear();
  }

  // The table's first row says what its cells are, the second one is a line.
  void AddRow(std::string_view line) {
    const std::vector<std::string> cells = CellsOf(line);
    if (header_.empty()) {
      header_ = cells;
      return;
    }
    if (line.find_first_not_of("|-: ") == std::string_view::npos) return;
    std::string rest;
    for (size_t i = 1; i < cells.size(); ++i) {
      if (cells[i].empty()) continue;
      rest += rest.empty() ? "" : "; ";
      const bool is_named = header_.size() > 2 && i < header_.size() && !header_[i].empty() &&
                            header_[i] != "meaning";
      rest += is_named ? fmt::format("{}: {}", header_[i], cells[i]) : cells[i];
    }
    text_ += TwoColumns(cells.empty() ? "" : cells.front(), rest, width_);
  }

  size_t width_;
  bool is_code_ = false;
  std::string text_, paragraph_;
  std::vector<std::string> header_;
};

}  // namespace

std::string RenderMarkdown(std::string_view page, size_t width) {
  Renderer renderer(width);
  while (!page.empty()) {
    const size_t end = std::min(page.find('\n'), page.size());
    renderer.Add(page.substr(0, end));
    page.remove_prefix(std::min(end + 1, page.size()));
  }
  return renderer.Finish();
}

std::string_view SectionOf(std::string_view page, std::string_view title) {
  const std::string heading = fmt::format("\n## {}\n", title);
  const size_t begin = page.find(heading);
  if (begin == std::string_view::npos) return {};
  const size_t end = std::min(page.find("\n## ", begin + heading.size() - 1), page.size());
  return page.substr(begin + 1, end - begin);
}

}  // namespace convgrad::cli
