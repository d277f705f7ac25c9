#include "cli/session/completions.h"

#include <fmt/format.h>

#include <string_view>
#include <vector>

#include "cli/options/commands.h"
#include "cli/options/flags.h"
#include "cli/session/topics.h"
#include "problem/op.h"
#include "tensor/dtype.h"

namespace convgrad::cli {
namespace {

constexpr const char* kHead =
    "# Completions of {} for convgrad, printed by 'convgrad help --format {}'.\n";

std::string Joined(const std::vector<std::string>& words) {
  std::string line;
  for (const std::string& word : words) line += (line.empty() ? "" : " ") + word;
  return line;
}

// Lists what a flag's value may be, where that can be listed.
std::vector<std::string> ValuesOf(const Flag& flag) {
  std::vector<std::string> values = ChoicesOf(flag);
  if (flag.id != FlagId::kDtype) return values;
  for (const DTypeInfo& dtype : AllDTypes()) {
    if (dtype.is_float) values.emplace_back(dtype.name);
  }
  return values;
}

bool TakesPath(const Flag& flag) {
  return FileOf(flag) != FlagFile::kNone || flag.id == FlagId::kOutputRoot ||
         flag.id == FlagId::kWritePending;
}

// Lists what may stand after a command: operations, or what `help` explains.
std::vector<std::string> OperandsOf(const Command& command) {
  std::vector<std::string> words;
  if (command.id == CommandId::kHelp) {
    for (const Command& other : AllCommands()) words.emplace_back(other.name);
    for (const Topic& topic : AllTopics()) words.emplace_back(topic.name);
  } else if (std::string_view(command.operands).starts_with("OP")) {
    for (const OpInfo& op : AllOps()) words.emplace_back(op.name);
  }
  return words;
}

bool TakesFiles(const Command& command) {
  return command.operands_are_files || std::string_view(command.operands).ends_with("MANIFEST") ||
         std::string_view(command.operands).ends_with("FILE|-");
}

std::vector<std::string> FlagsOf(const Command& command) {
  std::vector<std::string> words;
  for (const Flag& flag : AllFlags()) {
    if (!Contains(flag.commands, command.id)) continue;
    words.push_back(Spell(flag));
    if (flag.letter != '\0') words.push_back(SpellLetter(flag));
  }
  return words;
}

std::vector<std::string> CommandNames() {
  std::vector<std::string> names;
  for (const Command& command : AllCommands()) names.emplace_back(command.name);
  return names;
}

// "--output|-o", a pattern of Bash's case.
std::string BashPattern(const Flag& flag) {
  return flag.letter == '\0' ? Spell(flag) : Spell(flag) + "|" + SpellLetter(flag);
}

// `text` where Zsh takes quotes, brackets and colons for its own.
std::string ZshText(std::string_view text) {
  std::string escaped;
  for (const char letter : text) {
    if (letter == '\'') {
      escaped += "'\\''";
      continue;
    }
    if (std::string_view("[]:\\").find(letter) != std::string_view::npos) escaped += '\\';
    escaped += letter;
  }
  return escaped;
}

// One specification of _arguments.
std::string ZshSpec(const Flag& flag) {
  const std::string name = Spell(flag), letter = SpellLetter(flag);
  std::string spec =
      letter.empty() ? "'" + name : fmt::format("'({0} {1})'{{{0},{1}}}'", letter, name);
  spec += fmt::format("[{}]", ZshText(flag.help));
  if (flag.value != nullptr) {
    const std::vector<std::string> values = ValuesOf(flag);
    spec += fmt::format(":{}:{}", ZshText(flag.value),
                        !values.empty()   ? fmt::format("({})", Joined(values))
                        : TakesPath(flag) ? "_files"
                                          : " ");
  }
  return spec + "'";
}

std::string ZshOperands(const Command& command) {
  const std::string words = Joined(OperandsOf(command));
  if (words.empty()) return TakesFiles(command) ? " '*:file:_files'" : "";
  return TakesFiles(command) ? fmt::format(" '1:operand:{{_files; compadd {}}}'", words)
                             : fmt::format(" '1:operand:({})'", words);
}

// In Fish's single quotes.
std::string FishText(std::string_view text) {
  std::string escaped;
  for (const char letter : text) {
    if (letter == '\'' || letter == '\\') escaped += '\\';
    escaped += letter;
  }
  return escaped;
}

std::string FishFlag(const Flag& flag) {
  std::string commands;
  for (const Command& command : AllCommands()) {
    if (Contains(flag.commands, command.id)) commands += std::string(" ") + command.name;
  }
  std::string line =
      fmt::format("complete -c convgrad -n '__fish_seen_subcommand_from{}' -l {} -d '{}'", commands,
                  flag.name, FishText(flag.help));
  if (flag.letter != '\0') line += fmt::format(" -s {}", flag.letter);
  if (flag.value == nullptr) return line + "\n";
  const std::vector<std::string> values = ValuesOf(flag);
  if (!values.empty()) return line + fmt::format(" -x -a '{}'\n", Joined(values));
  return line + (TakesPath(flag) ? " -r -F\n" : " -x\n");
}

}  // namespace

std::string BashCompletions() {
  std::string text = fmt::format(fmt::runtime(kHead), "Bash", "bash") + R"(_convgrad() {
  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]}
  local command= word words= files=
  COMPREPLY=()
  for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    case $word in
)";
  text += "      ";
  std::string pattern;
  for (const std::string& name : CommandNames()) pattern += (pattern.empty() ? "" : "|") + name;
  text += pattern + ") command=$word; break;;\n    esac\n  done\n  case $previous in\n";
  for (const Flag& flag : AllFlags()) {
    if (flag.value == nullptr) continue;
    const std::vector<std::string> values = ValuesOf(flag);
    const std::string what = !values.empty()   ? fmt::format("words='{}'", Joined(values))
                             : TakesPath(flag) ? "files=1"
                                               : "return";
    text += fmt::format("    {}) {};;\n", BashPattern(flag), what);
  }
  text += "    *) case $command in\n";
  text += fmt::format("      '') words='{} --help --version';;\n", Joined(CommandNames()));
  for (const Command& command : AllCommands()) {
    text += fmt::format("      {}) if [[ $current == -* ]]; then\n        words='{}'\n",
                        command.name, Joined(FlagsOf(command)));
    text += fmt::format("      else words='{}'{}; fi;;\n", Joined(OperandsOf(command)),
                        TakesFiles(command) ? " files=1" : "");
  }
  return text + R"(    esac;;
  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
  if [[ $files ]]; then
    compopt -o filenames 2>/dev/null
    while IFS= read -r word; do COMPREPLY+=("$word"); done < <(compgen -f -- "$current")
  fi
}
complete -F _convgrad convgrad
)";
}

std::string ZshCompletions() {
  std::string text = "#compdef convgrad\n" + fmt::format(fmt::runtime(kHead), "Zsh", "zsh") +
                     "_convgrad() {\n  local line state\n"
                     "  _arguments -C '1:command:->command' '*::argument:->argument'\n"
                     "  case $state in\n    command)\n      local -a commands=(\n";
  for (const Command& command : AllCommands()) {
    text += fmt::format("        '{}:{}'\n", command.name, ZshText(command.summary));
  }
  text += "      )\n      _describe command commands;;\n    argument) case $line[1] in\n";
  for (const Command& command : AllCommands()) {
    text += fmt::format("      {}) _arguments -s", command.name);
    for (const Flag& flag : AllFlags()) {
      if (Contains(flag.commands, command.id)) text += " \\\n        " + ZshSpec(flag);
    }
    text += ZshOperands(command) + ";;\n";
  }
  return text +
         "    esac;;\n  esac\n}\n"
         "if [[ $funcstack[1] == _convgrad ]]; then\n  _convgrad \"$@\"\n"
         "else\n  compdef _convgrad convgrad\nfi\n";
}

std::string FishCompletions() {
  std::string text = fmt::format(fmt::runtime(kHead), "Fish", "fish") + "complete -c convgrad -f\n";
  for (const Command& command : AllCommands()) {
    text += fmt::format("complete -c convgrad -n __fish_use_subcommand -a {} -d '{}'\n",
                        command.name, FishText(command.summary));
    const std::string seen = fmt::format("-n '__fish_seen_subcommand_from {}'", command.name);
    const std::string words = Joined(OperandsOf(command));
    if (!words.empty()) text += fmt::format("complete -c convgrad {} -a '{}'\n", seen, words);
    if (TakesFiles(command)) text += fmt::format("complete -c convgrad {} -F\n", seen);
  }
  for (const Flag& flag : AllFlags()) text += FishFlag(flag);
  return text;
}

}  // namespace convgrad::cli
