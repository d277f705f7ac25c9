// The command `export`: cases as another program takes them.
#include <fmt/format.h>

#include <optional>
#include <string>

#include "base/error.h"
#include "base/output_file.h"
#include "cli/case/shared_flags.h"
#include "cli/commands/plan_shards.h"
#include "cli/dialects/dialect.h"
#include "cli/manifest/manifest.h"
#include "cli/manifest/manifest_flags.h"
#include "cli/manifest/selection.h"
#include "cli/options/commands.h"

namespace convgrad::cli {
namespace {

const Dialect& FindWrittenDialect(const std::string& name) {
  const Dialect& dialect = FindDialect(name);
  if (dialect.write == nullptr) {
    ThrowUsage("dialect/not-written", fmt::format("dialect '{}'", name), "it is only read",
               "see 'convgrad help import'");
  }
  return dialect;
}

std::string Write(const Session& session, const Dialect& dialect, const CaseRequest& request) {
  return dialect.write(
      MakeExportCase(dialect.name, session.arguments.program(), request, session.console));
}

std::string WriteManifest(const Session& session, const Dialect& dialect, const std::string& path) {
  const Arguments& arguments = session.arguments;
  const ManifestFile file(path);
  const ManifestOptions options;
  const Selection selection(arguments.flags());
  ManifestReader reader(file, options);
  std::string text;
  int64_t count = 0;
  while (const std::optional<ManifestCase> one = reader.Next()) {
    if (!selection.Takes(*one)) continue;
    if (++count > 1 && !dialect.writes_lines) {
      ThrowUsage("export/several-cases", path, "a script is for one case, and several are selected",
                 "name one with --match; " + one->name() + " is the second");
    }
    text += Write(session, dialect, one->request);
  }
  file.CheckUnchanged();
  if (count > 0) return text;
  throw Error(ExitCode::kNothingRan, "manifest/nothing-selected", path, "no case is selected",
              "see --match and --tag");
}

std::string WriteOp(const Session& session, const Dialect& dialect, const std::string& op) {
  const FlagValues& flags = session.arguments.flags();
  RefuseManifestFlags(flags);
  CaseRequest request = {CommandId::kCheck, op, {}, flags};
  request.flags.RemoveIf([](const FlagValues::Entry& entry) {
    return !Contains(InfoOf(entry.id).commands, CommandId::kCheck) || entry.id == FlagId::kOutput;
  });
  return Write(session, dialect, request);
}

}  // namespace

ExitCode Export(Session& session) {
  const Arguments& arguments = session.arguments;
  const Dialect& dialect = FindWrittenDialect(arguments.operands()[0]);
  const std::string& what = arguments.operands()[1];
  const std::string text = NamesManifestFile(what) ? WriteManifest(session, dialect, what)
                                                   : WriteOp(session, dialect, what);
  if (const std::string* path = arguments.Find(FlagId::kOutput)) {
    WriteTextFile(*path, text, {ParseWriteOptions(arguments.flags()).no_clobber});
  } else {
    session.console.Print(text);
  }
  return ExitCode::kOk;
}

}  // namespace convgrad::cli
