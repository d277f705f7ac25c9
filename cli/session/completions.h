// Completions for shells, from the tables of commands, flags, operations and topics. Each is a file
// that the shell reads: what it completes is decided here, not by asking the tool again.
#pragma once

#include <string>

namespace convgrad::cli {

std::string BashCompletions();
std::string ZshCompletions();
std::string FishCompletions();

}  // namespace convgrad::cli
