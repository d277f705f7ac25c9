// The command `batch`: the cases of a manifest, and one summary of them.
#include "cli/batch/batch.h"

#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <string_view>

#include "cli/batch/batch_case.h"
#include "cli/manifest/manifest_cost.h"
#include "cli/manifest/manifest_flags.h"
#include "cli/options/commands.h"
#include "cli/shards/shard.h"

namespace convgrad::cli {
namespace {

ExitCode List(Session& session, const ManifestFile& file, const ManifestOptions& options,
              const CaseSelection& selection, const BatchOptions& batch) {
  ManifestReader reader(file, options);
  int64_t index = 0;
  while (const std::optional<ManifestCase> one = reader.Next()) {
    if (!selection(*one) || !batch.Runs(index++)) continue;
    session.console.Print(
        CommandLineOf(session.arguments.program(), one->request, /*with_outputs=*/true) + "\n");
    session.console.Flush();
  }
  return ExitCode::kOk;
}

std::string Summarize(const BatchTally& tally, int64_t num_cases, double seconds) {
  std::string text = tally.bad.Render();
  if (!text.empty()) text += "\n";
  text += fmt::format("{} case{}", num_cases, num_cases == 1 ? "" : "s");
  for (size_t status = 0; status < kNumCaseStatuses; ++status) {
    if (tally.count[status] == 0) continue;
    text += fmt::format(", {} {}", tally.count[status], NameOf(static_cast<CaseStatus>(status)));
  }
  const int64_t left = num_cases - tally.total();
  if (left > 0) text += fmt::format(", {} not run", left);
  if (tally.resumed > 0) text += fmt::format("; {} from an earlier run", tally.resumed);
  return text + fmt::format("; {:.2f} s\n", seconds);
}

void Show(Session& session, const BatchTally& tally, const std::string& summary) {
  if (tally.bad.count() == 0) {
    session.console.Result(summary);
    return;
  }
  session.console.BadResult(summary);
  // NOLINTNEXTLINE(concurrency-mt-unsafe): nothing here changes the environment.
  const char* github = std::getenv("GITHUB_ACTIONS");
  if (github == nullptr || std::string_view(github) != "true") return;
  session.console.Announce(tally.bad.GithubAnnotations(session.arguments.operands().front()));
}

ExitCode NothingRan(Session& session) {
  if (session.arguments.Has(FlagId::kAllowEmpty)) return ExitCode::kOk;
  throw Error(ExitCode::kNothingRan, "batch/nothing-ran", session.arguments.operands().front(),
              "no case matches", "change --match or --tag, or give --allow-empty");
}

}  // namespace

ExitCode Batch(Session& session) {
  const Arguments& arguments = session.arguments;
  const auto begin = std::chrono::steady_clock::now();
  BatchOptions options = ParseBatchOptions(arguments);
  const ManifestOptions manifest = ParseManifestOptions(arguments);
  const CaseSelection selection = ParseSelection(arguments);
  const ManifestFile file(arguments.operands().front());
  const ManifestPlan plan = PlanManifest(file, manifest, selection, ParseBatchFiles(arguments));
  session.report.execution.num_threads = options.num_threads;
  session.report.plan = {plan.sha256, plan.num_selected, std::nullopt, {}};
  if (const std::string* text = arguments.Find(FlagId::kShard)) {
    const Shard shard = ChooseShard(*text, session.console);
    options.of_shard = CasesOfShard(file, manifest, selection, shard);
    session.report.plan->shard = NameOf(shard);
  }
  if (arguments.Has(FlagId::kList)) return List(session, file, manifest, selection, options);
  if (plan.num_selected == 0 && plan.num_cases > 0) return NothingRan(session);

  if (const std::string* path = arguments.Find(FlagId::kReport)) {
    session.report_writer = std::make_unique<ReportWriter>(*path, session.report);
  }
  if (arguments.Has(FlagId::kJunit) || arguments.Has(FlagId::kSummary)) {
    session.outcome_reports =
        std::make_unique<OutcomeReports>(arguments, SplitPath(arguments.operands().front()).second);
  }
  BatchTally tally;
  const auto show = [&] {
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
    Show(session, tally, Summarize(tally, NumRun(plan, options), elapsed.count()));
  };
  try {
    RunBatch(session, file, manifest, selection, plan, options, tally);
  } catch (const Stopped&) {
    show();
    throw;
  }
  show();
  return tally.worst;
}

}  // namespace convgrad::cli
