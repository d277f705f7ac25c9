// The command `plan` on a manifest: how its cases would be dealt to shards, and how long each would
// take.
#include "cli/commands/plan_shards.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/parallel.h"
#include "base/resources.h"
#include "cli/batch/batch_case.h"
#include "cli/case/images.h"
#include "cli/case/operands.h"
#include "cli/manifest/manifest_cost.h"
#include "cli/manifest/manifest_flags.h"
#include "cli/manifest/manifest_plan.h"
#include "cli/shards/deal.h"
#include "cli/shards/launchers.h"
#include "cli/text/values.h"
#include "problem/framework_op.h"
#include "problem/op.h"

namespace convgrad::cli {
namespace {

// Flags that describe a case have no effect where the manifest does.
void CheckFlags(const Arguments& arguments) {
  for (const FlagValues::Entry& entry : arguments.flags().entries()) {
    if (!IsCaseKey(InfoOf(entry.id)) && entry.id != FlagId::kImages) continue;
    ThrowUsage("flag/no-effect", Spell(InfoOf(entry.id)), "has no effect on a manifest's plan",
               "leave it out, or name an operation instead of a manifest");
  }
}

bool NamesOp(const std::string& word) {
  if (FindFrameworkOp(word)) return true;
  try {
    ParseOp(word);
    return true;
  } catch (const Error&) {
    return false;
  }
}

std::string Seconds(double seconds) {
  return seconds < 60 ? fmt::format("{:.3g} s", seconds) : fmt::format("{:.1f} min", seconds / 60);
}

// The names of cases that are cut, with what each shard has of them.
std::string DescribeShares(const PlanRecord& plan, const ManifestFile& file,
                           const ManifestOptions& options, const CaseSelection& selection) {
  if (plan.shares.empty()) return "";
  std::string text;
  ManifestReader reader(file, options);
  int64_t index = 0;
  while (const std::optional<ManifestCase> one = reader.Next()) {
    if (!selection(*one)) continue;
    const auto cut = plan.shares.find(index++);
    if (cut == plan.shares.end()) continue;
    text += fmt::format("  the images of {}:\n", EscapeControls(one->name()));
    for (const CaseShare& share : cut->second) {
      text +=
          fmt::format("  {:>12}  {}\n", fmt::format("{}/{}", share.shard + 1, plan.shards.size()),
                      NameOf(ImageRange{share.begin, share.end}));
    }
  }
  return text;
}

// Seconds of the dearest case that stays whole.
double LongestCase(std::span<const CaseWork> cases, const PlanRecord& plan) {
  double longest = 0;
  for (size_t i = 0; i < cases.size(); ++i) {
    const bool is_cut = plan.shares.contains(static_cast<int64_t>(i));
    if (!is_cut) longest = std::max(longest, cases[i].seconds);
  }
  return longest;
}

std::string DescribeShards(const std::string& name, const PlanRecord& plan) {
  std::string text =
      fmt::format("{}: {}, plan {}\n  {:>12}  {:>10}  predicted\n", name,
                  Plural(plan.num_cases, "case"), plan.sha256.substr(0, 12), "shard", "cases");
  for (size_t i = 0; i < plan.shards.size(); ++i) {
    text += fmt::format("  {:>12}  {:>10}  {}\n", fmt::format("{}/{}", i + 1, plan.shards.size()),
                        plan.shards[i].num_cases, Seconds(plan.shards[i].seconds));
  }
  const double mean = MeanSeconds(plan.shards);
  text += fmt::format("  imbalance {:.2f} %: the longest shard takes {}, the mean one {}\n",
                      100 * Imbalance(plan.shards), Seconds(LongestSeconds(plan.shards)),
                      Seconds(mean));
  return text;
}

// Says whether a case keeps a shard longer than all would take, and what helps.
std::string DescribeLongest(std::span<const CaseWork> cases, const PlanRecord& plan) {
  const double longest = LongestCase(cases, plan);
  if (longest <= MeanSeconds(plan.shards)) return "";
  const bool can_cut = !DealShares(cases, std::ssize(plan.shards), /*cut=*/true).shares.empty();
  return fmt::format(
      "  one case alone takes {}: more shards won't end sooner{}\n", Seconds(longest),
      can_cut && plan.shares.empty() ? "; --split-images would deal its images" : "");
}

// Streams what a batch would report of each case before it computes.
void WriteEntries(Session& session, const ManifestFile& file, const ManifestOptions& options,
                  const CaseSelection& selection) {
  BatchOptions batch;
  batch.num_threads = UsableCpus();
  batch.max_memory_bytes = std::max<int64_t>(MaxCopiedBytes(0), 1);
  const Console silent(Arguments({"convgrad", "--quiet"}));
  const CaseRunner runner(session.arguments.program(), batch, silent);
  ManifestReader reader(file, options);
  int64_t index = 0, num_unplanned = 0;
  while (std::optional<ManifestCase> one = reader.Next()) {
    if (!selection(*one)) continue;
    if (StopRequested()) throw Stopped{};
    const CaseRecord entry = runner.Plan(JobOf(std::move(*one), index));
    num_unplanned += entry.exit_code == ExitCode::kOk ? 0 : 1;
    session.report_writer->Add(index++, RenderEntry(entry));
  }
  if (num_unplanned > 0) {
    session.console.Warn(
        fmt::format("{} of {} cases can't be planned now: their entries in the report say why",
                    num_unplanned, index));
  }
}

}  // namespace

bool NamesManifestFile(const std::string& path) {
  return std::any_of(std::begin(kManifestEndings), std::end(kManifestEndings),
                     [&path](const char* ending) { return path.ends_with(ending); });
}

bool NamesManifest(const Arguments& arguments) {
  const std::string& word = arguments.operands().front();
  return NamesManifestFile(word) || (arguments.Has(FlagId::kShards) && !NamesOp(word));
}

ExitCode PlanShards(Session& session) {
  const Arguments& arguments = session.arguments;
  CheckFlags(arguments);
  const int64_t num_shards =
      ParseInteger("--shards", arguments.Get(FlagId::kShards, "1"), 1, kMaxShards);
  const ManifestFile file(arguments.operands().front());
  const ManifestOptions options = ParseManifestOptions(arguments);
  const CaseSelection selection = ParseSelection(arguments);
  const Progress progress(session.console, "planning " + file.name());
  const ManifestPlan plan = PlanManifest(file, options, selection, ParseBatchFiles(arguments));
  RequireCases(arguments, plan);
  const std::vector<CaseWork> cases = PredictCases(file, options, selection);
  SharedDeal shared = DealShares(cases, num_shards, arguments.Has(FlagId::kSplitImages));
  session.report.plan = {plan.sha256, plan.num_selected, std::nullopt, std::move(shared.deal.loads),
                         std::move(shared.shares)};
  if (const std::string* path = arguments.Find(FlagId::kReport)) {
    session.report_writer = std::make_unique<ReportWriter>(*path, session.report);
    WriteEntries(session, file, options, selection);
  }
  file.CheckUnchanged();
  const PlanRecord& record = *session.report.plan;
  session.console.Result(DescribeShards(file.name(), record) + DescribeLongest(cases, record) +
                         DescribeShares(record, file, options, selection));
  return ExitCode::kOk;
}

}  // namespace convgrad::cli
