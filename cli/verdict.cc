#include "cli/verdict.h"

#include <fmt/format.h>

#include <cmath>
#include <optional>

#include "cli/values.h"

namespace convgrad::cli {
namespace {

Color ColorOf(Verdict verdict) {
  switch (verdict) {
    case Verdict::kPassed: return Color::kGreen;
    case Verdict::kSuspect: return Color::kYellow;
    case Verdict::kFailed: return Color::kRed;
  }
  return Color::kNone;
}

std::string WorstLine(const char* measure, const std::optional<WorstElement>& worst, DType dtype) {
  if (!worst) return "";
  return fmt::format("  worst by {:<9} {:.6g} at {}: {} where {} is expected (0x{:x}, 0x{:x})\n",
                     measure, worst->value, ToString(worst->index),
                     FormatValue(worst->actual, dtype), FormatValue(worst->expected, dtype),
                     worst->actual_bits, worst->expected_bits);
}

std::string NeedsLine(const CheckResult::Needs& needs) {
  if (!std::isfinite(needs.ulp) && !std::isfinite(needs.abs) && !std::isfinite(needs.rel)) {
    return "  would pass        no tolerance\n";
  }
  return fmt::format("  would pass        ulp:{:.0f}, abs:{} or rel:{}\n", needs.ulp, needs.abs,
                     needs.rel);
}

std::string SideCounts(const SpecialCounts& counts) {
  return fmt::format("{} NaN, {} infinite, {} subnormal", counts.nan, counts.inf, counts.subnormal);
}

}  // namespace

std::string DescribeCheck(const Console& console, const std::string& title,
                          const CheckResult& check, DType dtype) {
  std::string text =
      fmt::format("{}  {}\n", console.Paint(ColorOf(check.status), NameOf(check.status)), title);
  text += fmt::format("  reason            {} ({})\n", check.reason, check.policy);
  if (!check.detail.empty()) text += fmt::format("                    {}\n", check.detail);
  text +=
      fmt::format("  elements          {}: {} differ, {} suspect, {} fail\n", check.counts.elements,
                  check.counts.differ, check.counts.suspect, check.counts.fail);
  text += fmt::format("  result            {}\n", SideCounts(check.actual));
  text += fmt::format("  expected          {}\n", SideCounts(check.expected));
  text += WorstLine("bound", check.worst.bound, dtype);
  text += WorstLine("absolute", check.worst.abs, dtype);
  text += WorstLine("relative", check.worst.rel, dtype);
  text += WorstLine("ULP", check.worst.ulp, dtype);
  if (!check.where.empty()) text += fmt::format("  where             {}\n", check.where);
  if (check.counts.differ > 0) text += NeedsLine(check.needs);
  if (std::isfinite(check.power)) {
    text += fmt::format("  power             a missing term of {:.6g} would have been seen\n",
                        check.power);
  }
  return text;
}

}  // namespace convgrad::cli
