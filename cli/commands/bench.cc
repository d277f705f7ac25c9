// The command `bench`: one operation or the cases of a manifest verified, timed, and held against a
// roofline and a baseline.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/output_file.h"
#include "base/parallel.h"
#include "cli/batch/batch_case.h"
#include "cli/bench/bench_case.h"
#include "cli/bench/bench_tables.h"
#include "cli/bench/bench_text.h"
#include "cli/bench/saved_reports.h"
#include "cli/case/shared_flags.h"
#include "cli/commands/manifest_runs.h"
#include "cli/commands/plan_shards.h"
#include "cli/manifest/manifest_flags.h"
#include "cli/manifest/manifest_plan.h"
#include "cli/manifest/selection.h"
#include "cli/options/commands.h"
#include "cli/record/machine.h"
#include "cli/text/json.h"

namespace convgrad::cli {
namespace {

BenchSetting MakeSetting(const Arguments& arguments) {
  BenchSetting setting = {ParseBenchOptions(arguments), std::nullopt, DescribeMachine().cpu_model};
  const BenchOptions& options = setting.options;
  if (options.baseline) setting.baseline.emplace(*options.baseline, options.tolerance);
  return setting;
}

// The flags of one group must go with what is timed.
void RefuseGroups(const Arguments& arguments, std::initializer_list<FlagGroup> groups,
                  const std::string& why) {
  for (const FlagValues::Entry& entry : arguments.flags().entries()) {
    const Flag& flag = InfoOf(entry.id);
    for (const FlagGroup group : groups) {
      if (flag.group == group) ThrowUsage("flag/no-effect", Spell(flag), why, "leave it out");
    }
  }
}

// A case that is slower must be seen.
void Show(Session& session, ExitCode code, const std::string& text) {
  if (code == ExitCode::kOk) {
    session.console.Result(text);
  } else {
    session.console.BadResult(text);
  }
}

ExitCode BenchOp(Session& session, const BenchSetting& setting) {
  RefuseManifestFlags(session.arguments.flags());
  BenchCase bench(session, setting, RequestOf(session.arguments));
  ExitCode code = ExitCode::kOk;
  for (const int num_threads : setting.options.threads) {
    const ExitCode timed = bench.Time(num_threads);
    const CaseRecord& entry = session.report.cases.back();
    Show(session, timed,
         DescribeBench(session.console, entry) +
             NoiseWarning(session.console, {&entry, 1}, setting.options.sampling.target_width));
    session.console.Flush();
    code = Worse(code, timed);
  }
  return code;
}

// Takes what the command line says about all cases.
ManifestOptions OptionsOf(const Arguments& arguments) {
  ManifestOptions options;
  for (const FlagValues::Entry& entry : arguments.flags().entries()) {
    const bool is_for_cases = InfoOf(entry.id).group == FlagGroup::kExecution;
    if (is_for_cases && entry.id != FlagId::kThreads) options.overrides.Add(entry);
  }
  return options;
}

// The case with what decides how it is timed.
CaseRequest WithTimingFlags(CaseRequest request, const Arguments& arguments) {
  for (const FlagValues::Entry& entry : arguments.flags().entries()) {
    if (InfoOf(entry.id).group == FlagGroup::kTiming) request.flags.Add(entry);
  }
  return request;
}

// Unless the command line says it, a case may name its number of threads.
std::vector<int> ThreadsOf(const BenchOptions& options, const ManifestCase& one) {
  if (options.threads_are_given) return options.threads;
  return {ParseThreads(one.request.flags)};
}

// The report of what is measured so far, so that a kill costs no more than the last second of it.
class ReportSoFar {
 public:
  explicit ReportSoFar(const Arguments& arguments) : path_(arguments.Get(FlagId::kReport, "-")) {}

  void Write(const Report& report) {
    const auto now = std::chrono::steady_clock::now();
    if (path_ == "-" || now < next_) return;
    Report part = report;
    part.error = {"bench/unfinished", "more cases were to be measured"};
    WriteTextFile(path_, RenderReport(part));
    next_ = now + std::chrono::seconds(1);
  }

 private:
  std::string path_;
  std::chrono::steady_clock::time_point next_;
};

class ManifestBench {
 public:
  ManifestBench(Session& session, const BenchSetting& setting, int64_t num_cases,
                const BenchRows& rows)
      : session_(session),
        setting_(setting),
        num_cases_(num_cases),
        rows_(rows),
        so_far_(session.arguments) {
    session.console.Result(rows_.Head());
  }

  void Run(const ManifestCase& one) {
    BenchCase bench(session_, setting_, WithTimingFlags(one.request, session_.arguments),
                    fmt::format("{} of {}: ", ++position_, num_cases_), one.tags);
    for (const int num_threads : ThreadsOf(setting_.options, one)) {
      if (StopRequested()) break;
      const ExitCode code = AttemptCase(session_, [&] { return bench.Time(num_threads); });
      session_.report.cases.back().count = one.count;
      Show(session_, code, rows_.RowOf(session_.console, session_.report.cases.back()));
      session_.console.Flush();
      code_ = Worse(code_, code);
      if (position_ < num_cases_) so_far_.Write(session_.report);
    }
  }

  ExitCode Finish() {
    Show(session_, code_,
         BenchSummary(session_.console, session_.report.cases,
                      setting_.options.sampling.target_width));
    return code_;
  }

 private:
  Session& session_;
  const BenchSetting& setting_;
  const int64_t num_cases_;
  int64_t position_ = 0;
  const BenchRows rows_;
  ReportSoFar so_far_;
  ExitCode code_ = ExitCode::kOk;
};

// A table in which the longest name has room, with counts where there are some.
BenchRows RowsFor(const ManifestFile& file, const ManifestOptions& options,
                  const Selection& selection) {
  size_t width = 0;
  bool has_counts = false;
  ManifestReader reader(file, options);
  while (const std::optional<ManifestCase> one = reader.Next()) {
    if (!selection.Takes(*one)) continue;
    width = std::max(width, one->name().size());
    has_counts = has_counts || one->count > 1;
  }
  return BenchRows(width, has_counts);
}

// Returns the command line that times the case alone.
std::string ListedCommand(const Arguments& arguments, const ManifestCase& one) {
  CaseRequest request = WithTimingFlags(one.request, arguments);
  request.command = CommandId::kBench;
  const FlagValues::Entry* threads = nullptr;
  for (const FlagValues::Entry& entry : arguments.flags().entries()) {
    if (entry.id == FlagId::kThreads) threads = &entry;
  }
  request.flags.RemoveIf([&](const FlagValues::Entry& entry) {
    const bool is_replaced = threads != nullptr && entry.id == FlagId::kThreads;
    return is_replaced || !Contains(InfoOf(entry.id).commands, CommandId::kBench);
  });
  if (threads != nullptr) request.flags.Add(*threads);
  return CommandLineOf(arguments.program(), request, /*with_outputs=*/true);
}

ExitCode BenchManifest(Session& session, const BenchSetting& setting, const ManifestFile& file) {
  const Arguments& arguments = session.arguments;
  RefuseGroups(arguments, {FlagGroup::kOperands, FlagGroup::kData},
               "belongs to one operation, not to a manifest");
  const ManifestOptions options = OptionsOf(arguments);
  const Selection selection(arguments.flags());
  const auto takes = [&](const ManifestCase& one) { return selection.Takes(one); };
  const ManifestPlan plan = PlanManifest(file, options, takes, ParseBatchFiles(arguments));
  RequireCases(arguments, plan);
  if (plan.num_selected == 0) return ExitCode::kOk;

  ManifestReader reader(file, options);
  if (arguments.Has(FlagId::kList)) {
    while (const std::optional<ManifestCase> one = reader.Next()) {
      if (takes(*one)) session.console.Print(ListedCommand(arguments, *one) + "\n");
      session.console.Flush();
    }
    return ExitCode::kOk;
  }
  ManifestBench bench(session, setting, plan.num_selected, RowsFor(file, options, selection));
  while (const std::optional<ManifestCase> one = reader.Next()) {
    if (takes(*one)) bench.Run(*one);
    if (StopRequested()) break;
  }
  return bench.Finish();
}

void WriteTables(const Session& session) {
  std::vector<Json> entries;
  for (const CaseRecord& entry : session.report.cases) {
    entries.push_back(ParseJson(RenderEntry(entry)));
  }
  WriteBenchTables(session.arguments, entries);
}

// A comparison in which nothing was compared is no pass: the names changed, say, or the machine.
void CheckCompared(const Report& report, const BenchOptions& options) {
  const auto is_compared = [](const CaseRecord& entry) {
    return entry.baseline && entry.baseline->is_comparable;
  };
  const auto was_measured = [](const CaseRecord& entry) { return entry.baseline.has_value(); };
  const auto first = std::find_if(report.cases.begin(), report.cases.end(), was_measured);
  if (first == report.cases.end()) return;
  if (std::any_of(report.cases.begin(), report.cases.end(), is_compared)) return;
  throw Error(ExitCode::kNothingRan, "bench/nothing-compared", *options.baseline,
              "none of its cases could be compared with; " + first->baseline->notes.front(),
              "measure a baseline again, of these cases and on this machine");
}

ExitCode Finish(Session& session, const BenchSetting& setting, ExitCode code) {
  WriteTables(session);
  if (setting.baseline && !StopRequested()) CheckCompared(session.report, setting.options);
  return code;
}

}  // namespace

ExitCode BenchCases(Session& session, const ManifestFile& file) {
  const BenchSetting setting = MakeSetting(session.arguments);
  session.report.execution.num_threads = setting.options.threads.front();
  return Finish(session, setting, BenchManifest(session, setting, file));
}

ExitCode Bench(Session& session) {
  const bool is_manifest = NamesManifest(session.arguments);
  CheckBenchTables(session.arguments);
  if (is_manifest && IsReport(session.arguments.operands().front())) {
    return CompareReports(session, ParseBenchOptions(session.arguments));
  }
  if (is_manifest) return BenchCases(session, ManifestFile(session.arguments.operands().front()));
  const BenchSetting setting = MakeSetting(session.arguments);
  session.report.execution.num_threads = setting.options.threads.front();
  return Finish(session, setting, BenchOp(session, setting));
}

}  // namespace convgrad::cli
