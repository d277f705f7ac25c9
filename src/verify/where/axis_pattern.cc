#include "verify/where/axis_pattern.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>

namespace convgrad {
namespace {

constexpr int64_t kMostPositions = 1 << 14;  // 2 KiB an axis
constexpr int64_t kMostPeriod = 256;

std::string Plural(const std::string& axis) {
  constexpr std::string_view kUnnamed = "index of ";
  if (axis.starts_with(kUnnamed)) return "indices of " + axis.substr(kUnnamed.size());
  return axis + "s";
}

// "2nd", "11th".
std::string Ordinal(int64_t number) {
  const int64_t tens = number / 10 % 10, ones = number % 10;
  const bool is_regular = tens == 1 || ones == 0 || ones > 3;
  return fmt::format("{}{}", number,
                     is_regular  ? "th"
                     : ones == 1 ? "st"
                     : ones == 2 ? "nd"
                                 : "rd");
}

// Where the period begins and ends; the end is left out where the axis ends too.
std::string Span(const AxisRange& range) {
  if (range.last + range.period >= range.size) return fmt::format("from {}", range.first);
  return fmt::format("{} to {}", range.first, range.last);
}

std::string PeriodInWords(const AxisRange& range) {
  constexpr size_t kMostListed = 8;
  const std::vector<int64_t>& of = range.of_period;
  if (of.size() == 1) {
    return fmt::format("every {} {} ({})", Ordinal(range.period), range.axis, Span(range));
  }
  const bool is_run = of.back() - of.front() + 1 == static_cast<int64_t>(of.size());
  std::string which = is_run                     ? fmt::format("{}..{}", of.front(), of.back())
                      : of.size() <= kMostListed ? fmt::format("{}", fmt::join(of, ", "))
                                                 : fmt::format("{}", of.size());
  std::string text = fmt::format("{} {} of every {}", Plural(range.axis), which, range.period);
  const bool is_everywhere = range.first < range.period && range.last + range.period >= range.size;
  return is_everywhere ? text : text + fmt::format(" ({})", Span(range));
}

}  // namespace

int64_t AxisRange::Positions() const {
  if (period == 0) return last - first + 1;
  int64_t positions = 0;
  for (const int64_t of : of_period) {
    const int64_t begin = first + (of - first % period + period) % period;
    if (begin <= last) positions += (last - begin) / period + 1;
  }
  return positions;
}

int64_t Box::Elements() const {
  int64_t elements = axes.empty() ? 0 : 1;
  for (const AxisRange& range : axes) elements *= range.Positions();
  return elements;
}

std::string InWords(const AxisRange& range) {
  if (range.IsWhole()) return "";
  if (range.period > 0) return PeriodInWords(range);
  if (range.first == range.last) return fmt::format("one {} ({})", range.axis, range.first);
  return fmt::format("{} {}..{} of {}", Plural(range.axis), range.first, range.last, range.size);
}

void AxisPattern::Add(int64_t position, int64_t size) {
  if (size > kMostPositions) return;
  if (met_.empty()) met_.resize(static_cast<size_t>((size + 63) / 64));
  met_[static_cast<size_t>(position / 64)] |= uint64_t{1} << (position % 64);
}

void AxisPattern::Join(const AxisPattern& other) {
  if (met_.empty()) met_.resize(other.met_.size());
  for (size_t i = 0; i < other.met_.size(); ++i) met_[i] |= other.met_[i];
}

bool AxisPattern::Repeats(const AxisRange& range, int64_t period) const {
  for (int64_t at = range.first; at + period <= range.last; ++at) {
    if (Has(at) != Has(at + period)) return false;
  }
  return true;
}

// Twice is chance: the pattern is seen over two periods at least, and has three positions.
void AxisPattern::FindPeriod(AxisRange& range) const {
  constexpr int64_t kLeastPositions = 3;
  if (met_.empty()) return;
  int64_t met = 0;
  for (int64_t at = range.first; at <= range.last; ++at) met += Has(at) ? 1 : 0;
  const int64_t length = range.last - range.first + 1;
  if (met < kLeastPositions || met == length) return;
  for (int64_t period = 2; period <= std::min(kMostPeriod, length / 2); ++period) {
    if (!Repeats(range, period)) continue;
    range.period = period;
    for (int64_t at = range.first; at < range.first + period; ++at) {
      if (Has(at)) range.of_period.push_back(at % period);
    }
    std::sort(range.of_period.begin(), range.of_period.end());
    return;
  }
}

}  // namespace convgrad
