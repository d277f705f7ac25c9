// The command `merge`: the reports of shards as one.
#include "cli/report/merge.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "base/output_file.h"
#include "base/resources.h"
#include "cli/batch/whole_case.h"
#include "cli/case/operands.h"
#include "cli/case/shared_flags.h"
#include "cli/options/commands.h"
#include "cli/page/page_data.h"
#include "cli/record/machine.h"
#include "cli/report/bad_cases.h"
#include "cli/report/outcome.h"
#include "cli/report/outcome_reports.h"
#include "cli/session/session.h"
#include "cli/text/json.h"
#include "cli/text/unicode.h"
#include "cli/text/values.h"

namespace convgrad::cli {
namespace {

// In ReportWriter's layout; the entries as they are.
void WriteMerged(const MergedReport& merged, const Session& session, const std::string& path) {
  OutputFile file(path);
  const Json context = merged.Context(session.arguments.CommandLine());
  file.Write("{\n  \"context\": " + DumpJson(context) + ",\n  \"benchmarks\": [");
  const char* before = "\n    ";
  merged.ForEachEntry([&](std::string_view entry) {
    file.Write(before);
    file.Write(entry);
    before = ",\n    ";
  });
  file.Write(merged.num_cases() == 0 ? "]" : "\n  ]");
  if (merged.incomplete()) file.Write(",\n  \"error\": " + RenderError(*merged.incomplete()));
  file.Write("\n}\n");
  merged.CheckUnchanged();
  file.Commit();
}

// Where no other place is named, the report goes to standard output.
void CheckStandardOutput(const Arguments& arguments) {
  if (arguments.Has(FlagId::kReport)) return;
  for (const FlagId id : {FlagId::kJunit, FlagId::kSummary, FlagId::kHtml}) {
    if (arguments.Get(id, "") != "-") continue;
    ThrowUsage("io/same-file", Spell(InfoOf(id)) + " -", "the report goes to standard output",
               "give --report F");
  }
}

BadCases FindBadCases(const MergedReport& merged) {
  BadCases bad;
  merged.ForEachBadEntry([&bad](std::string_view entry) {
    const CaseOutcome outcome = OutcomeOf(ParseJson(entry));
    bad.Add({outcome.index, outcome.status, outcome.name, outcome.message, outcome.accept,
             outcome.repro});
  });
  return bad;
}

std::unique_ptr<PageData> PageOf(const MergedReport& merged, const Arguments& arguments) {
  auto page = std::make_unique<PageData>();
  page->Begin(arguments.operands().front());
  merged.ForEachEntry([&page](std::string_view entry) { page->Add(entry); });
  page->Describe(DumpJson(merged.Context(arguments.CommandLine())),
                 merged.incomplete() ? RenderError(*merged.incomplete()) : "");
  return page;
}

// Paths of cases are relative to where the shards ran.
void CheckFolder(const Session& session, const MergedReport& merged) {
  const Json context = merged.Context("");
  const auto there = context.find("cwd");
  if (there == context.end() || *there == ToValidUtf8(CurrentFolder())) return;
  session.console.Warn(fmt::format(
      "the shards ran in {}, and cases are put together here: their relative paths lead elsewhere",
      DumpJson(*there)));
}

// Cases whose images were dealt to several shards.
void PutCasesTogether(const Session& session, MergedReport& merged) {
  if (merged.split_cases().empty()) return;
  CheckFolder(session, merged);
  const FlagValues& flags = session.arguments.flags();
  WholeCaseOptions options;
  options.program = session.arguments.program();
  options.num_threads = ThreadsOrAll(ParseThreads(flags));
  const std::string* limit = flags.Find(FlagId::kMaxMemory);
  options.max_memory_bytes = limit == nullptr ? std::max<int64_t>(MaxCopiedBytes(0), 1)
                                              : ParseMemory("--max-memory", *limit);
  for (const MergedReport::SplitCase& one : merged.split_cases()) {
    try {
      WholeCase whole = PutCaseTogether(one, options, session.console);
      merged.SetEntry(one, std::move(whole.entry), whole.exit_code);
    } catch (const Error& error) {
      merged.Refuse(error);
    }
  }
}

std::string TitleOf(const MergedReport& merged) {
  const int64_t all = merged.num_planned();
  return merged.num_cases() == all
             ? "merged"
             : fmt::format("merged, {} of {} cases missing", all - merged.num_cases(), all);
}

}  // namespace

ExitCode Merge(Session& session) {
  const Arguments& arguments = session.arguments;
  CheckStandardOutput(arguments);
  MergedReport merged(arguments.operands(), arguments.Has(FlagId::kAllowMissing));
  PutCasesTogether(session, merged);
  for (const std::string& warning : merged.Warnings()) session.console.Warn(warning);
  OutcomeReports outcomes(arguments, TitleOf(merged));
  merged.ForEachEntry([&outcomes](std::string_view entry) { outcomes.Add(entry); });
  outcomes.Write();
  WriteMerged(merged, session, arguments.Get(FlagId::kReport, "-"));
  session.report_is_written = true;
  if (arguments.Has(FlagId::kHtml)) session.page = PageOf(merged, arguments);
  const BadCases bad = FindBadCases(merged);
  Show(session.console, bad, bad.Render(session.console), "");
  const ExitCode code = merged.exit_code();
  session.console.Note(
      fmt::format("merged {} of {}{}; the worst exit code is {}",
                  Plural(merged.num_cases(), "case"), Plural(merged.num_shards(), "shard"),
                  merged.incomplete() ? ", a part of the whole" : "", static_cast<int>(code)));
  return code;
}

}  // namespace convgrad::cli
