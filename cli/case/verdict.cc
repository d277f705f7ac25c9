#include "cli/case/verdict.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <optional>
#include <vector>

#include "cli/text/values.h"

namespace convgrad::cli {
namespace {

std::string WorstLine(const char* measure, const std::optional<WorstElement>& worst,
                      const CheckResult& check) {
  if (!worst) return "";
  const std::string actual = FormatValue(worst->actual, check.actual_type),
                    expected = FormatValue(worst->expected, check.expected_type);
  const std::string values = check.against == Against::kExactValue
                                 ? fmt::format("yours is {}, the exact value {}", actual, expected)
                                 : fmt::format("{} where {} is expected", actual, expected);
  return fmt::format("  worst by {:<9} {:.6g} at {}: {} (0x{:x}, 0x{:x})\n", measure, worst->value,
                     ToString(worst->index), values, worst->actual_bits, worst->expected_bits);
}

std::string NeedsLine(const CheckResult::Needs& needs) {
  std::vector<std::string> tolerances;  // each would do
  if (std::isfinite(needs.ulp)) tolerances.push_back(fmt::format("ulp:{:.0f}", needs.ulp));
  if (std::isfinite(needs.abs)) tolerances.push_back(fmt::format("abs:{}", needs.abs));
  if (std::isfinite(needs.rel)) tolerances.push_back(fmt::format("rel:{}", needs.rel));
  if (tolerances.empty()) tolerances.push_back("no tolerance");
  std::string text;
  for (size_t i = 0; i < tolerances.size(); ++i) {
    const bool is_last = i + 1 == tolerances.size();
    text += (i == 0 ? "" : is_last ? " or " : ", ") + tolerances[i];
  }
  return fmt::format("  would pass        {}\n", text);
}

std::string SideCounts(const SpecialCounts& counts) {
  return fmt::format("{} NaN, {} infinite, {} subnormal", counts.nan, counts.inf, counts.subnormal);
}

std::string DiagnosisLines(const Diagnosis& diagnosis) {
  std::string text = fmt::format("  explained by      {}, {}\n                    {}\n",
                                 diagnosis.hypothesis, ExplainsHow(diagnosis), diagnosis.sentence);
  if (!diagnosis.also.empty()) {
    text += fmt::format("                    as good on these data: {}\n",
                        fmt::join(diagnosis.also, ", "));
  }
  return text;
}

// Not of what passed as sums that nobody had to be told of.
std::string OddsLine(const CheckResult& check) {
  const CheckResult::Odds& odds = *check.odds;
  const FloatFormat& sums = odds.accumulator;
  const bool is_plain =
      !odds.operands && (sums == FormatOf(DType::kFloat32) || sums == FormatOf(DType::kFloat64));
  if (check.status == Verdict::kPassed && is_plain) return "";
  return fmt::format(
      "  odds              {:.2g} at most, of sums in {}{} in any order\n", odds.at_most, sums.name,
      odds.operands ? fmt::format(" of operands rounded to {}", odds.operands->name) : "");
}

// '.' for none, a digit for tenths begun, '#' for all.
char MarkOf(double share) {
  if (share <= 0) return '.';
  return share >= 1 ? '#' : static_cast<char>('1' + static_cast<int>(share * 9));
}

std::string PictureLines(const HeatMap& map) {
  std::string title = fmt::format("{} (0..{}) across", map.across, map.across_size - 1);
  if (map.down_size > 1) title += fmt::format(", {} (0..{}) down", map.down, map.down_size - 1);
  std::string text = fmt::format("                    {}; '.' none of a cell, '#' all\n", title);
  for (const std::vector<double>& line : map.shares) {
    text += "                    ";
    for (const double share : line) text += MarkOf(share);
    text += '\n';
  }
  return text;
}

}  // namespace

std::string DescribeCheck(const Console& console, const std::string& title,
                          const CheckResult& check) {
  std::string text =
      fmt::format("{}  {}\n", console.PaintWord(NameOf(check.status)), EscapeControls(title));
  text += fmt::format("  reason            {} ({})\n", check.reason, check.policy);
  if (!check.detail.empty()) text += fmt::format("                    {}\n", check.detail);
  text +=
      fmt::format("  elements          {}: {} differ, {} suspect, {} fail\n", check.counts.elements,
                  check.counts.differ, check.counts.suspect, check.counts.fail);
  if (check.odds && check.policy == "bound") text += OddsLine(check);
  const bool is_yours = check.against == Against::kExactValue;
  text += fmt::format("  {:<17} {}\n", is_yours ? "yours" : "result", SideCounts(check.actual));
  text += fmt::format("  {:<17} {}\n", is_yours ? "exact value" : "expected",
                      SideCounts(check.expected));
  text += WorstLine("bound", check.worst.bound, check);
  text += WorstLine("absolute", check.worst.abs, check);
  text += WorstLine("relative", check.worst.rel, check);
  text += WorstLine("ULP", check.worst.ulp, check);
  if (check.diagnosis) text += DiagnosisLines(*check.diagnosis);
  if (!check.where.empty()) text += fmt::format("  where             {}\n", check.where);
  if (check.picture) text += PictureLines(*check.picture);
  if (check.counts.differ > 0) text += NeedsLine(check.needs);
  if (std::isfinite(check.power)) {
    text += fmt::format("  power             a missing term of {:.6g} would have been seen\n",
                        check.power);
  }
  return text;
}

}  // namespace convgrad::cli
