#include "cli/report/junit.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/record/machine.h"
#include "cli/text/unicode.h"

namespace convgrad::cli {
namespace {

// XML 1.0 has no way at all to write control characters, U+FFFE and U+FFFF: like bytes that are no
// UTF-8, they appear as escapes.
std::string Xml(const std::string& text) {
  std::string xml;
  const std::string valid = ToValidUtf8(text);
  for (size_t at = 0; at < valid.size(); ++at) {
    const char letter = valid[at];
    if (valid.compare(at, 2, "\xef\xbf") == 0 &&
        static_cast<unsigned char>(valid[at + 2]) >= 0xbe) {
      xml += valid[at + 2] == '\xbe' ? "\\u{fffe}" : "\\u{ffff}";
      at += 2;
      continue;
    }
    switch (letter) {
      case '&': xml += "&amp;"; break;
      case '<': xml += "&lt;"; break;
      case '>': xml += "&gt;"; break;
      case '"': xml += "&quot;"; break;
      default: xml += letter;
    }
  }
  return xml;
}

// Jenkins groups by it: the folder of the case's name, "block1" of "block1/dw".
std::string ClassOf(const std::string& suite, const std::string& name) {
  const size_t slash = name.rfind('/');
  if (slash == std::string::npos || slash == 0) return suite;
  std::string folder = name.substr(0, slash);
  std::replace(folder.begin(), folder.end(), '/', '.');
  return folder;
}

// GitLab shows this text alone, so it holds all that there is to say.
std::string BodyOf(const CaseOutcome& outcome) {
  std::string body = Xml(fmt::format("{}: {}", outcome.status, outcome.message));
  for (const std::string& line : outcome.detail) body += "\n" + Xml(line);
  return body + "\nrepeat alone: " + Xml(outcome.repro);
}

std::string ElementOf(const CaseOutcome& outcome) {
  const std::string attributes =
      fmt::format("message=\"{}\" type=\"{}\"", Xml(outcome.message), Xml(outcome.code));
  switch (outcome.ending) {
    case Ending::kPassed:
      // A pass that has something to say, such as SUSPECT.
      return outcome.message.empty() ? ""
                                     : fmt::format("<system-out>{}</system-out>", BodyOf(outcome));
    case Ending::kFailed:
      return fmt::format("<failure {}>{}</failure>", attributes, BodyOf(outcome));
    case Ending::kError: return fmt::format("<error {}>{}</error>", attributes, BodyOf(outcome));
    // Computed, but the comparison that would make it a test was not to be had.
    case Ending::kComputed:
    case Ending::kSkipped:
      return fmt::format("<skipped message=\"{}: {}\"/>", Xml(outcome.status),
                         Xml(outcome.message));
  }
  return "";
}

}  // namespace

void JunitReport::Add(const CaseOutcome& outcome) {
  ++tests_;
  failures_ += outcome.ending == Ending::kFailed ? 1 : 0;
  errors_ += outcome.ending == Ending::kError ? 1 : 0;
  const bool is_skipped = outcome.ending == Ending::kSkipped || outcome.ending == Ending::kComputed;
  skipped_ += is_skipped ? 1 : 0;
  seconds_ += outcome.seconds;
  const std::string element = ElementOf(outcome);
  std::string text =
      fmt::format("  <testcase name=\"{}\" classname=\"{}\" time=\"{:.6f}\"", Xml(outcome.name),
                  Xml(ClassOf(suite_, outcome.name)), outcome.seconds);
  text += element.empty() ? "/>\n" : fmt::format(">\n   {}\n  </testcase>\n", element);
  cases_.emplace(outcome.index, std::move(text));
}

std::string JunitReport::Render() const {
  const std::string counts =
      fmt::format("tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\" time=\"{:.6f}\"",
                  tests_, failures_, errors_, skipped_, seconds_);
  std::string xml = fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"convgrad\" {}>\n"
      " <testsuite name=\"{}\" {} timestamp=\"{}\" hostname=\"{}\">\n",
      counts, Xml(suite_), counts, CurrentDate().substr(0, 19), Xml(DescribeMachine().host));
  for (const auto& [index, text] : cases_) xml += text;
  return xml + " </testsuite>\n</testsuites>\n";
}

}  // namespace convgrad::cli
