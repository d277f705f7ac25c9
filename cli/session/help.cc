#include "cli/session/help.h"

#include <fmt/format.h>

#include <string_view>
#include <vector>

#include "base/nearest.h"
#include "cli/options/flags.h"
#include "cli/record/machine.h"
#include "cli/session/completions.h"
#include "cli/session/reference_pages.h"
#include "cli/session/session.h"
#include "cli/session/topics.h"
#include "cli/text/markdown.h"
#include "cli/text/values.h"
#include "cli/text/wrap.h"

namespace convgrad::cli {
namespace {

constexpr const char* kSummary =
    "the gradients of 2-D convolutions, exactly as TensorFlow defines them, on files of tensors";

constexpr FlagGroup kGroups[] = {FlagGroup::kOperands,  FlagGroup::kData,   FlagGroup::kOutput,
                                 FlagGroup::kExecution, FlagGroup::kParts,  FlagGroup::kChecking,
                                 FlagGroup::kManifest,  FlagGroup::kTiming, FlagGroup::kReporting};

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

std::string Examples(const Command& command) {
  return fmt::format("\nExamples, from the repository's root:\n  {}\n  {}\n", command.examples[0],
                     command.examples[1]);
}

std::string FlagRows(const Command& command, FlagGroup group, size_t width) {
  std::string rows;
  for (const Flag& flag : AllFlags()) {
    if (flag.group != group || !Contains(flag.commands, command.id)) continue;
    rows += TwoColumns(SpellWithValue(flag), flag.help, width);
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
  const std::string letter = SpellLetter(flag);
  const std::string names = letter.empty() ? Spell(flag) : letter + ", " + Spell(flag);
  return flag.value == nullptr ? names : fmt::format("{} {}", names, flag.value);
}

std::string CommandsWith(const Flag& flag) {
  std::string names;
  for (const Command& command : AllCommands()) {
    if (!Contains(flag.commands, command.id)) continue;
    names += (names.empty() ? "" : ", ") + std::string(command.name);
  }
  return names;
}

std::string HelpText(size_t width) {
  std::string text = Wrap(fmt::format("convgrad: {}", kSummary), 2, width) +
                     "\n\nUsage: convgrad COMMAND [FLAG]...\n\nCommands:\n";
  for (const Command& command : AllCommands()) {
    text +=
        TwoColumns(fmt::format("{} {}", command.name, command.operands), command.summary, width);
  }
  text += "\n" +
          Wrap("'convgrad help COMMAND' lists its flags, which may come in any order.", 0, width) +
          "\n\nTopics:\n";
  for (const Topic& topic : AllTopics()) text += TwoColumns(topic.name, topic.summary, width);
  text += "\n'convgrad help TOPIC' explains it.\n\nExit codes:\n";
  for (const ExitCodeRow& row : kExitCodes) {
    text += TwoColumns(std::to_string(static_cast<int>(row.code)), row.meaning, width);
  }
  text += TwoColumns(kSignalExitCodes, kSignalMeaning, width);
  return text + Examples(AllCommands().front());
}

std::string HelpText(const Command& command, size_t width) {
  std::string text = Wrap(fmt::format("convgrad {}: {}", command.name, command.summary), 2, width) +
                     fmt::format("\n\nUsage: {}\n", UsageOf(command));
  for (const FlagGroup group : kGroups) text += FlagRows(command, group, width);
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

namespace {

// For programs, not people: `help --format`.
std::string HelpIn(const std::string& format) {
  const std::vector<std::string> choices = ChoicesOf(InfoOf(FlagId::kFormat));
  const std::vector<std::string_view> names(choices.begin(), choices.end());
  switch (ParseChoice("--format", format, names)) {
    case 0: return ManualPage();
    case 1: return ReferencePages();
    case 2: return BashCompletions();
    case 3: return ZshCompletions();
    default: return FishCompletions();
  }
}

[[noreturn]] void ThrowUnknownSubject(const std::string& name) {
  std::vector<std::string_view> names;
  for (const Command& command : AllCommands()) names.push_back(command.name);
  for (const Topic& topic : AllTopics()) names.push_back(topic.name);
  const auto nearest = Nearest(name, names);
  ThrowUsage("command/unknown", fmt::format("help '{}'", name.substr(0, 100)),
             "there is no such command or topic",
             nearest ? fmt::format("did you mean {}?", *nearest) : "'convgrad help' lists them");
}

std::string HelpOn(const std::string& name, size_t width) {
  if (const Topic* topic = FindTopic(name)) return RenderMarkdown(topic->page(), width);
  for (const Command& command : AllCommands()) {
    if (name == command.name) return HelpText(command, width);
  }
  ThrowUnknownSubject(name);
}

}  // namespace

ExitCode Help(Session& session) {
  const Arguments& arguments = session.arguments;
  const size_t width = Console::Width();
  if (const std::string* format = arguments.Find(FlagId::kFormat)) {
    session.console.Print(HelpIn(*format));
  } else if (arguments.operands().empty()) {
    session.console.Print(HelpText(width));
  } else {
    session.console.Print(HelpOn(arguments.operands().front(), width));
  }
  return ExitCode::kOk;
}

}  // namespace convgrad::cli
