// The words that the user typed, taken apart by the tables of commands and flags. Knows which flag
// goes with which command; must not know what values mean.
#pragma once

#include <string>
#include <vector>

#include "cli/options/commands.h"
#include "cli/options/flag_values.h"
#include "cli/options/flags.h"

namespace convgrad::cli {

class Arguments {
 public:
  // Reads what can be read, even where something is wrong: an error still wants to know of
  // --report. `words` with the program's own name first.
  explicit Arguments(std::vector<std::string> words);

  // Throws the usage error of the first thing wrong, if any.
  void Validate() const;

  // The command; null before Validate() if there is none.
  const Command* command() const { return command_; }
  const std::vector<std::string>& operands() const { return operands_; }

  const FlagValues& flags() const { return flags_; }
  bool Has(FlagId id) const { return flags_.Has(id); }
  // The value given, or null.
  const std::string* Find(FlagId id) const { return flags_.Find(id); }
  std::string Get(FlagId id, const std::string& otherwise) const {
    return flags_.Get(id, otherwise);
  }

  const std::string& program() const { return words_.front(); }
  // All, the program's name first.
  const std::vector<std::string>& words() const { return words_; }
  // The command line as a shell takes it.
  std::string CommandLine() const;
  // A command line that repeats the case alone.
  std::string ReproLine() const;

 private:
  void Read(std::vector<std::string> words);
  void CheckValues() const;
  bool LacksValue(const Flag& flag, size_t i) const;
  void CheckFlagsOfCommand() const;
  void CheckOperands() const;

  std::vector<std::string> words_;
  std::string read_error_;  // of the library that splits the words
  std::string command_name_;
  const Command* command_ = nullptr;   // null: none, or no such command
  std::vector<std::string> operands_;  // positional words after the command
  FlagValues flags_;
  std::vector<std::string> unknown_;
};

}  // namespace convgrad::cli
