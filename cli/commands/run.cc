// The command `run`: one operation from files to a file.
#include <fmt/format.h>

#include <utility>

#include "cli/case/case_run.h"
#include "cli/case/filter_border.h"
#include "cli/options/commands.h"
#include "cli/parts/part_run.h"
#include "cli/text/row.h"

namespace convgrad::cli {
namespace {

std::string Summary(const CaseRecord& entry, BFloat16Form bfloat16_as) {
  const Problem& problem = *entry.problem;
  const OutputRecord& output = *entry.output;
  std::string text = fmt::format("{}\n", problem.ToLine());
  text +=
      Row("result", fmt::format("{} {}{}", InfoOf(problem.op).result,
                                ToString(FilterBorder(problem, entry.filter_format).ResultShape()),
                                output.path ? ", written to " + EscapeControls(*output.path)
                                            : "; nothing was written: there is no --output"));
  if (output.path) {
    const std::string hint = PythonHint(*output.path, problem.dtype, bfloat16_as);
    if (!hint.empty()) text += Row("in Python", hint);
  }
  text += Row("special", fmt::format("{} NaN, {} infinite, {} subnormal", output.special.nan,
                                     output.special.inf, output.special.subnormal));
  if (output.sha256) text += Row("sha256", *output.sha256);
  return text + Row("computed in", fmt::format("{} ({}, {}, {} threads)", DescribeTiming(entry),
                                               entry.run->algorithm, NameOf(entry.run->isa),
                                               entry.run->num_threads));
}

}  // namespace

ExitCode Run(Session& session) {
  if (session.arguments.Has(FlagId::kPartial)) return RunPart(session);
  if (session.arguments.Has(FlagId::kFirstImage)) {
    ThrowUsage("flag/no-effect", "--first-image", "has no effect without --partial",
               "leave it out, or write a part");
  }
  CaseRecord& entry = BeginCase(session);
  CaseSpec spec = ParseCase(RequestOf(session.arguments));
  session.report.execution = spec.execution;
  CaseRun run(std::move(spec), CaseOptionsOf(session.arguments), session.console, entry);
  RunCase(run);
  session.console.Result(Summary(entry, run.spec().write.bfloat16_as));
  return entry.exit_code;
}

}  // namespace convgrad::cli
