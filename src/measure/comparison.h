// Decides if one measurement is slower than another: by the interval of the ratio of their medians,
// never by the ratio alone. Must not know what was measured.
#pragma once

#include <optional>
#include <span>

#include "measure/order_statistics.h"

namespace convgrad {

struct Estimate {
  double median = 0;
  std::optional<Interval> ci;
};

enum class Change { kFaster, kSame, kSlower, kInconclusive };
const char* NameOf(Change change);  // "FASTER", "SAME", "SLOWER", "INCONCLUSIVE"

struct Comparison {
  double ratio = 1;            // of the new time to the old: over 1 is slower
  std::optional<Interval> ci;  // with kConfidence
  Change verdict = Change::kInconclusive;
};

// `tolerance` is the part of the old time that may be lost or gained and still count as the same.
// The verdict is what every ratio in the interval says: over 1 + tolerance, under its inverse, or
// between the two. Otherwise, and without an interval, nothing is concluded.
Comparison Compare(double ratio, const std::optional<Interval>& ci, double tolerance);

// Compares two runs. The interval of the ratio of their medians joins the two intervals as those of
// independent estimates (method of variance estimates recovery: Zou and Donner, Statistics in
// Medicine 27 (2008)), in logarithms. It knows nothing of what differs between two runs of the same
// program: how memory was laid out, who else was on the machine.
Comparison CompareRuns(const Estimate& now, const Estimate& before, double tolerance);

// Compares pairs measured in turn: by the median of the ratios.
Comparison ComparePairs(std::span<const double> now, std::span<const double> before,
                        double tolerance);

}  // namespace convgrad
