#include "cli/case.h"

#include <fmt/format.h>

#include <limits>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "cli/values.h"

namespace convgrad::cli {
namespace {

FlagId FlagIdOf(Role role) {
  switch (role) {
    case Role::kInput: return FlagId::kInput;
    case Role::kFilter: return FlagId::kFilter;
    case Role::kOutBackprop: return FlagId::kOutBackprop;
  }
  ThrowInternal("unknown role");
}

// The flag of the op's sizes vector; none for the forward ops.
std::optional<FlagId> SizesFlagOf(const OpInfo& op) {
  if (op.direction == Direction::kBackpropFilter) return FlagId::kFilterSizes;
  if (op.direction == Direction::kBackpropInput) return FlagId::kInputSizes;
  return std::nullopt;
}

std::vector<FlagId> OperandFlagsOf(const OpInfo& op) {
  std::vector<FlagId> flags = {FlagIdOf(op.operands[0]), FlagIdOf(op.operands[1])};
  if (const auto sizes = SizesFlagOf(op)) flags.push_back(*sizes);
  return flags;
}

// Each operation takes its own operands: all of them and no others.
void CheckOperandFlags(const Arguments& arguments, const OpInfo& op) {
  const std::vector<FlagId> needed = OperandFlagsOf(op);
  std::string list;
  for (const FlagId id : needed) list += (list.empty() ? "" : ", ") + Spell(InfoOf(id));
  for (const FlagId id : {FlagId::kInput, FlagId::kFilter, FlagId::kOutBackprop,
                          FlagId::kFilterSizes, FlagId::kInputSizes}) {
    const bool is_needed = std::find(needed.begin(), needed.end(), id) != needed.end();
    const std::string flag = Spell(InfoOf(id));
    if (is_needed && !arguments.Has(id)) {
      ThrowUsage("operand/missing", flag, fmt::format("{} needs it", op.name),
                 fmt::format("give {}", list));
    }
    if (!is_needed && arguments.Has(id)) {
      ThrowUsage("operand/unexpected", flag, fmt::format("has no effect on {}", op.name),
                 fmt::format("it takes {}", list));
    }
  }
}

void CheckStandardInput(const Arguments& arguments) {
  std::string first;
  for (const FlagId id : {FlagId::kInput, FlagId::kFilter, FlagId::kOutBackprop,
                          FlagId::kFilterSizes, FlagId::kInputSizes, FlagId::kExpect}) {
    if (arguments.Get(id, "") != "-") continue;
    const std::string flag = Spell(InfoOf(id));
    if (!first.empty()) {
      ThrowUsage("operand/stdin", fmt::format("{} - and {} -", first, flag),
                 "only one can come from standard input", "give the other a file");
    }
    first = flag;
  }
}

// The row of `choices` that the flag names, or `otherwise` without the flag.
template <class Value, size_t count>
Value ChoiceOf(const Arguments& arguments, FlagId id, const Value (&values)[count],
               Value otherwise) {
  const std::string* text = arguments.Find(id);
  if (text == nullptr) return otherwise;
  std::vector<std::string_view> names;
  for (const Value& value : values) names.push_back(NameOf(value));
  return values[ParseChoice(Spell(InfoOf(id)), *text, names)];
}

std::vector<int64_t> ListOf(const Arguments& arguments, FlagId id,
                            const std::vector<int64_t>& otherwise) {
  const std::string* text = arguments.Find(id);
  return text == nullptr ? otherwise : ParseIntegers(Spell(InfoOf(id)), *text);
}

ConvSpec ParseConv(const Arguments& arguments) {
  constexpr Padding kPaddings[] = {Padding::kSame, Padding::kValid, Padding::kExplicit};
  constexpr DataFormat kDataFormats[] = {DataFormat::kNHWC, DataFormat::kNCHW};
  ConvSpec conv;
  conv.op = ParseOp(arguments.operands().front());
  conv.padding = ChoiceOf(arguments, FlagId::kPadding, kPaddings, conv.padding);
  conv.data_format = ChoiceOf(arguments, FlagId::kDataFormat, kDataFormats, conv.data_format);
  conv.strides = ListOf(arguments, FlagId::kStrides, conv.strides);
  conv.dilations = ListOf(arguments, FlagId::kDilations, conv.dilations);
  conv.explicit_paddings = ListOf(arguments, FlagId::kExplicitPaddings, conv.explicit_paddings);
  return conv;
}

std::optional<Isa> ParseIsaFlag(const Arguments& arguments) {
  const std::string text = arguments.Get(FlagId::kIsa, "auto");
  std::vector<std::string_view> names = {"auto"};
  for (const Isa isa : kAllIsas) names.push_back(NameOf(isa));
  const size_t choice = ParseChoice("--isa", text, names);
  return choice == 0 ? std::nullopt : std::optional(kAllIsas[choice - 1]);
}

Execution ParseExecution(const Arguments& arguments) {
  constexpr std::string_view kPrecisions[] = {"standard"};
  ParseChoice("--precision", arguments.Get(FlagId::kPrecision, "standard"), kPrecisions);
  Execution execution;
  execution.num_threads = ParseThreads(arguments);
  execution.isa = ParseIsaFlag(arguments);
  if (const std::string* name = arguments.Find(FlagId::kAlgorithm)) execution.algorithm = *name;
  if (const std::string* size = arguments.Find(FlagId::kMaxMemory)) {
    execution.max_memory_bytes = ParseMemory("--max-memory", *size);
  }
  return execution;
}

std::optional<bool> ParseBoolean(const Arguments& arguments, FlagId id) {
  constexpr std::string_view kBooleans[] = {"false", "true"};
  const std::string* text = arguments.Find(id);
  if (text == nullptr) return std::nullopt;
  return ParseChoice(Spell(InfoOf(id)), *text, kBooleans) == 1;
}

}  // namespace

std::optional<DType> ParseDTypeFlag(const Arguments& arguments) {
  const std::string* text = arguments.Find(FlagId::kDtype);
  if (text == nullptr) return std::nullopt;
  std::vector<std::string_view> names;
  for (const DTypeInfo& info : AllDTypes()) {
    if (info.is_float) names.push_back(info.name);
  }
  ParseChoice("--dtype", *text, names);
  return ParseDType(*text);
}

uint64_t ParseSeed(const Arguments& arguments) {
  const std::string* text = arguments.Find(FlagId::kSeed);
  if (text == nullptr) return 0;
  return static_cast<uint64_t>(
      ParseInteger("--seed", *text, 0, std::numeric_limits<int64_t>::max()));
}

int ParseThreads(const Arguments& arguments) {
  const std::string text = arguments.Get(FlagId::kThreads, "all");
  return text == "all" ? 0 : static_cast<int>(ParseInteger("--threads", text, 1, kMaxThreads));
}

std::string FlagOf(Role role) {
  return Spell(InfoOf(FlagIdOf(role)));
}

CaseSpec ParseCase(const Arguments& arguments) {
  CaseSpec spec;
  spec.conv = ParseConv(arguments);
  const OpInfo& op = InfoOf(spec.conv.op);
  CheckOperandFlags(arguments, op);
  spec.dtype = ParseDTypeFlag(arguments);
  for (int i = 0; i < 2; ++i) spec.operands[i] = arguments.Get(FlagIdOf(op.operands[i]), "");
  if (const auto sizes = SizesFlagOf(op)) spec.sizes = arguments.Get(*sizes, "");
  CheckStandardInput(arguments);
  spec.seed = ParseSeed(arguments);
  spec.allow_trailing = arguments.Has(FlagId::kAllowTrailing);
  spec.use_cudnn_on_gpu = ParseBoolean(arguments, FlagId::kUseCudnnOnGpu);
  spec.name = arguments.Get(FlagId::kName, "");
  spec.execution = ParseExecution(arguments);
  return spec;
}

}  // namespace convgrad::cli
