#include "cli/session/session.h"

#include <fmt/format.h>

#include <csignal>
#include <cstring>
#include <new>
#include <type_traits>
#include <utility>

#include "base/file.h"
#include "base/output_file.h"
#include "base/parallel.h"
#include "cli/options/commands.h"
#include "cli/page/page.h"
#include "cli/record/golden_record.h"
#include "cli/record/machine.h"
#include "cli/session/help.h"
#include "cli/session/signals.h"
#include "cli/text/values.h"
#include "files/tensor_path.h"

namespace convgrad::cli {
namespace {

// Into the case that was being worked on, or, before there was one, into the report itself.
void Record(Report& report, const Error& error) {
  const auto is_done = [](const CaseRecord& entry) {
    return entry.exit_code == ExitCode::kOk || entry.exit_code == ExitCode::kSlow;
  };
  if (report.cases.empty() || is_done(report.cases.back())) {
    report.error = {error.code(), error.message()};
    return;
  }
  RecordError(report.cases.back(), error);
}

// Runs `step`, which returns an exit code or nothing.
template <class Step>
ExitCode Attempt(Session& session, const Step& step) {
  const auto fail = [&session](const Error& error) {
    // A report that cannot be begun cannot be written at the end either.
    const auto& before = session.report.error;
    const bool is_said = before && before->message == error.message();
    Record(session.report, error);
    if (error.code() != "io/broken-pipe" && !is_said) session.console.Fail(error);
    return error.exit_code();
  };
  try {
    if constexpr (std::is_void_v<decltype(step())>) {
      step();
      return ExitCode::kOk;
    } else {
      return step();
    }
  } catch (const Stopped&) {
    return fail(InterruptedError());
  } catch (const std::exception& exception) {
    return fail(Translate(exception));
  }
}

void CheckStandardOutput(const Arguments& arguments) {
  std::string first;
  for (const Flag& flag : AllFlags()) {
    if (FileOf(flag) != FlagFile::kWritten || arguments.Get(flag.id, "") != "-") continue;
    if (!first.empty()) {
      ThrowUsage("io/same-file", fmt::format("{} - and {} -", first, Spell(flag)),
                 "both are standard output", "give one of them a file");
    }
    first = Spell(flag);
  }
}

// No file may be written that is also read or written otherwise.
void CheckFiles(const Arguments& arguments) {
  std::vector<NamedPath> inputs, outputs;
  for (const Flag& flag : AllFlags()) {
    const std::string* path = arguments.Find(flag.id);
    if (path == nullptr || FileOf(flag) == FlagFile::kNone) continue;
    std::vector<NamedPath>& files = FileOf(flag) == FlagFile::kRead ? inputs : outputs;
    for (const std::string& file : FilesIn(flag, *path)) {
      files.push_back({Spell(flag), TensorFileOf(file)});
    }
    if (flag.id == FlagId::kExpect) inputs.push_back({"the golden's record", RecordPathOf(*path)});
  }
  const bool names_op = arguments.command() != nullptr && !arguments.command()->operands_are_files;
  for (size_t i = names_op ? 1 : 0; i < arguments.operands().size(); ++i) {
    inputs.push_back({"operand", TensorFileOf(arguments.operands()[i])});
  }
  CheckDistinctFiles(inputs, outputs);
  CheckStandardOutput(arguments);
}

ExitCode Dispatch(Session& session) {
  const Arguments& arguments = session.arguments;
  arguments.Validate();
  constexpr std::string_view kColors[] = {"auto", "always", "never"};
  ParseChoice("--color", arguments.Get(FlagId::kColor, "auto"), kColors);
  if (arguments.Has(FlagId::kVersion)) {
    session.console.Print(fmt::format("convgrad {}\n", kBuild.version));
    return ExitCode::kOk;
  }
  if (arguments.Has(FlagId::kHelp)) {
    session.console.Print(arguments.command() == nullptr
                              ? HelpText(Console::Width())
                              : HelpText(*arguments.command(), Console::Width()));
    return ExitCode::kOk;
  }
  return arguments.command()->run(session);
}

// Returns the path that a flag writes to; null without one, or where the flag itself is refused.
const std::string* PathOf(const Arguments& arguments, FlagId id) {
  const Command* command = arguments.command();
  const std::string* path = arguments.Find(id);
  const bool is_known = command == nullptr || Contains(InfoOf(id).commands, command->id);
  return is_known && path != nullptr && !path->empty() ? path : nullptr;
}

// Before anything else, so that a report can be written of everything that goes wrong.
void PrepareReport(const Arguments& arguments) {
  CheckFiles(arguments);
  for (const FlagId id : {FlagId::kReport, FlagId::kHtml}) {
    if (const std::string* path = PathOf(arguments, id)) CheckOutputPath(*path);
  }
}

void WriteReport(Session& session) {
  if (session.report_writer) {
    session.report_writer->Finish(session.report);
    return;
  }
  const std::string* path = PathOf(session.arguments, FlagId::kReport);
  if (path == nullptr || session.report_is_written) return;
  WriteTextFile(*path, RenderReport(session.report));
}

void WritePage(Session& session) {
  const std::string* path = PathOf(session.arguments, FlagId::kHtml);
  if (path == nullptr) return;
  const Report& report = session.report;
  if (!session.page) {
    session.page = std::make_unique<PageData>();
    session.page->Begin(report.command_line);
    for (const CaseRecord& entry : report.cases) session.page->Add(RenderEntry(entry));
  }
  if (!session.report_is_written) {
    session.page->Describe(RenderContext(report), report.error ? RenderError(*report.error) : "");
  }
  WriteTextFile(*path, RenderPage(*session.page));
}

}  // namespace

ExitCode AttemptCase(Session& session, const std::function<ExitCode()>& step) {
  return Attempt(session, step);
}

Error InterruptedError(const std::string& so_far, const std::string& fix) {
  const int signal = CaughtSignal();
  return Error(static_cast<ExitCode>(128 + signal), "interrupted", "interrupted",
               fmt::format("by signal {} (SIG{}){}", signal, sigabbrev_np(signal), so_far), fix);
}

// A reader that has seen enough ends the program quietly, as it would any other.
Error Translate(const std::exception& exception) {
  if (const auto* error = dynamic_cast<const Error*>(&exception)) {
    if (error->code() != "io/broken-pipe") return *error;
    return Error(static_cast<ExitCode>(128 + SIGPIPE), error->code(), "output",
                 "its reader is gone");
  }
  if (dynamic_cast<const std::bad_alloc*>(&exception) != nullptr) {
    return Error(ExitCode::kIo, "memory/exhausted", "memory", "an allocation failed",
                 "free memory or use smaller tensors");
  }
  return Error(ExitCode::kInternal, "internal", "internal error", exception.what(),
               "please report it with the command line");
}

void RecordError(CaseRecord& entry, const Error& error) {
  entry.status = CaseStatus::kError;
  if (error.exit_code() == ExitCode::kWrong) entry.status = CaseStatus::kFailed;
  if (error.code() == kTimeoutCode) entry.status = CaseStatus::kTimeout;
  entry.exit_code = error.exit_code();
  entry.error = {error.code(), error.message()};
}

int RunTool(std::vector<std::string> words) {
  if (words.empty()) words = {"convgrad"};
  Arguments arguments(std::move(words));
  Console console(arguments);
  Session session = {std::move(arguments), std::move(console), {}};
  session.report.executable = session.arguments.program();
  session.report.command_line = session.arguments.CommandLine();

  const auto attempt = [&session](const auto& step) { return Attempt(session, step); };
  ExitCode code = attempt([&] { PrepareReport(session.arguments); });
  if (code == ExitCode::kOk) {
    code = attempt([&] { return Dispatch(session); });
    code = Worse(code, attempt([&] { WriteReport(session); }));
    code = Worse(code, attempt([&] {
                   if (session.outcome_reports) session.outcome_reports->Write();
                 }));
    code = Worse(code, attempt([&] { WritePage(session); }));
  }
  code = Worse(code, attempt([&] { session.console.Flush(); }));
  if (CaughtSignal() != 0) EndBySignal(CaughtSignal());
  if (static_cast<int>(code) == 128 + SIGPIPE) EndBySignal(SIGPIPE);
  return static_cast<int>(code);
}

}  // namespace convgrad::cli
