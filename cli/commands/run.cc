// The command `run`: one operation from files to a file.
#include <fmt/format.h>

#include <utility>

#include "cli/case/case_run.h"
#include "cli/case/filter_border.h"
#include "cli/options/commands.h"
#include "cli/text/values.h"

namespace convgrad::cli {
namespace {

std::string Summary(const CaseRecord& entry, BFloat16Form bfloat16_as) {
  const Problem& problem = *entry.problem;
  const OutputRecord& output = *entry.output;
  std::string text = fmt::format("{}\n", problem.ToLine());
  text += fmt::format("  result       {} {}{}\n", InfoOf(problem.op).result,
                      ToString(FilterBorder(problem, entry.filter_format).ResultShape()),
                      output.path ? ", written to " + EscapeControls(*output.path) : "");
  if (output.path) {
    const std::string hint = PythonHint(*output.path, problem.dtype, bfloat16_as);
    if (!hint.empty()) text += fmt::format("  in Python    {}\n", hint);
  }
  text += fmt::format("  special      {} NaN, {} infinite, {} subnormal\n", output.special.nan,
                      output.special.inf, output.special.subnormal);
  if (output.sha256) text += fmt::format("  sha256       {}\n", *output.sha256);
  text += fmt::format("  computed in  {} ({}, {}, {} threads)\n", DescribeTiming(entry),
                      entry.run->algorithm, NameOf(entry.run->isa), entry.run->num_threads);
  return text;
}

}  // namespace

ExitCode Run(Session& session) {
  CaseRecord& entry = BeginCase(session);
  CaseSpec spec = ParseCase(RequestOf(session.arguments));
  session.report.execution = spec.execution;
  CaseRun run(std::move(spec), CaseOptionsOf(session.arguments), session.console, entry);
  RunCase(run);
  session.console.Result(Summary(entry, run.spec().write.bfloat16_as));
  return entry.exit_code;
}

}  // namespace convgrad::cli
