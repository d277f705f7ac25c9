// The command `batch`: the cases of a manifest, and one summary of them.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string_view>

#include "base/resources.h"
#include "cli/batch.h"
#include "cli/commands.h"
#include "cli/manifest_cost.h"
#include "cli/manifest_flags.h"
#include "cli/operands.h"
#include "cli/shard.h"
#include "cli/values.h"

namespace convgrad::cli {
namespace {

// Goldens are kept by people: a machine that replaces them checks nothing.
void RefuseInCi() {
  const char* ci = std::getenv("CI");
  if (ci == nullptr || std::string_view(ci) != "true") return;
  ThrowUsage("record/in-ci", "--record", "no golden is written in CI, where CI is 'true'",
             "record where the results can be reviewed, and commit the goldens");
}

std::optional<RecordOptions> ParseRecordOptions(const Arguments& arguments) {
  if (!arguments.Has(FlagId::kRecord)) {
    for (const FlagId id :
         {FlagId::kHashOnly, FlagId::kForceRecord, FlagId::kAllowNonFinite, FlagId::kReason}) {
      if (!arguments.Has(id)) continue;
      ThrowUsage("flag/no-effect", Spell(InfoOf(id)), "it says how to record goldens",
                 "give --record too, or leave it out");
    }
    return std::nullopt;
  }
  if (arguments.Has(FlagId::kNoHash)) {
    ThrowUsage("flag/no-effect", "--no-hash", "a golden is kept with hashes", "leave it out");
  }
  RefuseInCi();
  RecordOptions options;
  options.hash_only = arguments.Has(FlagId::kHashOnly);
  options.force = arguments.Has(FlagId::kForceRecord);
  options.allow_non_finite = arguments.Has(FlagId::kAllowNonFinite);
  if (const std::string* reason = arguments.Find(FlagId::kReason)) options.reason = *reason;
  return options;
}

BatchOptions ParseBatchOptions(const Arguments& arguments) {
  BatchOptions options;
  const int threads = ParseThreads(arguments.flags());
  options.num_threads = threads > 0 ? threads : UsableCpus();
  options.jobs = 2 * options.num_threads;  // some compute while others are read or written
  if (const std::string* jobs = arguments.Find(FlagId::kJobs)) {
    options.jobs = static_cast<int>(ParseInteger("--jobs", *jobs, 1, kMaxThreads));
  }
  const std::string* memory = arguments.Find(FlagId::kMaxMemory);
  options.max_memory_bytes = memory != nullptr ? ParseMemory("--max-memory", *memory)
                                               : std::max<int64_t>(MaxCopiedBytes(0), 1);
  options.fail_fast = arguments.Has(FlagId::kFailFast);
  options.has_hashes = !arguments.Has(FlagId::kNoHash);
  if (const std::string* path = arguments.Find(FlagId::kEvents)) options.events = *path;
  if (options.events == "-") {
    ThrowUsage("flag/value", "--events -", "it is appended to, and read again by --resume",
               "name a file");
  }
  options.record = ParseRecordOptions(arguments);
  options.resume = arguments.Has(FlagId::kResume);
  if (options.resume && !options.events) {
    ThrowUsage("flag/missing", "--events", "--resume reads what finished from it",
               "give the file that the earlier run wrote");
  }
  if (options.resume && !options.has_hashes) {
    ThrowUsage("flag/no-effect", "--no-hash", "--resume trusts hashes alone", "leave it out");
  }
  return options;
}

// The files of the batch itself, which no case may touch.
BatchFiles FilesOf(const Arguments& arguments) {
  BatchFiles files;
  files.inputs.push_back({"MANIFEST", arguments.operands().front()});
  for (const FlagId id : {FlagId::kReport, FlagId::kJunit, FlagId::kSummary, FlagId::kEvents}) {
    const std::string* path = arguments.Find(id);
    if (path != nullptr && *path != "-") files.outputs.push_back({Spell(InfoOf(id)), *path});
  }
  return files;
}

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
  std::string text = tally.bad;
  if (tally.bad_count > 0) text += "\n";
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
  const ManifestPlan plan = PlanManifest(file, manifest, selection, FilesOf(arguments));
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
  const BatchTally tally = RunBatch(session, file, manifest, selection, plan, options);
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
  session.console.Result(Summarize(tally, NumRun(plan, options), elapsed.count()));
  return tally.worst;
}

}  // namespace convgrad::cli
