#include "cli/options/commands.h"

#include <fmt/format.h>

#include <limits>
#include <string>
#include <vector>

#include "base/nearest.h"
#include "problem/framework_op.h"
#include "problem/op.h"

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
     "compute one operation from files to a file",
     {"convgrad run conv2d_backprop_filter --padding SAME --input data/real/digits_conv1.input.npy "
      "--filter-sizes 3,3,1,8 --out-backprop data/real/digits_conv1.out_backprop.npy "
      "--output filter_gradient.npy",
      "convgrad run depthwise_conv2d_backprop_filter --padding SAME --input fill:normal@8,56,56,32 "
      "--filter-sizes 3,3,32,1 --out-backprop fill:normal --strides 2 --precision exact "
      "--images 1/2 --partial part-1.cgp --report report.json"},
     Run},
    {CommandId::kCheck,
     "check",
     "OP",
     1,
     1,
     false,
     "hold your kernel's result against the exact value, or this program's against a golden",
     {"convgrad check conv2d_backprop_filter --padding SAME --input "
      "data/real/digits_conv1.input.npy "
      "--filter-sizes 3,3,1,8 --out-backprop data/real/digits_conv1.out_backprop.npy "
      "--actual data/real/digits_conv1.filter_gradient.npy",
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
     "compare the tensors of two files, the second being the golden",
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
     "show a tensor's type, shape, statistics and data hash; of a file of several, list them",
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
    {CommandId::kReduce,
     "reduce",
     "PART...",
     1,
     kMany,
     true,
     "put parts of one result together that run --partial wrote, in any order: the bits of one run",
     {"convgrad reduce part-1.cgp --images 0:4 --output half.npy",
      "convgrad reduce part-1.cgp --partial again.cgp"},
     Reduce},
    {CommandId::kReport,
     "report",
     "REPORT|EVENTS...",
     1,
     kMany,
     true,
     "make one page of reports to look at in a browser; several stand side by side",
     {"convgrad report report.json --output page.html",
      "convgrad report whole.json report.json --output page.html"},
     MakePage},
    {CommandId::kAccept,
     "accept",
     "DIR|FILE...",
     1,
     kMany,
     false,
     "make results that batch --write-pending left for review the goldens; first show how they "
     "differ",
     {"convgrad accept review --list", "convgrad accept review --reason 'the new rounding'"},
     Accept},
    {CommandId::kPrune,
     "prune",
     "MANIFEST...",
     1,
     kMany,
     true,
     "list the recorded goldens beside manifests and beneath that none of their cases names",
     {"convgrad prune data/golden/manifest.json",
      "convgrad prune data/golden/manifest.json >unnamed.txt"},
     Prune},
    {CommandId::kBench,
     "bench",
     "OP|MANIFEST",
     1,
     1,
     false,
     "verify operations, then time them; hold them against the machine and an earlier report, or "
     "one report against another",
     {"convgrad bench depthwise_conv2d_backprop_filter --padding SAME --input "
      "fill:normal@8,56,56,128 "
      "--filter-sizes 3,3,128,1 --out-backprop fill:normal --threads 1,2 --report bench.json",
      "convgrad bench data/workloads.jsonl --match 'dw3_7x7*' --tag filter,float32 "
      "--max-time 200ms"},
     Bench},
    {CommandId::kImport,
     "import",
     "DIALECT FILE|-",
     2,
     2,
     false,
     "make a manifest of the convolutions in another program's log: onednn, benchdnn, pytorch, "
     "miopen, cudnn or hipdnn",
     {"convgrad import onednn data/logs/onednn3.log --output cases.jsonl",
      "convgrad import benchdnn data/logs/benchdnn.txt --output -"},
     Import},
    {CommandId::kExport,
     "export",
     "DIALECT OP|MANIFEST",
     2,
     2,
     false,
     "write a case as another program takes it: a line for benchdnn or miopen, a script for "
     "pytorch, tensorflow, jax or onnx",
     {"convgrad export pytorch conv2d --padding SAME --input fill:normal@2,14,14,8 "
      "--filter fill:normal@3,3,8,16 --output conv.py",
      "convgrad export benchdnn data/workloads.jsonl --match 'dw3_7x7*' --tag filter,nhwc,float32"},
     Export},
    {CommandId::kReplay,
     "replay",
     "LOG|-",
     1,
     1,
     true,
     "time the convolutions of another program's log, weighted by how often they came, or check "
     "them",
     {"convgrad replay data/logs/onednn3.log --max-time 50ms --threads 1",
      "convgrad replay data/logs/pytorch.log --check"},
     Replay},
    {CommandId::kTune,
     "tune",
     "[MANIFEST]",
     0,
     1,
     true,
     "measure which algorithms are the quickest on this machine, and keep where the default is not",
     {"convgrad tune data/workloads.jsonl --match 'dw3_7x7*' --threads 1 --seconds 2s",
      "convgrad tune --threads 1 --forget"},
     Tune},
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
     "[COMMAND|TOPIC]",
     0,
     1,
     false,
     "explain a command or a topic: ops, fills, tolerances, verdicts, manifest, exit-codes",
     {"convgrad help run", "convgrad help fills"},
     Help},
};

constexpr bool CommandsAreInEnumOrder() {
  for (size_t i = 0; i < std::size(kCommands); ++i) {
    if (static_cast<size_t>(kCommands[i].id) != i) return false;
  }
  return std::size(kCommands) == static_cast<size_t>(CommandId::kHelp) + 1;
}
static_assert(CommandsAreInEnumOrder());

// Names a word that stands where a command should, but is given to one; null for anything else.
const char* CommandFor(std::string_view word) {
  const auto ends = [word](std::string_view ending) { return word.ends_with(ending); };
  if (ends(".npy")) return "inspect";
  if (ends(".json") || ends(".jsonl") || ends(".ndjson")) return "batch";
  if (FindFrameworkOp(word) || !AdviceOnFrameworkOp(word).empty()) return "run";
  try {
    ParseOp(word);
    return "run";
  } catch (const Error&) {
    return nullptr;
  }
}

}  // namespace

std::span<const Command> AllCommands() {
  return kCommands;
}

const Command& InfoOf(CommandId id) {
  return kCommands[static_cast<size_t>(id)];
}

const Command& FindCommand(std::string_view name) {
  if (const char* command = CommandFor(name)) {
    ThrowUsage("command/forgotten", fmt::format("'{}'", name), "no command stands before it",
               fmt::format("did you mean 'convgrad {} {} ...'?", command, name));
  }
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
