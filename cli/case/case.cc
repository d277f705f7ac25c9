#include "cli/case/case.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "cli/case/golden.h"
#include "cli/case/images.h"
#include "cli/case/padding_advice.h"
#include "cli/case/shared_flags.h"
#include "cli/text/number_list.h"
#include "cli/text/values.h"
#include "files/tensor_file.h"
#include "problem/attributes.h"
#include "problem/framework_op.h"
#include "verify/truth/fill.h"

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

constexpr FlagId kOperandFlags[] = {FlagId::kInput, FlagId::kFilter, FlagId::kOutBackprop,
                                    FlagId::kFilterSizes, FlagId::kInputSizes};

// Each operation takes its own operands: all of them and no others.
void CheckOperandFlags(const FlagValues& flags, const OpInfo& op) {
  const std::vector<FlagId> needed = OperandFlagsOf(op);
  std::string list;
  for (const FlagId id : needed) list += (list.empty() ? "" : ", ") + flags.NameOf(id);
  for (const FlagId id : kOperandFlags) {
    const bool is_needed = Contains(needed, id);
    if (is_needed == flags.Has(id)) continue;
    flags.Parse(id, [&](const std::string& name) {
      if (is_needed) {
        ThrowUsage("operand/missing", name, fmt::format("{} needs it", op.name),
                   fmt::format("give {}", list));
      }
      ThrowUsage("operand/unexpected", name, fmt::format("has no effect on {}", op.name),
                 fmt::format("it takes {}", list));
    });
  }
}

void CheckStandardInput(const FlagValues& flags) {
  std::string first, first_text;
  for (const FlagId id :
       {FlagId::kInput, FlagId::kFilter, FlagId::kOutBackprop, FlagId::kFilterSizes,
        FlagId::kInputSizes, FlagId::kActual, FlagId::kExpect}) {
    const std::string text = flags.Get(id, "");
    if (!IsStandardStream(text)) continue;
    if (first.empty()) {
      first = flags.NameOf(id);
      first_text = text;
    } else if (text == "-" || first_text == "-") {
      ThrowUsage("operand/stdin",
                 fmt::format("{} {} and {} {}", first, first_text, flags.NameOf(id), text),
                 "only one can come from standard input",
                 "give the other a file, or send a .npz and name its tensors, as in -:x and -:w");
    }
  }
}

std::vector<int64_t> ListOf(const FlagValues& flags, FlagId id,
                            const std::vector<int64_t>& otherwise) {
  const std::string* text = flags.Find(id);
  if (text == nullptr) return otherwise;
  return flags.Parse(id, [&](const std::string& name) {
    if (text->empty()) {
      ThrowUsage("flag/value", name, "needs a value",
                 "give whole numbers with commas between them");
    }
    return ParseIntegers(name, *text);
  });
}

// Pads as --padding has them: one number for all sides, two for height and width, else as
// --explicit-paddings.
std::vector<int64_t> ParsePads(const std::string& name, const std::string& text) {
  const NumberList list = ParseNumberList(name, text);
  const std::vector<int64_t>& v = list.values;
  if (!list.in_pairs && v.size() == 1) return {v[0], v[0], v[0], v[0]};
  if (!list.in_pairs && v.size() == 2) return {v[0], v[0], v[1], v[1]};
  if (v.size() == 4 || v.size() == 8) return v;
  ThrowUsage("flag/value", fmt::format("{} '{}'", name, text.substr(0, 100)),
             list.in_pairs ? fmt::format("has {} pairs", v.size() / 2)
                           : fmt::format("has {} numbers", v.size()),
             "give 1, 2 (height, width), 4 (top,bottom,left,right) or 8 numbers, 2 or 4 pairs, "
             "SAME or VALID");
}

void ParsePadding(const FlagValues& flags, ConvSpec& conv) {
  constexpr Padding kPaddings[] = {Padding::kSame, Padding::kValid, Padding::kExplicit};
  const std::string text = flags.Get(FlagId::kPadding, "");
  if (const std::string* pads = flags.Find(FlagId::kExplicitPaddings)) {
    conv.explicit_paddings = flags.Parse(FlagId::kExplicitPaddings, [&](const std::string& name) {
      return ParseNumberList(name, *pads).values;
    });
  }
  if (!LooksLikeNumbers(text)) {
    conv.padding = ChoiceOf(flags, FlagId::kPadding, kPaddings, conv.padding);
    return;
  }
  conv.padding = Padding::kExplicit;
  if (flags.Has(FlagId::kExplicitPaddings)) {
    flags.Parse(FlagId::kExplicitPaddings, [&](const std::string& name) {
      ThrowUsage("flag/conflict", name,
                 fmt::format("{} {} has the pads already", flags.NameOf(FlagId::kPadding), text),
                 "leave one of them out");
    });
  }
  conv.explicit_paddings =
      flags.Parse(FlagId::kPadding, [&](const std::string& name) { return ParsePads(name, text); });
}

void CheckAttributesOf(const FlagValues& flags, const ConvSpec& conv) {
  try {
    CheckAttributes(conv);
  } catch (const Error& error) {
    for (const FlagId id : {FlagId::kStrides, FlagId::kDilations, FlagId::kExplicitPaddings}) {
      if (error.code() != "attribute/" + KeyOf(InfoOf(id))) continue;
      const bool in_padding = id == FlagId::kExplicitPaddings && !flags.Has(id);
      flags.Refuse(in_padding ? FlagId::kPadding : id, error);
    }
    throw;
  }
}

std::optional<int64_t> ParseGroups(const FlagValues& flags) {
  const std::string* text = flags.Find(FlagId::kGroups);
  if (text == nullptr) return std::nullopt;
  return flags.Parse(FlagId::kGroups, [&](const std::string& name) {
    return ParseInteger(name, *text, 1, kMaxDimension);
  });
}

ConvSpec ParseConv(const CaseRequest& request) {
  constexpr DataFormat kDataFormats[] = {DataFormat::kNHWC, DataFormat::kNCHW};
  const FlagValues& flags = request.flags;
  ConvSpec conv;
  conv.op = ParseOpOf(request);
  if (const auto foreign = FindFrameworkOp(request.op)) {
    conv.data_format = foreign->data_format;
    conv.filter_format = foreign->filter_format;
  }
  conv.data_format = ChoiceOf(flags, FlagId::kDataFormat, kDataFormats, conv.data_format);
  conv.filter_format =
      ChoiceOf(flags, FlagId::kFilterFormat, kAllFilterFormats, conv.filter_format);
  conv.strides = ListOf(flags, FlagId::kStrides, conv.strides);
  conv.dilations = ListOf(flags, FlagId::kDilations, conv.dilations);
  ParsePadding(flags, conv);
  conv.groups = ParseGroups(flags);
  // Without a padding, whether the others are right is told once there is one.
  if (flags.Has(FlagId::kPadding)) CheckAttributesOf(flags, conv);
  return conv;
}

std::optional<bool> ParseBoolean(const FlagValues& flags, FlagId id) {
  constexpr std::string_view kBooleans[] = {"false", "true"};
  const std::string* text = flags.Find(id);
  if (text == nullptr) return std::nullopt;
  return flags.Parse(
      id, [&](const std::string& name) { return ParseChoice(name, *text, kBooleans) == 1; });
}

void RefuseBesideActual(const FlagValues& flags, FlagId other, const char* why, const char* fix) {
  if (!flags.Has(other)) return;
  flags.Parse(other, [&](const std::string& name) {
    const std::string actual = flags.NameOf(FlagId::kActual);
    ThrowUsage("flag/conflict", fmt::format("{} and {}", actual, name), why, fix);
  });
}

// Either someone's result is under test, or ours.
void CheckSides(const FlagValues& flags) {
  if (!flags.Has(FlagId::kActual)) {
    if (!flags.Has(FlagId::kOperandRounding)) return;
    flags.Refuse(FlagId::kOperandRounding,
                 Error(ExitCode::kUsage, "flag/missing", flags.NameOf(FlagId::kOperandRounding),
                       "says how a kernel under test rounds, and none is",
                       fmt::format("give its result with {}", flags.NameOf(FlagId::kActual))));
  }
  RefuseBesideActual(flags, FlagId::kExpect,
                     "the first is held against the exact value, not against a golden",
                     "give one of them; 'convgrad diff' compares two files");
  RefuseBesideActual(flags, FlagId::kProbe, "a probe tests this program, not the file",
                     "leave the probe out, or give it results on integers: --input fill:integer");
}

// A hash knows equal and other bits alone.
void CheckTolerance(const FlagValues& flags, const Tolerance& tolerance) {
  if (tolerance.kind == Tolerance::Kind::kAuto || tolerance.kind == Tolerance::Kind::kBits) return;
  flags.Parse(FlagId::kTolerance, [&](const std::string& name) {
    ThrowUsage("flag/no-effect", fmt::format("{} {}", name, tolerance.ToString()),
               "a hash can only be compared by bits", "leave it out, or give a golden file");
  });
}

// A fill's words are checked here, a file when it is opened.
std::string ParseOperand(const FlagValues& flags, FlagId id) {
  std::string text = flags.Get(id, "");
  if (IsFill(text)) flags.Parse(id, [&](const std::string&) { return ParseFill(text); });
  return text;
}

std::optional<std::string> TextOf(const FlagValues& flags, FlagId id) {
  const std::string* text = flags.Find(id);
  return text == nullptr ? std::nullopt : std::optional(*text);
}

}  // namespace

bool CaseSpec::NamesGoldenFile() const {
  return expect && !ParseGoldenHash(*expect);
}

std::string FlagOf(Role role) {
  return Spell(InfoOf(FlagIdOf(role)));
}

Op ParseOpOf(const CaseRequest& request) {
  try {
    if (const auto foreign = FindFrameworkOp(request.op)) return foreign->op;
    const std::string advice = AdviceOnFrameworkOp(request.op);
    if (advice.empty()) return ParseOp(request.op);
    ThrowUsage("op/several", fmt::format("op '{}'", request.op),
               "stands for more than one operation", advice);
  } catch (const Error& error) {
    request.flags.RefuseAt(request.op_place, error);
  }
}

void CheckCaseName(const std::string& code, const std::string& what, const std::string& name) {
  constexpr size_t kMaxNameBytes = 4096;
  const bool has_control = std::ranges::any_of(name, [](char letter) {
    return static_cast<unsigned char>(letter) < 0x20 || letter == 0x7F;
  });
  if (!name.empty() && name.size() <= kMaxNameBytes && !has_control) return;
  ThrowUsage(code, what,
             has_control    ? "it contains a control character"
             : name.empty() ? "it is empty"
                            : fmt::format("it has {} bytes", name.size()),
             fmt::format("use 1 to {} printable characters", kMaxNameBytes));
}

bool TakesFlag(Op op, FlagId id) {
  return !Contains(kOperandFlags, id) || Contains(OperandFlagsOf(InfoOf(op)), id);
}

CaseRequest RequestOf(const Arguments& arguments) {
  return {arguments.command()->id, arguments.operands().front(), {}, arguments.flags()};
}

CaseSpec ParseCase(const CaseRequest& request) {
  const FlagValues& flags = request.flags;
  CaseSpec spec;
  spec.conv = ParseConv(request);
  const OpInfo& op = InfoOf(spec.conv.op);
  CheckOperandFlags(flags, op);
  spec.dtype = ParseDTypeFlag(flags);
  for (int i = 0; i < 2; ++i) spec.operands[i] = ParseOperand(flags, FlagIdOf(op.operands[i]));
  if (const auto sizes = SizesFlagOf(op)) spec.sizes = flags.Get(*sizes, "");
  CheckStandardInput(flags);
  spec.seed = ParseSeed(flags);
  spec.allow_trailing = flags.Has(FlagId::kAllowTrailing);
  if (!flags.Has(FlagId::kPadding)) {
    flags.Refuse(FlagId::kPadding, MissingPaddingError(flags, spec));
  }
  spec.use_cudnn_on_gpu = ParseBoolean(flags, FlagId::kUseCudnnOnGpu);
  spec.name = flags.Get(FlagId::kName, "");
  if (flags.Has(FlagId::kName)) {
    flags.Parse(FlagId::kName,
                [&](const std::string& name) { CheckCaseName("flag/value", name, spec.name); });
  }
  spec.execution = ParseExecution(flags);
  spec.images = TextOf(flags, FlagId::kImages);
  spec.output = TextOf(flags, FlagId::kOutput);
  if (spec.output) {
    flags.Parse(FlagId::kOutput,
                [&](const std::string&) { return ParseTensorTarget(*spec.output, op.result); });
  }
  spec.write = ParseWriteOptions(flags);
  spec.is_checked = request.command == CommandId::kCheck;
  spec.actual = TextOf(flags, FlagId::kActual);
  spec.expect = TextOf(flags, FlagId::kExpect);
  CheckSides(flags);
  for (const FlagValues::Entry& entry : flags.entries()) {
    if (entry.id == FlagId::kExpect) spec.golden_name = entry.given;
  }
  if (spec.expect) {
    flags.Parse(FlagId::kExpect, [&](const std::string&) { return ParseGoldenHash(*spec.expect); });
  }
  spec.compare = ParseCompareOptions(flags);
  if (spec.expect && !spec.NamesGoldenFile()) CheckTolerance(flags, spec.compare.tolerance);
  spec.compare.precision = spec.execution.precision;
  spec.probe = flags.Has(FlagId::kProbe);
  spec.actual_parts = ParseActualParts(flags);
  spec.invariance = ParseInvariance(flags, op);
  spec.allow_suspect = flags.Has(FlagId::kAllowSuspect);
  return spec;
}

}  // namespace convgrad::cli
