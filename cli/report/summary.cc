#include "cli/report/summary.h"

#include <fmt/format.h>

#include <iterator>
#include <string_view>

#include "cli/text/unicode.h"

namespace convgrad::cli {
namespace {

constexpr size_t kMaxRows = 50;

// Text that no character of is taken for Markdown or HTML.
std::string Plain(const std::string& text) {
  constexpr std::string_view kSpecial = "&<>\"|*_`[]\\~#$@!:";
  std::string plain;
  for (const char letter : ToValidUtf8(text)) {
    if (kSpecial.find(letter) == std::string_view::npos) {
      plain += letter;
    } else {
      plain += fmt::format("&#{};", static_cast<int>(letter));
    }
  }
  return plain;
}

std::string Folded(const char* title, const std::string& lines) {
  return fmt::format("\n<details><summary>{}</summary>\n\n<pre>\n{}</pre>\n\n</details>\n", title,
                     lines);
}

}  // namespace

void SummaryPage::Add(const CaseOutcome& outcome) {
  ++count_of_[outcome.status];
  seconds_ += outcome.seconds;
  if (outcome.ending == Ending::kPassed) ++passed_;
  if (outcome.ending == Ending::kComputed) ++computed_;
  if (outcome.ending != Ending::kFailed && outcome.ending != Ending::kError) return;
  ++bad_;
  shown_.emplace(
      outcome.index,
      Row{fmt::format("| <code>{}</code> | {} | {}{} |\n", Plain(outcome.name),
                      Plain(outcome.status), Plain(outcome.message),
                      outcome.cause.empty() ? "" : "<br>" + Plain(outcome.cause)),
          Plain(outcome.repro) + "\n", outcome.accept.empty() ? "" : Plain(outcome.accept) + "\n"});
  if (shown_.size() > kMaxRows) shown_.erase(std::prev(shown_.end()));
}

std::string SummaryPage::Headline(int64_t total) const {
  if (bad_ > 0) return fmt::format("{} of {} cases did not pass", bad_, total);
  std::string text = fmt::format("{} of {} cases passed", passed_, total);
  if (computed_ > 0) text += fmt::format(", {} had no golden to compare with", computed_);
  return text;
}

std::string SummaryPage::Render() const {
  int64_t total = 0;
  std::string counts;
  for (const auto& [status, count] : count_of_) {
    total += count;
    counts += fmt::format("| {} | {} |\n", status, count);
  }
  std::string text = fmt::format("### convgrad {}: {}\n\n", Plain(title_), Headline(total));
  text += fmt::format("| status | cases |\n|---|---:|\n{}\n{:.1f} s of work in all.\n", counts,
                      seconds_);
  if (bad_ == 0) return text;
  std::string rows, repros, accepts;
  for (const auto& [index, row] : shown_) {
    rows += row.row;
    repros += row.repro;
    accepts += row.accept;
  }
  text += fmt::format("\n| case | status | why |\n|---|---|---|\n{}", rows);
  const int64_t left = bad_ - static_cast<int64_t>(shown_.size());
  if (left > 0) text += fmt::format("\nand {} more.\n", left);
  if (!accepts.empty()) text += Folded("Accept the results that wait for review", accepts);
  return text + Folded("Repeat them alone", repros);
}

}  // namespace convgrad::cli
