#include "cli/dialects/export_case.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "base/error.h"
#include "cli/case/operands.h"

namespace convgrad::cli {
namespace {

// Flags that say how this program runs a case and what it compares with: the result to be judged is
// another's.
constexpr FlagId kNotOfChecks[] = {FlagId::kActual,  FlagId::kExpect,    FlagId::kOutput,
                                   FlagId::kProbe,   FlagId::kAlgorithm, FlagId::kIsa,
                                   FlagId::kThreads, FlagId::kPrecision, FlagId::kMaxMemory};

std::string CheckLineOf(const std::string& program, const CaseRequest& request, DType dtype) {
  FlagValues flags = request.flags;
  flags.RemoveIf([](const FlagValues::Entry& entry) {
    return std::find(std::begin(kNotOfChecks), std::end(kNotOfChecks), entry.id) !=
               std::end(kNotOfChecks) ||
           !Contains(InfoOf(entry.id).commands, CommandId::kCheck);
  });
  // NumPy writes bfloat16 as bytes that do not tell what they are.
  if (!flags.Has(FlagId::kDtype)) flags.Add({FlagId::kDtype, InfoOf(dtype).name, "", {}});
  std::vector<std::string> words = FlagWords(flags, /*with_outputs=*/false);
  words.insert(words.begin(), {program, InfoOf(CommandId::kCheck).name, request.op});
  return ShellLine(words);
}

ExportOperand OperandOf(const CaseSpec& spec, const Problem& problem, size_t index) {
  ExportOperand operand;
  operand.role = InfoOf(problem.op).operands[index];
  operand.shape = problem.ShapeOf(operand.role);
  if (operand.role == Role::kFilter) {
    operand.shape = ShapeIn(spec.conv.filter_format, InfoOf(problem.op).depthwise, operand.shape);
  }
  const std::string& text = spec.operands[index];
  if (IsFill(text)) {
    operand.fill = ParseFill(text);
    operand.seed = operand.fill->seed.value_or(spec.seed);
  } else {
    operand.path = ParseTensorPath(text);
  }
  return operand;
}

}  // namespace

void ExportCase::Refuse(const std::string& why) const {
  ThrowUsage("export/unsupported", fmt::format("export {}: {}", dialect, name), why);
}

ExportCase MakeExportCase(const std::string& dialect, const std::string& program,
                          const CaseRequest& request, const Console& console) {
  const CaseSpec spec = ParseCase(request);
  const Problem problem = Operands(spec, console).problem();
  ExportCase one = {dialect,
                    spec.name.empty() ? problem.ToLine() : spec.name,
                    problem,
                    spec.conv.filter_format,
                    {OperandOf(spec, problem, 0), OperandOf(spec, problem, 1)},
                    CheckLineOf(program, request, problem.dtype)};
  return one;
}

}  // namespace convgrad::cli
