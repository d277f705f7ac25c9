// A list of times in few numbers: order statistics, and how sure the median is. No assumption about
// the distribution of times, which is neither normal nor even of one peak. Must not know what was
// timed.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace convgrad {

struct Interval {
  double low = 0, high = 0;
};

// The confidence that all intervals here have.
inline constexpr double kConfidence = 0.95;
// The fewest samples for which such an interval of the median exists.
inline constexpr int64_t kLeastSamples = 6;

struct Summary {
  int64_t samples = 0;
  double min = 0, median = 0, mean = 0, max = 0;
  double stddev = 0;           // with n - 1; 0 for one sample
  double mad = 0;              // median of the distances from the median
  double p5 = 0, p95 = 0;      // interpolated
  std::optional<Interval> ci;  // of the median; none for fewer than kLeastSamples
};

// `samples` in the order in which they were taken; at least one.
//
// The interval is the one between two order statistics that covers the median of whatever
// distribution the samples come from, with at least kConfidence if they are independent (David and
// Nagaraja, "Order Statistics", 7.1). Times of a machine are not: slow spells last longer than a
// sample. So the ranks move out as far as they would for the number of independent samples that are
// worth as much, which follows from how the sides of the median that samples lie on correlate over
// time.
Summary Summarize(std::span<const double> samples);

// The width of an interval as a part of the median; infinite without an interval.
double RelativeWidth(const Summary& summary);

// The chance of at most k heads in n throws of a coin.
double CoinTail(int64_t n, int64_t k);

}  // namespace convgrad
