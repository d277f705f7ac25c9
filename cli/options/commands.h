// The table of commands. Help, the manual page and dispatch follow from it.
#pragma once

#include <span>
#include <string_view>

#include "base/error.h"
#include "cli/options/flags.h"

namespace convgrad::cli {

struct Session;

struct Command {
  CommandId id;
  const char* name;
  const char* operands;  // how help calls what follows the name
  int min_operands, max_operands;
  bool operands_are_files;
  const char* summary;
  const char* examples[2];  // work from the repository's root, in the order of the table
  ExitCode (*run)(Session& session);
};

std::span<const Command> AllCommands();
const Command& InfoOf(CommandId id);

// Throws usage "command/unknown" that suggests the nearest.
const Command& FindCommand(std::string_view name);

ExitCode Run(Session& session);
ExitCode Check(Session& session);
ExitCode Diff(Session& session);
ExitCode Plan(Session& session);
ExitCode Gen(Session& session);
ExitCode Inspect(Session& session);
ExitCode Batch(Session& session);
ExitCode Merge(Session& session);
ExitCode Reduce(Session& session);
ExitCode MakePage(Session& session);
ExitCode Accept(Session& session);
ExitCode Prune(Session& session);
ExitCode Bench(Session& session);
ExitCode Import(Session& session);
ExitCode Export(Session& session);
ExitCode Replay(Session& session);
ExitCode Tune(Session& session);
ExitCode Info(Session& session);
ExitCode Help(Session& session);

}  // namespace convgrad::cli
