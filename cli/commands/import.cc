// The command `import`: another program's log as a manifest.
#include "cli/dialects/import.h"

#include <fmt/format.h>

#include <memory>

#include "base/error.h"
#include "base/input_file.h"
#include "base/output_file.h"
#include "cli/case/shared_flags.h"
#include "cli/commands/log_files.h"
#include "cli/options/commands.h"

namespace convgrad::cli {

LogImport ReadLog(const Session& session, const std::string& path,
                  std::span<const Dialect* const> dialects) {
  const std::shared_ptr<InputFile> file = InputFile::Open(path);
  LogImport log(path == "-" ? "stdin" : path, dialects,
                [&session](const std::string& text) { session.console.Detail(text); });
  const Progress progress(session.console, "reading " + file->name());
  log.Read([&file](char* into, size_t bytes) {
    return static_cast<size_t>(file->Read(into, static_cast<int64_t>(bytes)));
  });
  file->CheckUnchanged();
  return log;
}

void ShowLog(Session& session, const LogImport& log) {
  if (log.num_refused() == 0 && log.num_cases() > 0) {
    session.console.Result(log.Summary());
  } else {
    session.console.BadResult(log.Summary());
  }
}

void CheckHasCases(const LogImport& log, const std::string& path) {
  if (log.num_cases() > 0) return;
  const bool has_any = log.num_refused() > 0;
  throw Error(ExitCode::kNothingRan, "import/no-cases", path == "-" ? "standard input" : path,
              has_any ? fmt::format("all of its {} convolutions are refused", log.num_refused())
                      : std::string("no line of it is a convolution"),
              has_any ? "" : "see docs/guide/dialects.md for what logs look like");
}

const Dialect& FindReadDialect(const std::string& name) {
  const Dialect& dialect = FindDialect(name);
  if (dialect.make_reader == nullptr) {
    ThrowUsage("dialect/not-read", fmt::format("dialect '{}'", name), "it is only written",
               "see 'convgrad help export'");
  }
  return dialect;
}

ExitCode Import(Session& session) {
  const Arguments& arguments = session.arguments;
  const Dialect* const dialect = &FindReadDialect(arguments.operands()[0]);
  const std::string& path = arguments.operands()[1];
  const std::string* output_path = arguments.Find(FlagId::kOutput);
  if (output_path == nullptr) {
    ThrowUsage("flag/missing", "--output", "'import' needs it",
               "give a file, or - for standard output");
  }
  OutputFile output(*output_path, {ParseWriteOptions(arguments.flags()).no_clobber});
  const LogImport log = ReadLog(session, path, {&dialect, 1});
  ShowLog(session, log);
  CheckHasCases(log, path);
  log.WriteCases(/*is_checked=*/false, [&output](const std::string& line) { output.Write(line); });
  output.Commit();
  return ExitCode::kOk;
}

}  // namespace convgrad::cli
