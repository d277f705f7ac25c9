#include "cli/options/arguments.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/nearest.h"

namespace convgrad::cli {
namespace {

// "-:NAME" is a tensor of standard input.
bool IsFlagWord(const std::string& word) {
  return word.size() > 1 && word[0] == '-' && word[1] != ':';
}

// A flag's short form.
bool IsLetter(const std::string& word) {
  return std::any_of(AllFlags().begin(), AllFlags().end(), [&word](const Flag& flag) {
    return flag.letter != '\0' && word == SpellLetter(flag);
  });
}

std::vector<std::string_view> FlagNamesOf(const Command* command) {
  std::vector<std::string_view> names;
  for (const Flag& flag : AllFlags()) {
    if (command == nullptr || Contains(flag.commands, command->id)) names.push_back(flag.name);
  }
  return names;
}

[[noreturn]] void ThrowUnknownFlag(const std::string& word, const Command* command) {
  const std::string name = word.substr(0, word.find('='));
  const std::string bare = name.substr(std::min(name.find_first_not_of('-'), name.size()));
  const std::string help =
      command == nullptr ? "convgrad help" : fmt::format("convgrad help {}", command->name);
  const auto nearest = Nearest(bare, FlagNamesOf(command));
  ThrowUsage("flag/unknown", name, "there is no such flag",
             nearest ? fmt::format("did you mean --{}?", *nearest)
                     : fmt::format("'{}' lists the flags", help));
}

}  // namespace

Arguments::Arguments(std::vector<std::string> words) : words_(std::move(words)) {
  Read({words_.begin() + 1, words_.end()});
}

// The library only splits words into flags, values and operands; what they mean, and every message,
// comes from the tables.
void Arguments::Read(std::vector<std::string> words) {
  CLI::App app;
  app.set_help_flag();
  app.allow_extras();
  std::vector<CLI::Option*> options;
  for (const Flag& flag : AllFlags()) {
    const std::string letter = SpellLetter(flag);
    const std::string names = letter.empty() ? Spell(flag) : letter + "," + Spell(flag);
    options.push_back(flag.value == nullptr ? app.add_flag(names) : app.add_option(names));
    options.back()->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  }
  std::reverse(words.begin(), words.end());
  try {
    app.parse(words);
  } catch (const CLI::ParseError& error) {
    read_error_ = error.what();
  }
  for (size_t i = 0; i < options.size(); ++i) {
    for (const std::string& value : options[i]->results()) {
      flags_.Add({AllFlags()[i].id, value, {}, {}});
    }
  }
  bool only_operands = false;  // after "--"
  for (const std::string& word : app.remaining()) {
    if (!only_operands && word == "--") {
      only_operands = true;
    } else {
      (IsFlagWord(word) && !only_operands ? unknown_ : operands_).push_back(word);
    }
  }
  if (operands_.empty()) return;
  command_name_ = operands_.front();
  operands_.erase(operands_.begin());
  for (const Command& command : AllCommands()) {
    if (command_name_ == command.name) command_ = &command;
  }
}

void Arguments::Validate() const {
  CheckValues();
  if (command_ == nullptr && !command_name_.empty()) FindCommand(command_name_);
  if (!unknown_.empty()) ThrowUnknownFlag(unknown_.front(), command_);
  if (!read_error_.empty()) ThrowUsage("flag/syntax", "command line", read_error_);
  if (Has(FlagId::kHelp) || Has(FlagId::kVersion)) return;
  if (command_ == nullptr) {
    ThrowUsage("command/missing", "command line", "names no command", "see 'convgrad help'");
  }
  CheckFlagsOfCommand();
  CheckOperands();
}

// Where a value is missing, the library takes the next flag for it.
void Arguments::CheckValues() const {
  for (size_t i = 1; i < words_.size() && words_[i] != "--"; ++i) {
    for (const Flag& flag : AllFlags()) {
      if (!LacksValue(flag, i)) continue;
      ThrowUsage("flag/value", Spell(flag), "needs a value",
                 fmt::format("give {} {}", Spell(flag), flag.value));
    }
  }
}

// Says whether the word at `i` is the flag without a value. Only lists of numbers may be empty.
bool Arguments::LacksValue(const Flag& flag, size_t i) const {
  const std::string name = Spell(flag);
  if (flag.value == nullptr) return false;
  if (words_[i] == name + "=") return true;
  if (words_[i] != name && (flag.letter == '\0' || words_[i] != SpellLetter(flag))) return false;
  if (i + 1 == words_.size() || words_[i + 1].starts_with("--") || IsLetter(words_[i + 1])) {
    return true;
  }
  return words_[i + 1].empty() && flag.kind != FlagKind::kIntegers;
}

void Arguments::CheckFlagsOfCommand() const {
  const std::vector<FlagValues::Entry>& given = flags_.entries();
  for (size_t i = 0; i < given.size(); ++i) {
    const Flag& flag = InfoOf(given[i].id);
    if (!Contains(flag.commands, command_->id)) {
      const auto nearest = Nearest(flag.name, FlagNamesOf(command_));
      ThrowUsage("flag/no-effect", Spell(flag),
                 fmt::format("has no effect on '{}'", command_->name),
                 nearest ? fmt::format("did you mean --{}?", *nearest) : "leave it out");
    }
    if (flag.value == nullptr && given[i].text != "true") {
      ThrowUsage("flag/value", Spell(flag), "is a switch and takes no value", "give it alone");
    }
    if (i > 0 && given[i - 1].id == flag.id && !flag.repeats) {
      ThrowUsage("flag/repeated", Spell(flag), "is given more than once", "keep one");
    }
  }
}

void Arguments::CheckOperands() const {
  const int count = static_cast<int>(operands_.size());
  if (std::count(operands_.begin(), operands_.end(), "") > 0) {
    ThrowUsage("command/operands", fmt::format("convgrad {}", command_->name),
               "an operand is empty", fmt::format("see 'convgrad help {}'", command_->name));
  }
  if (count >= command_->min_operands && count <= command_->max_operands) return;
  ThrowUsage("command/operands", fmt::format("convgrad {}", command_->name),
             count < command_->min_operands ? fmt::format("needs {}", command_->operands)
                                            : fmt::format("does not know what to do with '{}'",
                                                          operands_[command_->max_operands]),
             fmt::format("see 'convgrad help {}'", command_->name));
}

std::string Arguments::CommandLine() const {
  return ShellLine(words_);
}

std::string Arguments::ReproLine() const {
  const std::vector<std::string> flags = FlagWords(flags_, /*with_outputs=*/false);
  std::vector<std::string> words = {words_.front(), command_->name};
  const bool flags_first = std::any_of(operands_.begin(), operands_.end(), IsFlagWord);
  if (flags_first) {
    words.insert(words.end(), flags.begin(), flags.end());
    words.emplace_back("--");
  }
  words.insert(words.end(), operands_.begin(), operands_.end());
  if (!flags_first) words.insert(words.end(), flags.begin(), flags.end());
  return ShellLine(words);
}

}  // namespace convgrad::cli
