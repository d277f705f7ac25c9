#include "cli/options/commands.h"

#include <fmt/format.h>

#include <limits>
#include <string>
#include <vector>

#include "base/nearest.h"

namespace convgrad::cli {
namespace {

constexpr int kMany = std::numeric_limits<int>::max();

// In the order of the enum.
constexpr Command kCommands[] = {
    {CommandId::kRun,
     "run",
     "OP",
     1,
     1,
     false,
     "compute one operation from .npy files to a .npy file",
     {"convgrad run conv2d_backprop_filter --padding SAME --input data/real/digits_conv1.input.npy "
      "--filter-sizes 3,3,1,8 --out-backprop data/real/digits_conv1.out_backprop.npy "
      "--output filter_gradient.npy",
      "convgrad run depthwise_conv2d --padding SAME --input fill:normal@8,56,56,32 "
      "--filter fill:normal@3,3,32,1 --strides 2 --report report.json"},
     Run},
    {CommandId::kCheck,
     "check",
     "OP",
     1,
     1,
     false,
     "compute, then compare with a golden file or with the built-in reference",
     {"convgrad check conv2d_backprop_filter --padding SAME --input "
      "data/real/digits_conv1.input.npy "
      "--filter-sizes 3,3,1,8 --out-backprop data/real/digits_conv1.out_backprop.npy "
      "--expect data/real/digits_conv1.filter_gradient.npy",
      "convgrad check conv2d --padding SAME --input fill:normal@2,14,14,8 --filter "
      "fill:normal@3,3,8,16 "
      "--dtype bfloat16 --probe"},
     Check},
    {CommandId::kDiff,
     "diff",
     "A B",
     2,
     2,
     true,
     "compare two .npy files, the second being the golden",
     {"convgrad diff filter_gradient.npy data/real/digits_conv1.filter_gradient.npy "
      "--tolerance rtol:1e-4,atol:1e-5",
      "convgrad diff filter_gradient.npy filter_gradient.npy --tolerance bits"},
     Diff},
    {CommandId::kPlan,
     "plan",
     "OP|MANIFEST",
     1,
     1,
     false,
     "show shapes, work, memory and the chosen algorithm, or how a manifest would be dealt to "
     "shards; runs nothing",
     {"convgrad plan conv2d_backprop_input --padding SAME --input-sizes 8,56,56,64 "
      "--filter fill:normal@3,3,64,64 --out-backprop fill:normal",
      "convgrad plan data/golden/manifest.json --shards 4"},
     Plan},
    {CommandId::kGen,
     "gen",
     "",
     0,
     0,
     false,
     "write a seeded tensor, the same that fill:SPEC would have used",
     {"convgrad gen --fill normal --shape 8,56,56,32 --seed 7 --output x.npy",
      "convgrad gen --fill integer --shape 3,3,32,1 --dtype float16 --role filter "
      "--output w.npy"},
     Gen},
    {CommandId::kInspect,
     "inspect",
     "F...",
     1,
     kMany,
     true,
     "show a .npy file's header, statistics and data hash",
     {"convgrad inspect data/real/digits_conv1.input.npy", "convgrad inspect x.npy w.npy"},
     Inspect},
    {CommandId::kBatch,
     "batch",
     "MANIFEST",
     1,
     1,
     true,
     "run the cases of a manifest, and check those that have a golden",
     {"convgrad batch data/golden/manifest.json --report report.json",
      "convgrad batch data/golden/manifest.json --match '*depthwise*' --events events.jsonl "
      "--resume"},
     Batch},
    {CommandId::kMerge,
     "merge",
     "REPORT...",
     1,
     kMany,
     true,
     "make one report of those of all shards of a batch",
     {"convgrad merge report.json --report whole.json --junit junit.xml",
      "convgrad merge whole.json --summary summary.md --report -"},
     Merge},
    {CommandId::kBench,
     "bench",
     "OP|MANIFEST",
     1,
     1,
     false,
     "verify operations, then time them; hold them against the machine and an earlier report",
     {"convgrad bench depthwise_conv2d_backprop_filter --padding SAME --input "
      "fill:normal@8,56,56,128 "
      "--filter-sizes 3,3,128,1 --out-backprop fill:normal --threads 1,2 --report bench.json",
      "convgrad bench data/workloads.jsonl --match 'dw3_7x7*' --tag filter,float32 "
      "--max-time 200ms"},
     Bench},
    {CommandId::kInfo,
     "info",
     "",
     0,
     0,
     false,
     "show operations, types, instruction sets, algorithms, versions and the machine",
     {"convgrad info", "convgrad info --json"},
     Info},
    {CommandId::kHelp,
     "help",
     "[COMMAND]",
     0,
     1,
     false,
     "explain a command",
     {"convgrad help", "convgrad help run"},
     Help},
};

constexpr bool CommandsAreInEnumOrder() {
  for (size_t i = 0; i < std::size(kCommands); ++i) {
    if (static_cast<size_t>(kCommands[i].id) != i) return false;
  }
  return std::size(kCommands) == static_cast<size_t>(CommandId::kHelp) + 1;
}
static_assert(CommandsAreInEnumOrder());

}  // namespace

std::span<const Command> AllCommands() {
  return kCommands;
}

const Command& InfoOf(CommandId id) {
  return kCommands[static_cast<size_t>(id)];
}

const Command& FindCommand(std::string_view name) {
  std::vector<std::string_view> names;
  std::string list;
  for (const Command& command : kCommands) {
    if (name == command.name) return command;
    names.push_back(command.name);
    list += (list.empty() ? "" : ", ") + std::string(command.name);
  }
  const auto nearest = Nearest(name, names);
  ThrowUsage("command/unknown", fmt::format("command '{}'", name.substr(0, 100)),
             "there is no such command",
             nearest ? fmt::format("did you mean {}?", *nearest) : "the commands are " + list);
}

}  // namespace convgrad::cli
