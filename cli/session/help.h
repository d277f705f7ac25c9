// Help for people, in a terminal and as a manual page, from the tables of commands and flags.
#pragma once

#include <span>
#include <string>

#include "base/error.h"
#include "cli/options/commands.h"
#include "cli/options/flags.h"

namespace convgrad::cli {

struct ExitCodeRow {
  ExitCode code;
  const char* meaning;
};

// In ascending order; after them come kSignalExitCodes.
std::span<const ExitCodeRow> AllExitCodes();
inline constexpr const char* kSignalExitCodes = "128+n";
inline constexpr const char* kSignalMeaning = "ended by signal n, after finished results were kept";

// The groups of flags in the order in which help shows them.
std::span<const FlagGroup> AllFlagGroups();

// "convgrad diff A B [FLAG]...".
std::string UsageOf(const Command& command);
// "--strides N,...", "-o, --output F".
std::string SpellWithValue(const Flag& flag);
// The names of the commands that a flag has an effect on: "run, check".
std::string CommandsWith(const Flag& flag);

// For a terminal of so many columns.
std::string HelpText(size_t width);
std::string HelpText(const Command& command, size_t width);
// The manual page as roff source.
std::string ManualPage();

}  // namespace convgrad::cli
