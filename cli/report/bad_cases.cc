#include "cli/report/bad_cases.h"

#include <fmt/format.h>

#include <iterator>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "cli/text/environment.h"
#include "cli/text/unicode.h"

namespace convgrad::cli {
namespace {

constexpr size_t kMaxShown = 20;

// GitHub's escapes. What ends a property is told apart from what ends the message.
std::string Escape(const std::string& text, std::string_view special) {
  std::string escaped;
  for (const char letter : ToValidUtf8(text)) {
    if (special.find(letter) == std::string_view::npos) {
      escaped += letter;
    } else {
      escaped += fmt::format("%{:02X}", static_cast<unsigned char>(letter));
    }
  }
  return escaped;
}

std::string Property(const std::string& text) {
  return Escape(text, "%\r\n:,");
}

std::string Message(const std::string& text) {
  return Escape(text, "%\r\n");
}

}  // namespace

void BadCases::Add(BadCase bad) {
  ++count_;
  const int64_t index = bad.index;
  shown_.emplace(index, std::move(bad));
  if (shown_.size() > kMaxShown) shown_.erase(std::prev(shown_.end()));
}

std::string BadCases::More() const {
  const int64_t left = count_ - static_cast<int64_t>(shown_.size());
  return left == 0 ? "" : fmt::format("and {} more", left);
}

std::string BadCases::Render(const Console& console) const {
  std::string text;
  for (const auto& [index, bad] : shown_) {
    text += fmt::format("{}  {}\n", console.PaintWord(bad.status), EscapeControls(bad.name));
    if (!bad.why.empty()) text += fmt::format("  reason   {}\n", bad.why);
    if (!bad.accept.empty()) text += fmt::format("  accept   {}\n", bad.accept);
    if (!bad.repro.empty()) text += fmt::format("  repeat   {}\n", bad.repro);
  }
  if (!More().empty()) text += More() + "; --report, --junit and --events tell of all\n";
  return text;
}

std::string BadCases::GithubAnnotations(const std::string& manifest) const {
  std::string text;
  for (const auto& [index, bad] : shown_) {
    std::string place;
    if (!manifest.empty() && manifest != "-" && bad.line > 0) {
      place = fmt::format("file={},line={},", Property(manifest), bad.line);
    }
    text += fmt::format("::error {}title={}::{}\n", place, Property(bad.status + " " + bad.name),
                        Message(bad.why));
  }
  if (!More().empty()) text += fmt::format("::error title=convgrad::{}\n", More());
  return text;
}

void Show(Console& console, const BadCases& bad, const std::string& text,
          const std::string& manifest) {
  if (bad.count() == 0) {
    console.Result(text);
    return;
  }
  console.BadResult(text);
  if (Variable("GITHUB_ACTIONS") == "true") console.Announce(bad.GithubAnnotations(manifest));
}

}  // namespace convgrad::cli
