#include "measure/comparison.h"

#include <cmath>
#include <vector>

#include "base/error.h"

namespace convgrad {

const char* NameOf(Change change) {
  switch (change) {
    case Change::kFaster: return "FASTER";
    case Change::kSame: return "SAME";
    case Change::kSlower: return "SLOWER";
    case Change::kInconclusive: return "INCONCLUSIVE";
  }
  ThrowInternal("unknown change");
}

Comparison Compare(double ratio, const std::optional<Interval>& ci, double tolerance) {
  Comparison comparison = {ratio, ci, Change::kInconclusive};
  if (!ci) return comparison;
  const double slower = 1 + tolerance;
  const double faster = 1 / slower;
  if (ci->low > slower) {
    comparison.verdict = Change::kSlower;
  } else if (ci->high < faster) {
    comparison.verdict = Change::kFaster;
  } else if (ci->low >= faster && ci->high <= slower) {
    comparison.verdict = Change::kSame;
  }
  return comparison;
}

Comparison CompareRuns(const Estimate& now, const Estimate& before, double tolerance) {
  const double ratio = now.median / before.median;
  if (!now.ci || !before.ci || now.ci->low <= 0 || before.ci->low <= 0) {
    return Compare(ratio, std::nullopt, tolerance);
  }
  const auto distance = [](double from, double to) { return std::log(to / from); };
  const double down =
      std::hypot(distance(now.ci->low, now.median), distance(before.median, before.ci->high));
  const double up =
      std::hypot(distance(now.median, now.ci->high), distance(before.ci->low, before.median));
  return Compare(ratio, Interval{ratio * std::exp(-down), ratio * std::exp(up)}, tolerance);
}

Comparison ComparePairs(std::span<const double> now, std::span<const double> before,
                        double tolerance) {
  if (now.size() != before.size()) ThrowInternal("pairs of different number");
  std::vector<double> ratios;
  for (size_t i = 0; i < now.size(); ++i) ratios.push_back(now[i] / before[i]);
  const Summary summary = Summarize(ratios);
  return Compare(summary.median, summary.ci, tolerance);
}

}  // namespace convgrad
