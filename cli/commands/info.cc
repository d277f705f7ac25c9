// The command `info`: what this program can do, and where it runs.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/parallel.h"
#include "base/resources.h"
#include "cli/case/shared_flags.h"
#include "cli/options/commands.h"
#include "cli/record/machine_json.h"
#include "cli/record/tuned.h"
#include "cli/session/session.h"
#include "cli/text/json.h"
#include "cli/text/unicode.h"
#include "conv/plan/algorithm.h"
#include "kernels/kernel_table.h"
#include "order/canonical_order.h"

namespace convgrad::cli {
namespace {

// An algorithm's name stands for one in each operation that has it.
struct AlgorithmEntry {
  std::string name;
  std::vector<std::string> ops;
  std::vector<std::string> precisions;
};

void AddOnce(std::vector<std::string>& names, const std::string& name) {
  if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
}

void AddAlgorithms(const OpInfo& op, Precision precision, std::vector<AlgorithmEntry>& entries) {
  for (const Algorithm& algorithm : AlgorithmsOf(op.op, precision)) {
    auto entry = std::find_if(entries.begin(), entries.end(),
                              [&](const auto& known) { return known.name == algorithm.name; });
    if (entry == entries.end()) entry = entries.insert(entry, {algorithm.name, {}, {}});
    AddOnce(entry->ops, op.name);
    AddOnce(entry->precisions, NameOf(precision));
  }
}

std::vector<AlgorithmEntry> AllAlgorithms() {
  std::vector<AlgorithmEntry> entries;
  for (const Precision precision : kAllPrecisions) {
    for (const OpInfo& op : AllOps()) AddAlgorithms(op, precision, entries);
  }
  return entries;
}

std::vector<std::string> FloatTypes() {
  std::vector<std::string> names;
  for (const DTypeInfo& info : AllDTypes()) {
    if (info.is_float) names.push_back(info.name);
  }
  return names;
}

std::vector<std::string> AvailableIsas() {
  std::vector<std::string> names;
  for (const KernelTable& table : SupportedKernels()) names.push_back(NameOf(table.isa));
  return names;
}

// Libraries and the like, by name.
std::vector<std::pair<std::string, std::string>> Versions() {
  return {{"build_type", kBuild.type},
          {"compiler", kBuild.compiler},
          {"tbb", ThreadingLibraryVersion()},
          {"highway", VectorLibraryVersion()},
          {"algo", kAlgo}};
}

Json MachineJson(const Machine& machine) {
  return {{"host", ToValidUtf8(machine.host)},
          {"cpu_model", machine.cpu_model},
          {"num_cpus", machine.num_cpus},
          {"usable_cpus", machine.usable_cpus},
          {"memory_bytes", machine.memory_bytes},
          {"available_memory_bytes", machine.available_memory_bytes},
          {"caches", CachesJson(machine)}};
}

// What is kept for the instruction set and number of threads that are asked for.
TunedFile TunedOf(const Arguments& arguments) {
  const Execution execution = ParseExecution(arguments.flags());
  return ReadTuned(execution.isa.value_or(SupportedKernels().front().isa),
                   ThreadsOrAll(execution.num_threads));
}

const char* StateOf(const TunedFile& file) {
  if (file.is_used()) return "used";
  return file.ignored.empty() ? "none" : "ignored";
}

Json TunedJson(const TunedFile& file) {
  return {{"state", StateOf(file)},
          {"file", ToValidUtf8(file.path)},
          {"ignored", file.ignored},
          {"date", file.date},
          {"num_choices", file.choices.size()}};
}

std::string TunedText(const TunedFile& file) {
  if (file.is_used()) {
    return fmt::format("{} choices of {}, in {}", file.choices.size(), file.date, file.path);
  }
  if (file.ignored.empty()) return "none; see 'convgrad help tune'";
  return fmt::format("none; {} is ignored: {}", file.path, file.ignored);
}

std::string RenderJson(const TunedFile& tuned) {
  Json json = {{"version", kBuild.version},      {"commit", kBuild.commit},
               {"isa", AvailableIsas().front()}, {"isa_available", AvailableIsas()},
               {"ops", Json::array()},           {"dtypes", FloatTypes()},
               {"algorithms", Json::array()}};
  for (const OpInfo& op : AllOps()) {
    json["ops"].push_back({{"name", op.name}, {"aliases", op.aliases}});
  }
  for (const AlgorithmEntry& entry : AllAlgorithms()) {
    json["algorithms"].push_back(
        {{"name", entry.name}, {"ops", entry.ops}, {"precisions", entry.precisions}});
  }
  for (const auto& [name, version] : Versions()) json["versions"][name] = version;
  json["machine"] = MachineJson(DescribeMachine());
  json["tuned"] = TunedJson(tuned);
  return DumpJson(json, 2);
}

std::string RenderText(const TunedFile& tuned) {
  const Machine machine = DescribeMachine();
  std::string text =
      fmt::format("convgrad {} ({})\n\nOperations:\n", kBuild.version, kBuild.commit);
  for (const OpInfo& op : AllOps()) {
    text += fmt::format("  {:<34}{}\n", op.name, fmt::join(op.aliases, ", "));
  }
  text +=
      "  (each also with tf.nn., tf.compat.v1.nn., tf.compat.v2.nn. or tf.raw_ops. before it)\n";
  text += fmt::format("\nTypes: {}\n", fmt::join(FloatTypes(), ", "));
  text += fmt::format("Instruction sets: {}; used: {}\n", fmt::join(AvailableIsas(), ", "),
                      AvailableIsas().front());
  text += "\nAlgorithms:\n";
  for (const AlgorithmEntry& entry : AllAlgorithms()) {
    text += fmt::format("  {:<20}{}\n  {:<20}precision {}\n", entry.name,
                        fmt::join(entry.ops, ", "), "", fmt::join(entry.precisions, ", "));
  }
  text += fmt::format("\nTuned: {}\n", TunedText(tuned));
  text += "\nVersions:\n";
  for (const auto& [name, version] : Versions()) text += fmt::format("  {:<20}{}\n", name, version);
  return text + fmt::format("\nMachine: {}, {} CPUs ({} usable), {} of memory ({} available)\n",
                            machine.cpu_model, machine.num_cpus, machine.usable_cpus,
                            FormatBytes(machine.memory_bytes),
                            FormatBytes(machine.available_memory_bytes));
}

}  // namespace

ExitCode Info(Session& session) {
  const TunedFile tuned = TunedOf(session.arguments);
  session.console.Print(session.arguments.Has(FlagId::kJson) ? RenderJson(tuned)
                                                             : RenderText(tuned));
  return ExitCode::kOk;
}

}  // namespace convgrad::cli
