// The command `replay`: the convolutions of another program's log, timed or checked as the cases of
// a manifest.
#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "cli/bench/bench_tables.h"
#include "cli/commands/log_files.h"
#include "cli/commands/manifest_runs.h"
#include "cli/options/commands.h"

namespace convgrad::cli {
namespace {

std::vector<const Dialect*> DialectsOf(const Arguments& arguments) {
  if (const std::string* name = arguments.Find(FlagId::kDialect)) return {&FindReadDialect(*name)};
  std::vector<const Dialect*> dialects;
  for (const Dialect& dialect : AllDialects()) {
    if (dialect.make_reader != nullptr) dialects.push_back(&dialect);
  }
  return dialects;
}

void RefuseFlags(const Arguments& arguments, bool is_checked) {
  for (const FlagValues::Entry& entry : arguments.flags().entries()) {
    const bool is_of_timing = InfoOf(entry.id).group == FlagGroup::kTiming ||
                              entry.id == FlagId::kCsv || entry.id == FlagId::kMarkdown;
    const bool is_of_checking = entry.id == FlagId::kAllowSuspect;
    if (is_checked ? !is_of_timing : !is_of_checking) continue;
    ThrowUsage("flag/no-effect", Spell(InfoOf(entry.id)),
               is_checked ? "nothing is timed with --check" : "nothing is checked without --check",
               "leave it out");
  }
}

}  // namespace

ExitCode Replay(Session& session) {
  const Arguments& arguments = session.arguments;
  const std::string& path = arguments.operands().front();
  const bool is_checked = arguments.Has(FlagId::kCheckAll);
  RefuseFlags(arguments, is_checked);
  CheckBenchTables(arguments);
  const LogImport log = ReadLog(session, path, DialectsOf(arguments));
  ShowLog(session, log);
  CheckHasCases(log, path);
  std::string lines;
  log.WriteCases(is_checked, [&lines](const std::string& line) { lines += line; });
  session.console.Flush();
  const ManifestFile file(fmt::format("cases of {}", path == "-" ? "standard input" : path),
                          std::move(lines));
  return is_checked ? BatchCases(session, file) : BenchCases(session, file);
}

}  // namespace convgrad::cli
