// Help for people, in a terminal and as a manual page, from the tables of commands and flags.
#pragma once

#include <string>

#include "cli/options/commands.h"

namespace convgrad::cli {

std::string HelpText();
std::string HelpText(const Command& command);
// The manual page as roff source.
std::string ManualPage();

}  // namespace convgrad::cli
