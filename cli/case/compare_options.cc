// Reads from flags by what a comparison judges: tolerance, sums and odds.
#include <fmt/format.h>

#include <charconv>
#include <string_view>

#include "cli/case/case.h"
#include "cli/text/values.h"
#include "verify/odds/odds.h"

namespace convgrad::cli {
namespace {

double ParseOdds(const std::string& name, std::string_view text) {
  double odds = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, odds);
  if (error == std::errc() && stop == end && odds >= kLeastOdds && odds < 1) return odds;
  ThrowUsage("flag/value", fmt::format("{} {}", name, text), "is no odds",
             fmt::format("give a number from {:.0e} to below 1, such as 1e-12", kLeastOdds));
}

std::optional<FloatFormat> ParseOperandRounding(const std::string& name, const std::string& text) {
  constexpr std::string_view kNames[] = {"none", "tf32", "bf16", "f16"};
  if (ParseChoice(name, text, kNames) == 0) return std::nullopt;
  return ParseAccumulator(text).format();
}

}  // namespace

CompareOptions ParseCompareOptions(const FlagValues& flags) {
  CompareOptions options;
  options.tolerance = flags.Parse(FlagId::kTolerance, [&](const std::string&) {
    return ParseTolerance(flags.Get(FlagId::kTolerance, "auto"));
  });
  if (const std::string* text = flags.Find(FlagId::kGoldenAccumulator)) {
    options.golden_accumulator = flags.Parse(
        FlagId::kGoldenAccumulator, [&](const std::string&) { return ParseAccumulator(*text); });
  }
  if (const std::string* text = flags.Find(FlagId::kOperandRounding)) {
    options.operand_rounding = flags.Parse(FlagId::kOperandRounding, [&](const std::string& name) {
      return ParseOperandRounding(name, *text);
    });
  }
  if (const std::string* text = flags.Find(FlagId::kOdds)) {
    options.odds =
        flags.Parse(FlagId::kOdds, [&](const std::string& name) { return ParseOdds(name, *text); });
  }
  options.keep_errors = flags.Has(FlagId::kErrorMap);
  return options;
}

void CheckSumsFit(const CompareOptions& options, DType dtype) {
  const char* const type = InfoOf(dtype).name;
  if (options.operand_rounding && dtype != DType::kFloat32) {
    ThrowUsage("accumulator/unfit",
               fmt::format("operands rounded to {}", options.operand_rounding->name),
               fmt::format("they are {}, not float32", type), "leave --operand-rounding out");
  }
  if (!options.golden_accumulator) return;
  const Accumulator accumulator = *options.golden_accumulator;
  const bool is_other_half = InfoOf(accumulator.dtype).bytes == 2 && InfoOf(dtype).bytes == 2 &&
                             accumulator.dtype != dtype;
  const bool is_fit = !is_other_half && (!accumulator.is_tf32 || dtype == DType::kFloat32);
  if (is_fit) return;
  ThrowUsage("accumulator/unfit", fmt::format("sums in {}", accumulator.format().name),
             fmt::format("no kernel sums products of {} in it", type),
             "give what it does sum in, or leave --golden-accumulator out");
}

}  // namespace convgrad::cli
