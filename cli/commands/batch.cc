// The command `batch`: the cases of a manifest, and one summary of them.
#include "cli/batch/batch.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "base/stopwatch.h"
#include "cli/batch/batch_case.h"
#include "cli/batch/part_job.h"
#include "cli/commands/manifest_runs.h"
#include "cli/manifest/lint.h"
#include "cli/manifest/manifest_cost.h"
#include "cli/manifest/manifest_flags.h"
#include "cli/options/commands.h"
#include "cli/page/page_data.h"
#include "cli/shards/shard.h"
#include "cli/text/values.h"

namespace convgrad::cli {
namespace {

ExitCode List(Session& session, const ManifestFile& file, const ManifestOptions& options,
              const CaseSelection& selection, const BatchOptions& batch) {
  ManifestReader reader(file, options);
  int64_t index = 0;
  while (const std::optional<ManifestCase> one = reader.Next()) {
    if (!selection(*one) || !batch.Runs(index++)) continue;
    CaseRequest request = one->request;
    if (const auto part = batch.parts.find(index - 1); part != batch.parts.end()) {
      request = RequestOfPart(
          PartOf(JobOf(*one, index - 1), part->second, PartPathOf(*batch.split_beside, index - 1)));
    }
    session.console.Print(
        CommandLineOf(session.arguments.program(), request, /*with_outputs=*/true) + "\n");
    session.console.Flush();
  }
  return ExitCode::kOk;
}

// The calls that counts of the cases stand for.
std::string SummarizeCalls(const Console& console, const BatchTally& tally) {
  const int64_t calls = std::accumulate(std::begin(tally.calls), std::end(tally.calls), int64_t{0});
  if (calls == tally.total()) return "";
  std::string text = fmt::format("; {} calls", calls);
  for (size_t status = 0; status < kNumCaseStatuses; ++status) {
    if (tally.calls[status] == 0) continue;
    text += fmt::format(", {} {}", tally.calls[status],
                        console.PaintWord(NameOf(static_cast<CaseStatus>(status))));
  }
  return text;
}

std::string Summarize(const Console& console, const BatchTally& tally, int64_t num_cases,
                      double seconds) {
  std::string text = tally.bad.Render(console);
  if (!text.empty()) text += "\n";
  text += Plural(num_cases, "case");
  for (size_t status = 0; status < kNumCaseStatuses; ++status) {
    if (tally.count[status] == 0) continue;
    text += fmt::format(", {} {}", tally.count[status],
                        console.PaintWord(NameOf(static_cast<CaseStatus>(status))));
  }
  const int64_t left = num_cases - tally.total();
  if (left > 0) text += fmt::format(", {} not run", left);
  text += SummarizeCalls(console, tally);
  if (tally.resumed > 0) text += fmt::format("; {} from an earlier run", tally.resumed);
  return text + fmt::format("; {:.2f} s\n", seconds);
}

// Finished cases are kept where a later run can go on from them.
[[noreturn]] void ThrowInterrupted(const Arguments& arguments, int64_t finished,
                                   int64_t num_cases) {
  std::string fix = "with --events F, --resume could go on from there";
  if (arguments.Has(FlagId::kEvents)) {
    std::vector<std::string> words = arguments.words();
    const auto end = std::find(words.begin(), words.end(), "--");
    if (!arguments.Has(FlagId::kResume)) words.insert(end, Spell(InfoOf(FlagId::kResume)));
    fix = "go on with: " + ShellLine(words);
  }
  throw InterruptedError(fmt::format(", {} of {} cases have finished", finished, num_cases), fix);
}

ExitCode Lint(Session& session, const ManifestFile& file, const ManifestOptions& options) {
  std::optional<ErrorRecord>& first = session.report.error;
  int64_t count = 0;
  const auto tell = [&](const Error& error) {
    ++count;
    session.console.Fail(error);
    if (!first) first = ErrorRecord{error.code(), error.message()};
  };
  const auto plan = LintManifest(file, options, ParseBatchFiles(session.arguments), tell);
  if (plan) RequireCases(session.arguments, *plan, "batch/nothing-ran");
  session.console.Result(plan         ? std::string("no mistakes\n")
                         : count == 1 ? std::string("1 mistake\n")
                                      : fmt::format("{} mistakes\n", count));
  return plan ? ExitCode::kOk : ExitCode::kUsage;
}

}  // namespace

ExitCode Batch(Session& session) {
  return BatchCases(session, ManifestFile(session.arguments.operands().front()));
}

ExitCode BatchCases(Session& session, const ManifestFile& file) {
  const Arguments& arguments = session.arguments;
  const Stopwatch since_begin;
  BatchOptions options = ParseBatchOptions(arguments);
  const ManifestOptions manifest = ParseManifestOptions(arguments);
  const CaseSelection selection = ParseSelection(arguments);
  if (arguments.Has(FlagId::kLint)) return Lint(session, file, manifest);
  const ManifestPlan plan = PlanManifest(file, manifest, selection, ParseBatchFiles(arguments));
  session.report.execution.num_threads = options.num_threads;
  session.report.plan = {plan.sha256, plan.num_selected, std::nullopt, {}};
  if (const std::string* text = arguments.Find(FlagId::kShard)) {
    const Shard shard = ChooseShard(*text, session.console);
    CasesOfShard found = FindCasesOfShard(PredictCases(file, manifest, selection), shard,
                                          options.split_beside.has_value());
    options.of_shard = std::move(found.is_ours);
    options.parts = std::move(found.parts);
    session.report.plan->shard = NameOf(shard);
  }
  RequireCases(arguments, plan, "batch/nothing-ran");
  if (arguments.Has(FlagId::kList)) return List(session, file, manifest, selection, options);

  if (const std::string* path = arguments.Find(FlagId::kReport)) {
    session.report_writer = std::make_unique<ReportWriter>(*path, session.report);
  }
  if (arguments.Has(FlagId::kJunit) || arguments.Has(FlagId::kSummary)) {
    session.outcome_reports =
        std::make_unique<OutcomeReports>(arguments, SplitPath(arguments.operands().front()).second);
  }
  if (arguments.Has(FlagId::kHtml)) {
    session.page = std::make_unique<PageData>();
    session.page->Begin(arguments.operands().front());
  }
  BatchTally tally;
  const int64_t num_cases = NumRun(plan, options);
  const auto show = [&] {
    Show(session.console, tally.bad,
         Summarize(session.console, tally, num_cases, since_begin.Seconds()),
         arguments.operands().front());
  };
  try {
    RunBatch(session, file, manifest, selection, plan, options, tally);
  } catch (const Stopped&) {
    show();
    ThrowInterrupted(arguments, tally.total(), num_cases);
  }
  show();
  return tally.worst;
}

}  // namespace convgrad::cli
