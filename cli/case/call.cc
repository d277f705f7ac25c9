#include "cli/case/call.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "base/error.h"
#include "base/resources.h"
#include "cli/case/case.h"
#include "cli/case/case_run.h"
#include "cli/case/operands.h"
#include "cli/case/verdict.h"
#include "cli/console/console.h"
#include "conv/compute.h"

namespace convgrad::cli {
namespace {

// A library says nothing but what it returns.
const Console& Quiet() {
  static const Console console(Arguments({"convgrad", "run", "--quiet", "--color", "never"}));
  return console;
}

const Flag& FlagOfKey(CommandId command, const std::string& key) {
  for (const Flag& flag : AllFlags()) {
    if (KeyOf(flag) == key && Contains(flag.commands, command)) return flag;
  }
  ThrowUsage("flag/unknown", fmt::format("argument '{}'", key), "there is no such argument");
}

void PutTensor(CaseSpec& spec, const std::string& key, const Tensor& tensor) {
  if (key == KeyOf(InfoOf(FlagId::kActual))) spec.actual_in_memory = tensor;
  for (size_t i = 0; i < spec.operands_in_memory.size(); ++i) {
    if (key == NameOf(InfoOf(spec.conv.op).operands[i])) spec.operands_in_memory[i] = tensor;
  }
}

CaseSpec ParseCall(CommandId command, const Call& call) {
  CaseRequest request = {command, call.op, {}, FlagValues::OfCall()};
  for (const auto& [key, text] : call.arguments) {
    request.flags.Add({FlagOfKey(command, key).id, text, "", {}});
  }
  for (const auto& [key, tensor] : call.tensors) {
    request.flags.Add({FlagOfKey(command, key).id, key, "", {}});
  }
  CaseSpec spec = ParseCase(request);
  for (const auto& [key, tensor] : call.tensors) PutTensor(spec, key, tensor);
  return spec;
}

bool IsFlagLetter(char letter) {
  return letter == '-' || std::isalnum(static_cast<unsigned char>(letter)) != 0;
}

}  // namespace

Tensor ComputeCall(const Call& call) {
  const CaseSpec spec = ParseCall(CommandId::kRun, call);
  Operands operands(spec, Quiet());
  const Parallel parallel(ThreadsOrAll(spec.execution.num_threads));
  operands.Load(parallel);
  const Tensor result =
      Compute(operands.problem(), operands.first(), operands.second(), spec.execution);
  return operands.border().Result(result, parallel);
}

CallVerdict CheckCall(const Call& call, bool keep_errors) {
  CaseSpec spec = ParseCall(CommandId::kCheck, call);
  spec.compare.keep_errors = keep_errors;
  CallVerdict verdict;
  CaseRun run(std::move(spec), CaseOptions{}, Quiet(), verdict.entry);
  RunCase(run);
  verdict.text = DescribeCheck(Quiet(), run.problem().ToLine() + " against the exact value",
                               *verdict.entry.check);
  return verdict;
}

std::string NameArguments(const std::string& text) {
  std::string named;
  for (size_t at = 0; at < text.size();) {
    size_t end = at;
    while (end < text.size() && IsFlagLetter(text[end])) ++end;
    const std::string word = text.substr(at, std::max<size_t>(end - at, 1));
    const auto flags = AllFlags();
    const auto flag = std::find_if(flags.begin(), flags.end(),
                                   [&word](const Flag& one) { return Spell(one) == word; });
    named += flag == flags.end() ? word : KeyOf(*flag);
    at += word.size();
  }
  return named;
}

}  // namespace convgrad::cli
