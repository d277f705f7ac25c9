// The command `report`: reports and events of earlier runs as one page.
#include <fmt/format.h>

#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/output_file.h"
#include "cli/options/commands.h"
#include "cli/page/page.h"
#include "cli/report/report_scan.h"
#include "cli/session/session.h"
#include "cli/text/file_text.h"
#include "cli/text/json.h"
#include "cli/text/values.h"

namespace convgrad::cli {
namespace {

// Text up to the line's end, which it takes from `rest`.
std::string_view TakeLine(std::string_view& rest) {
  const size_t end = std::min(rest.find('\n'), rest.size());
  const std::string_view line = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  return line;
}

bool IsBlank(std::string_view line) {
  return line.find_first_not_of(" \t\r") == std::string_view::npos;
}

bool IsEntry(const Json& json) {
  const auto has_text = [&](const char* key) {
    return json.contains(key) && json[key].is_string();
  };
  return json.is_object() && has_text("name") && has_text("status");
}

// A report's first line is a bracket, or the report.
bool IsEventsFile(std::string_view text) {
  while (!text.empty()) {
    const std::string_view line = TakeLine(text);
    if (IsBlank(line)) continue;
    return IsEntry(TryParseJson(line));
  }
  return false;
}

// Two lines with the same key are those of one case.
std::string KeyOf(const Json& entry) {
  const auto identity = entry.find("identity");
  if (identity != entry.end() && identity->is_string()) return identity->get<std::string>();
  return fmt::format("{}\n{}", entry["name"].get<std::string>(), entry.value("threads", 1));
}

// The last line of each case; lines that were cut short are passed over, and counted.
void AddEvents(const std::string& path, std::string_view text, const Console& console,
               PageData& page) {
  std::vector<std::string_view> entries;
  std::unordered_map<std::string, size_t> places;
  int64_t passed_over = 0;
  while (!text.empty()) {
    const std::string_view line = TakeLine(text);
    if (IsBlank(line)) continue;
    const Json entry = TryParseJson(line);
    if (entry.is_discarded() || !IsEntry(entry)) {
      ++passed_over;
      continue;
    }
    const auto [place, is_new] = places.emplace(KeyOf(entry), entries.size());
    if (is_new) {
      entries.push_back(line);
    } else {
      entries[place->second] = line;
    }
  }
  for (const std::string_view entry : entries) page.Add(entry);
  if (passed_over == 0) return;
  const std::string note =
      fmt::format("{} passed over that {} no entry", Plural(passed_over, "line"),
                  passed_over == 1 ? "is" : "are");
  page.Note(note);
  console.Warn(path + ": " + note);
}

void AddReport(const std::string& path, std::string_view text, PageData& page) {
  const ScannedReport report = ScanReport(path, text);
  try {
    const Json context = ParseJson(report.context);
    CheckReportSchema(path, context.at("convgrad").at("schema").get<std::string>());
  } catch (const Json::exception& exception) {
    RefuseReport(path, WhyOf(exception));
  }
  for (const IndexedEntry& entry : report.entries) page.Add(entry.text);
  page.Describe(report.context, report.error);
}

}  // namespace

ExitCode MakePage(Session& session) {
  const Arguments& arguments = session.arguments;
  const std::string* output = arguments.Find(FlagId::kOutput);
  if (output == nullptr) {
    ThrowUsage("flag/missing", "--output", "the page goes to a file", "give --output page.html");
  }
  OutputFile file(*output);
  PageData page;
  for (const std::string& path : arguments.operands()) {
    const FileText text(path);
    page.Begin(path);
    if (IsEventsFile(text.text())) {
      AddEvents(path, text.text(), session.console, page);
    } else {
      AddReport(path, text.text(), page);
    }
    text.CheckUnchanged();
  }
  file.Write(RenderPage(page));
  file.Commit();
  session.console.Note(fmt::format("{}: {} of {}", file.name(), Plural(page.num_cases(), "case"),
                                   Plural(std::ssize(arguments.operands()), "report")));
  return ExitCode::kOk;
}

}  // namespace convgrad::cli
