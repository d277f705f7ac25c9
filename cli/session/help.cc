#include "cli/session/help.h"

#include <fmt/format.h>

#include <string_view>

#include "cli/options/flags.h"
#include "cli/record/machine.h"
#include "cli/session/reference_pages.h"
#include "cli/session/session.h"

namespace convgrad::cli {
namespace {

constexpr size_t kHelpColumn = 30;
constexpr size_t kWidth = 100;
constexpr const char* kSummary =
    "the gradients of 2-D convolutions, exactly as TensorFlow defines them, on .npy files";

constexpr FlagGroup kGroups[] = {FlagGroup::kOperands,  FlagGroup::kData,     FlagGroup::kOutput,
                                 FlagGroup::kExecution, FlagGroup::kChecking, FlagGroup::kManifest,
                                 FlagGroup::kTiming,    FlagGroup::kReporting};

constexpr ExitCodeRow kExitCodes[] = {
    {ExitCode::kOk, "everything asked for was done and is right"},
    {ExitCode::kWrong, "a result is wrong, or its golden is missing"},
    {ExitCode::kUsage, "usage: flags, attributes, inline sizes, manifest"},
    {ExitCode::kData, "bad input data: a malformed file, shapes or types that don't fit"},
    {ExitCode::kIo, "input, output or resources: a missing file, a full disk, too little memory"},
    {ExitCode::kSlow, "right, but slower than the baseline allows"},
    {ExitCode::kNothingRan, "nothing ran: no case was selected; or bench compared nothing"},
    {ExitCode::kInternal, "internal error; please report it"},
};
// `left` in a column of its own, `text` beside it, broken at blanks.
std::string Row(const std::string& left, std::string_view text) {
  std::string lines = "  " + left;
  if (left.size() + 4 > kHelpColumn)
    lines += "\n" + std::string(kHelpColumn, ' ');
  else
    lines += std::string(kHelpColumn - left.size() - 2, ' ');
  const size_t width = kWidth - kHelpColumn;
  while (text.size() > width) {
    const size_t blank = text.rfind(' ', width);
    lines += fmt::format("{}\n{}", text.substr(0, blank), std::string(kHelpColumn, ' '));
    text.remove_prefix(blank + 1);
  }
  return fmt::format("{}{}\n", lines, text);
}

std::string Examples(const Command& command) {
  return fmt::format("\nExamples, from the repository's root:\n  {}\n  {}\n", command.examples[0],
                     command.examples[1]);
}

std::string FlagRows(const Command& command, FlagGroup group) {
  std::string rows;
  for (const Flag& flag : AllFlags()) {
    if (flag.group != group || !Contains(flag.commands, command.id)) continue;
    rows += Row(SpellWithValue(flag), flag.help);
  }
  return rows.empty() ? "" : fmt::format("\n{}:\n{}", TitleOf(group), rows);
}

// Roff takes '-' for a hyphen and a leading '.' or '\'' for a request.
std::string Roff(std::string_view text) {
  std::string source;
  for (const char letter : text) {
    if (letter == '-' || letter == '\\') source += letter == '-' ? "\\" : "\\e";
    if (letter != '\\') source += letter;
  }
  return source.starts_with('.') || source.starts_with('\'') ? "\\&" + source : source;
}

std::string ManualCommands() {
  std::string source = ".SH COMMANDS\n";
  for (const Command& command : AllCommands()) {
    source += fmt::format(".TP\n.B {}\n{}\n", Roff(UsageOf(command)), Roff(command.summary));
  }
  return source;
}

std::string ManualFlags() {
  std::string source = ".SH FLAGS\n";
  for (const FlagGroup group : kGroups) {
    source += fmt::format(".SS {}\n", TitleOf(group));
    for (const Flag& flag : AllFlags()) {
      if (flag.group != group) continue;
      source += fmt::format(".TP\n.B {}\n{} ({})\n", Roff(SpellWithValue(flag)), Roff(flag.help),
                            CommandsWith(flag));
    }
  }
  return source;
}

std::string ManualExamples() {
  std::string source = ".SH EXAMPLES\nFrom the repository's root:\n.nf\n";
  for (const Command& command : AllCommands()) {
    for (const char* example : command.examples) source += Roff(example) + "\n";
  }
  return source + ".fi\n";
}

}  // namespace

std::span<const ExitCodeRow> AllExitCodes() {
  return kExitCodes;
}

std::span<const FlagGroup> AllFlagGroups() {
  return kGroups;
}

std::string UsageOf(const Command& command) {
  return fmt::format("convgrad {}{}{} [FLAG]...", command.name, *command.operands ? " " : "",
                     command.operands);
}

std::string SpellWithValue(const Flag& flag) {
  return flag.value == nullptr ? Spell(flag) : fmt::format("{} {}", Spell(flag), flag.value);
}

std::string CommandsWith(const Flag& flag) {
  std::string names;
  for (const Command& command : AllCommands()) {
    if (!Contains(flag.commands, command.id)) continue;
    names += (names.empty() ? "" : ", ") + std::string(command.name);
  }
  return names;
}

std::string HelpText() {
  std::string text =
      fmt::format("convgrad: {}\n\nUsage: convgrad COMMAND [FLAG]...\n\nCommands:\n", kSummary);
  for (const Command& command : AllCommands()) {
    text += Row(fmt::format("{} {}", command.name, command.operands), command.summary);
  }
  text +=
      "\n'convgrad help COMMAND' lists its flags, which may come in any order.\n\nExit codes:\n";
  for (const ExitCodeRow& row : kExitCodes) {
    text += Row(std::to_string(static_cast<int>(row.code)), row.meaning);
  }
  text += Row(kSignalExitCodes, kSignalMeaning);
  return text + Examples(AllCommands().front());
}

std::string HelpText(const Command& command) {
  std::string text = fmt::format("convgrad {}: {}\n\nUsage: {}\n", command.name, command.summary,
                                 UsageOf(command));
  for (const FlagGroup group : kGroups) text += FlagRows(command, group);
  return text + Examples(command);
}

std::string ManualPage() {
  std::string source = fmt::format(
      ".TH CONVGRAD 1 \"\" \"convgrad {}\" \"User Commands\"\n.SH NAME\nconvgrad \\- {}\n"
      ".SH SYNOPSIS\n.B convgrad\nCOMMAND [FLAG]...\n",
      kBuild.version, Roff(kSummary));
  source += ManualCommands() + ManualFlags() + ".SH EXIT STATUS\n";
  for (const ExitCodeRow& row : kExitCodes) {
    source += fmt::format(".TP\n.B {}\n{}\n", static_cast<int>(row.code), Roff(row.meaning));
  }
  return source + fmt::format(".TP\n.B {}\n{}\n", kSignalExitCodes, kSignalMeaning) +
         ManualExamples();
}

ExitCode Help(Session& session) {
  const Arguments& arguments = session.arguments;
  if (arguments.Has(FlagId::kMan)) {
    session.console.Print(ManualPage());
  } else if (arguments.Has(FlagId::kMarkdown)) {
    session.console.Print(ReferencePages());
  } else if (arguments.operands().empty()) {
    session.console.Print(HelpText());
  } else {
    session.console.Print(HelpText(FindCommand(arguments.operands().front())));
  }
  return ExitCode::kOk;
}

}  // namespace convgrad::cli
