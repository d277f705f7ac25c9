// The command `bench`: one operation or the cases of a manifest verified, timed, and held against a
// roofline and a baseline.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "base/parallel.h"
#include "cli/batch/batch_case.h"
#include "cli/bench/bench_case.h"
#include "cli/bench/bench_text.h"
#include "cli/commands/plan_shards.h"
#include "cli/manifest/manifest_flags.h"
#include "cli/manifest/manifest_plan.h"
#include "cli/manifest/selection.h"
#include "cli/options/commands.h"
#include "cli/record/machine.h"

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

// What is slower must be seen.
void Show(Session& session, ExitCode code, const std::string& text) {
  if (code == ExitCode::kOk) {
    session.console.Result(text);
  } else {
    session.console.BadResult(text);
  }
}

ExitCode BenchOp(Session& session, const BenchSetting& setting) {
  RefuseGroups(session.arguments, {FlagGroup::kManifest}, "needs a manifest to select from");
  BenchCase bench(session, setting, RequestOf(session.arguments));
  ExitCode code = ExitCode::kOk;
  for (const int num_threads : setting.options.threads) {
    const ExitCode timed = bench.Time(num_threads);
    Show(session, timed, DescribeBench(session.console, session.report.cases.back()));
    code = Worse(code, timed);
  }
  return code;
}

// What the command line says about all cases.
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

ExitCode BenchManifestCase(Session& session, const BenchSetting& setting, const ManifestCase& one) {
  BenchCase bench(session, setting, WithTimingFlags(one.request, session.arguments));
  ExitCode code = ExitCode::kOk;
  for (const int num_threads : ThreadsOf(setting.options, one)) {
    if (StopRequested()) break;
    code = Worse(code, AttemptCase(session, [&] { return bench.Time(num_threads); }));
  }
  return code;
}

// What times the case alone.
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

ExitCode NothingSelected(const Session& session, const ManifestPlan& plan) {
  if (plan.num_cases == 0 || session.arguments.Has(FlagId::kAllowEmpty)) return ExitCode::kOk;
  throw Error(ExitCode::kNothingRan, "manifest/nothing-selected",
              session.arguments.operands().front(),
              fmt::format("none of its {} cases is selected", plan.num_cases),
              "see --match and --tag, or give --allow-empty");
}

ExitCode BenchManifest(Session& session, const BenchSetting& setting) {
  const Arguments& arguments = session.arguments;
  RefuseGroups(arguments, {FlagGroup::kOperands, FlagGroup::kData},
               "belongs to one operation, not to a manifest");
  const ManifestOptions options = OptionsOf(arguments);
  const Selection selection(arguments.flags());
  const ManifestFile file(arguments.operands().front());
  const auto takes = [&](const ManifestCase& one) { return selection.Takes(one); };
  const ManifestPlan plan = PlanManifest(file, options, takes, ParseBatchFiles(arguments));
  if (plan.num_selected == 0) return NothingSelected(session, plan);

  ExitCode code = ExitCode::kOk;
  ManifestReader reader(file, options);
  while (const std::optional<ManifestCase> one = reader.Next()) {
    if (!takes(*one)) continue;
    if (arguments.Has(FlagId::kList)) {
      session.console.Print(ListedCommand(arguments, *one) + "\n");
      session.console.Flush();
      continue;
    }
    code = Worse(code, BenchManifestCase(session, setting, *one));
    if (StopRequested()) break;
  }
  Show(session, code, BenchTable(session.console, session.report.cases));
  return code;
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

}  // namespace

ExitCode Bench(Session& session) {
  const bool is_manifest = NamesManifest(session.arguments);
  const BenchSetting setting = MakeSetting(session.arguments);
  session.report.execution.num_threads = setting.options.threads.front();
  const ExitCode code = is_manifest ? BenchManifest(session, setting) : BenchOp(session, setting);
  if (setting.baseline && !StopRequested()) CheckCompared(session.report, setting.options);
  return code;
}

}  // namespace convgrad::cli
