#include "cli/case/padding_advice.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "cli/case/operands.h"

namespace convgrad::cli {
namespace {

struct Advice {
  std::string why, fix;
};

// Empty if the operands fit together with this padding, else why they don't.
std::string Misfit(CaseSpec spec, Padding padding) try {
  const Console silent(Arguments({"convgrad", "--quiet"}));
  spec.conv.padding = padding;
  const Operands operands(spec, silent);
  return "";
} catch (const Error& error) {
  return error.message();
}

// A stream can be read but once, which is left to the case itself.
bool ReadsStream(const CaseSpec& spec) {
  const auto is_stream = [](const std::string& text) { return IsStream(TensorFileOf(text)); };
  return is_stream(spec.sizes) ||
         std::any_of(std::begin(spec.operands), std::end(spec.operands), is_stream);
}

Advice AdviceOn(const CaseSpec& spec) {
  Advice unknown = {"it has no default", "give SAME, VALID or EXPLICIT"};
  if (ReadsStream(spec)) return unknown;
  const std::string same = Misfit(spec, Padding::kSame), valid = Misfit(spec, Padding::kValid);
  if (same.empty() && valid.empty()) {
    return {"it has no default, and both SAME and VALID fit the shapes", "give the one you mean"};
  }
  if (same.empty() || valid.empty()) {
    const char* fitting = same.empty() ? "SAME" : "VALID";
    return {fmt::format("it has no default; of SAME and VALID, {} fits the shapes", fitting),
            fmt::format("give {} if you mean it", fitting)};
  }
  // Something else is wrong, which will be said once there is a padding.
  if (same == valid) return unknown;
  return {"it has no default, and neither SAME nor VALID fits the shapes",
          "give EXPLICIT with the pads, or check shapes and strides"};
}

}  // namespace

Error MissingPaddingError(const FlagValues& flags, const CaseSpec& spec) {
  Advice advice = AdviceOn(spec);
  if (flags.Has(FlagId::kExplicitPaddings)) {
    advice = {fmt::format("{} needs it", flags.NameOf(FlagId::kExplicitPaddings)), "give EXPLICIT"};
  }
  return Error(ExitCode::kUsage, "padding/missing", flags.NameOf(FlagId::kPadding), advice.why,
               advice.fix);
}

}  // namespace convgrad::cli
