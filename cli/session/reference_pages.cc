#include "cli/session/reference_pages.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "cli/session/help.h"
#include "conv/plan/algorithm.h"
#include "problem/op.h"
#include "problem/precision.h"
#include "tensor/dtype.h"

namespace convgrad::cli {
namespace {

constexpr const char* kWrittenByTheTool = "\nPrinted by `convgrad help --format markdown`.\n";

// `text` with a backslash before each of `letters`.
std::string Escape(std::string_view text, std::string_view letters) {
  std::string escaped;
  for (const char letter : text) {
    if (letters.find(letter) != std::string_view::npos) escaped += '\\';
    escaped += letter;
  }
  return escaped;
}

// A cell of a table: what would end it, or be taken for emphasis or HTML, is escaped.
std::string Cell(std::string_view text) {
  return Escape(text, "|<*");
}

std::string Code(std::string_view text) {
  return fmt::format("`{}`", Escape(text, "|"));
}

std::string Codes(const auto& names) {
  std::string codes;
  for (const auto& name : names) codes += (codes.empty() ? "" : ", ") + Code(name);
  return codes;
}

std::string CommandSection() {
  std::string page = "\n## Commands\n\n| command | what it does |\n|---|---|\n";
  for (const Command& command : AllCommands()) {
    page += fmt::format("| {} | {} |\n", Code(UsageOf(command)), Cell(command.summary));
  }
  return page;
}

std::string FlagSections() {
  std::string page;
  for (const FlagGroup group : AllFlagGroups()) {
    page += fmt::format("\n## {}\n\n| flag | commands | |\n|---|---|---|\n", TitleOf(group));
    for (const Flag& flag : AllFlags()) {
      if (flag.group != group) continue;
      page += fmt::format("| {} | {} | {} |\n", Code(SpellWithValue(flag)), CommandsWith(flag),
                          Cell(flag.help));
    }
  }
  return page;
}

// Names what stands for a flag's value in a manifest.
const char* JsonOf(FlagKind kind) {
  switch (kind) {
    case FlagKind::kSwitch:
    case FlagKind::kBoolean: return "`true` or `false`";
    case FlagKind::kText: return "a string";
    case FlagKind::kInteger: return "a whole number";
    case FlagKind::kIntegers: return "an array of whole numbers, or one";
    case FlagKind::kPadding:
      return "a string, an array of whole numbers or of pairs, or one number";
    case FlagKind::kAmount: return "a string or a whole number";
    case FlagKind::kOperand: return R"(a path, or `{"fill": SPEC, "shape": [...], "seed": N}`)";
    case FlagKind::kSizes: return "an array of whole numbers, or a path";
    case FlagKind::kGolden: return R"(a path, or `{"sha256": HASH}`)";
    case FlagKind::kReads: return "an array of paths, or one";
    case FlagKind::kRead:
    case FlagKind::kWritten: return "a path";
  }
  return "";
}

std::string TypeSection() {
  std::string page = "\n## Types\n\n| type | bytes | `.npy` |\n|---|---|---|\n";
  for (const DTypeInfo& info : AllDTypes()) {
    page += fmt::format("| `{}`{} | {} | {} |\n", info.name, info.is_float ? "" : " (sizes only)",
                        info.bytes, Code(info.npy_descr));
  }
  return page;
}

// One table for operations that have the same algorithms.
std::string AlgorithmTables(Precision precision) {
  std::string page;
  std::vector<const Algorithm*> shown;
  for (const OpInfo& op : AllOps()) {
    const std::span<const Algorithm> algorithms = AlgorithmsOf(op.op, precision);
    if (std::find(shown.begin(), shown.end(), algorithms.data()) != shown.end()) continue;
    shown.push_back(algorithms.data());
    std::vector<std::string> names;
    for (const OpInfo& other : AllOps()) {
      if (AlgorithmsOf(other.op, precision).data() == algorithms.data())
        names.push_back(other.name);
    }
    const bool is_for_all = names.size() == AllOps().size();
    page += fmt::format("\n{}, precision `{}`:\n\n| algorithm | |\n|---|---|\n",
                        is_for_all ? "All operations" : Codes(names), NameOf(precision));
    for (const Algorithm& algorithm : algorithms) {
      page += fmt::format("| {} | {} |\n", Code(algorithm.name), Cell(algorithm.summary));
    }
  }
  return page;
}

std::string AlgorithmSection() {
  std::string page = "\n## Algorithms\n\nWhat `--algorithm` may name; none changes a bit.\n";
  for (const Precision precision : kAllPrecisions) page += AlgorithmTables(precision);
  return page;
}

}  // namespace

std::string OperationSection() {
  std::string page = "\n## Operations\n\n| operation | also | takes | gives |\n|---|---|---|---|\n";
  for (const OpInfo& op : AllOps()) {
    std::vector<std::string> operands = {NameOf(op.operands[0]), NameOf(op.operands[1])};
    if (op.sizes_flag != nullptr) operands.push_back(op.sizes_flag);
    page += fmt::format("| {} | {} | {} | `{}` |\n", Code(op.name), Codes(op.aliases),
                        Codes(operands), op.result);
  }
  return page +
         "\nEach name may have `tf.nn.`, `tf.compat.v1.nn.`, `tf.compat.v2.nn.` or `tf.raw_ops.` "
         "before it.\n";
}

std::string ExitCodeSection() {
  std::string page = "\n## Exit codes\n\n| code | meaning |\n|---|---|\n";
  for (const ExitCodeRow& row : AllExitCodes()) {
    page += fmt::format("| {} | {} |\n", static_cast<int>(row.code), row.meaning);
  }
  return page + fmt::format("| {} | {} |\n", kSignalExitCodes, kSignalMeaning);
}

std::string ManifestKeysPage() {
  std::string page = fmt::format(
      "\n# Keys of a manifest's cases\n{}\n[manifest.md](manifest.md) says what is around them.\n\n"
      "| key | value | |\n|---|---|---|\n"
      "| `op` | a string | the operation, by any of its names |\n"
      "| `tags` | an array of strings | what `--tag` selects by |\n"
      "| `count` | a whole number | how often the problem comes in the log that `import` took it "
      "from: `bench` weights by it; default 1 |\n",
      kWrittenByTheTool);
  for (const Flag& flag : AllFlags()) {
    if (!IsCaseKey(flag)) continue;
    page +=
        fmt::format("| {} | {} | {} |\n", Code(KeyOf(flag)), JsonOf(flag.kind), Cell(flag.help));
  }
  return page;
}

std::string ReferencePages() {
  return fmt::format("# Commands and flags\n{}", kWrittenByTheTool) + CommandSection() +
         FlagSections() + ExitCodeSection() + ManifestKeysPage() +
         fmt::format("\n# Operations, types, algorithms\n{}", kWrittenByTheTool) +
         OperationSection() + TypeSection() + AlgorithmSection();
}

}  // namespace convgrad::cli
