#include "cli/bench/saved_reports.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "base/error.h"
#include "cli/bench/baseline.h"
#include "cli/bench/bench_tables.h"
#include "cli/bench/bench_text.h"
#include "cli/report/bench_json.h"
#include "cli/text/file_text.h"
#include "cli/text/json.h"

namespace convgrad::cli {
namespace {

// A case of one report or of both.
struct ComparedCase {
  Json entry;  // the newer report's, or the baseline's that has no other
  std::optional<ComparisonRecord> record;  // none: it was not measured
  ExitCode code = ExitCode::kOk;
};

bool WasMeasured(const Json& entry) {
  return entry.contains(Json::json_pointer("/timing/median"));
}

// A case that failed when it was to be measured fails the comparison too. That it was slower then
// is no matter: what it was compared with was another baseline.
ExitCode CodeOf(const Json& entry) {
  const auto at = entry.find("exit_code");
  std::optional<ExitCode> code;
  if (at != entry.end() && at->is_number_integer()) code = ToExitCode(at->get<int64_t>());
  if (code == ExitCode::kSlow) code = ExitCode::kOk;
  return code.value_or(ExitCode::kOk);
}

ComparedCase CompareCase(const Json& entry, const Baseline& after, const Baseline& before) {
  ComparedCase one = {entry, std::nullopt, CodeOf(entry)};
  if (!WasMeasured(entry)) {
    one.code = Worse(one.code, ExitCode::kNothingRan);
    return one;
  }
  try {
    one.record = before.Judge(entry, after.cpu_model());
  } catch (const Json::exception& exception) {
    ThrowData("baseline/malformed", entry["name"].get<std::string>(), WhyOf(exception),
              "give a report that 'convgrad bench' wrote");
  }
  one.entry["baseline"] = ComparisonJson(*one.record);
  const bool is_slower = one.record->comparison.verdict == Change::kSlower;
  if (one.record->is_comparable && is_slower) one.code = Worse(one.code, ExitCode::kSlow);
  return one;
}

// In the order of the newer report; then those that only the baseline has.
std::vector<ComparedCase> Compare(const Baseline& after, const Baseline& before) {
  std::vector<ComparedCase> cases;
  for (const Json& entry : after.entries()) cases.push_back(CompareCase(entry, after, before));
  for (const Json& entry : before.entries()) {
    if (after.Find(entry) != nullptr) continue;
    ComparisonRecord record;
    record.presence = ComparisonRecord::Presence::kMissing;
    record.against = before.path();
    cases.push_back({{{"name", entry["name"]}, {"threads", ThreadsOf(entry)}}, record});
    cases.back().entry["baseline"] = ComparisonJson(record);
  }
  return cases;
}

std::string ComparisonText(const Console& console, const Json& entry,
                           const ComparisonRecord& record) {
  std::string text;
  if (WasMeasured(entry))
    text = fmt::format("{:>10.4g} ms", entry["timing"]["median"].get<double>());
  if (record.before_ms > 0) {
    text += fmt::format("  was {:>10.4g} ms  {:.3f}", record.before_ms, record.comparison.ratio);
  }
  if (record.comparison.ci) {
    text +=
        fmt::format(" ({:.3f} to {:.3f})", record.comparison.ci->low, record.comparison.ci->high);
  }
  text += "  " + console.PaintWord(record.Verdict());
  for (const std::string& note : record.notes) text += "; " + note;
  return text;
}

std::string RowOf(const Console& console, const ComparedCase& one, size_t name_width) {
  std::string row = fmt::format("{:<{}}  {:>2} thr.  ", one.entry["name"].get<std::string>(),
                                name_width, ThreadsOf(one.entry));
  if (one.record) return row + ComparisonText(console, one.entry, *one.record) + "\n";
  const std::string status = TextAt(one.entry, "/status"),
                    why = TextAt(one.entry, "/error_message");
  row += "not measured";
  if (!status.empty()) row += ": " + console.PaintWord(status);
  if (!why.empty()) row += "; " + EscapeControls(why);
  return row + "\n";
}

// All cases, and how many had each verdict.
std::string TextOf(const Console& console, const std::vector<ComparedCase>& cases) {
  size_t name_width = 0;
  for (const ComparedCase& one : cases) {
    name_width = std::max(name_width, one.entry["name"].get<std::string>().size());
  }
  std::string text;
  std::vector<const ComparisonRecord*> records;
  for (const ComparedCase& one : cases) {
    text += RowOf(console, one, name_width);
    if (one.record) records.push_back(&*one.record);
  }
  text += DescribeVerdicts(console, records);
  const size_t not_measured = cases.size() - records.size();
  return not_measured == 0 ? text : text + fmt::format("{} not measured\n", not_measured);
}

void RefuseFlags(const Arguments& arguments) {
  for (const FlagValues::Entry& given : arguments.flags().entries()) {
    const Flag& flag = InfoOf(given.id);
    const bool is_meant = given.id == FlagId::kBaseline || given.id == FlagId::kRegress ||
                          given.id == FlagId::kCsv || given.id == FlagId::kMarkdown ||
                          given.id == FlagId::kQuiet || given.id == FlagId::kVerbose ||
                          given.id == FlagId::kColor;
    if (!is_meant) {
      ThrowUsage("flag/no-effect", Spell(flag), "two reports are compared, nothing runs",
                 "leave it out");
    }
  }
}

}  // namespace

bool IsReport(const std::string& path) {
  if (IsStream(path) || !path.ends_with(".json")) return false;
  const FileText file(path);
  std::string start(file.text().substr(0, 4096));
  start.erase(std::remove_if(start.begin(), start.end(),
                             [](char letter) { return letter == ' ' || letter == '\n'; }),
              start.end());
  return start.starts_with("{\"context\":") || start.starts_with("{\"benchmarks\":");
}

ExitCode CompareReports(Session& session, const BenchOptions& options) {
  RefuseFlags(session.arguments);
  const std::string& path = session.arguments.operands().front();
  if (!options.baseline) {
    ThrowUsage("flag/missing", "--baseline", fmt::format("{} is a report, which is compared", path),
               "give the report to compare it with, or a manifest to run");
  }
  const Baseline after(path, options.tolerance), before(*options.baseline, options.tolerance);
  const std::vector<ComparedCase> cases = Compare(after, before);
  std::string text = TextOf(session.console, cases);
  ExitCode code = ExitCode::kOk;
  bool is_any_compared = false;
  std::vector<Json> entries;
  for (const ComparedCase& one : cases) {
    code = Worse(code, one.code);
    is_any_compared = is_any_compared || (one.record && one.record->is_comparable);
    entries.push_back(one.entry);
  }
  if (!is_any_compared) code = Worse(code, ExitCode::kNothingRan);
  for (const Baseline* report : {&after, &before}) {
    const std::string error = report->error();
    if (error.empty()) continue;
    text += fmt::format("{} is a part: its bench did not end well: {}\n",
                        EscapeControls(report->path()), EscapeControls(error));
    code = Worse(code, ExitCode::kData);
  }
  (code == ExitCode::kOk ? session.console.Result(text) : session.console.BadResult(text));
  WriteBenchTables(session.arguments, entries);
  if (code != ExitCode::kNothingRan || is_any_compared) return code;
  throw Error(code, "bench/nothing-compared", *options.baseline,
              fmt::format("none of its cases could be compared with those of {}", path),
              "give reports of the same cases on the same machine");
}

}  // namespace convgrad::cli
