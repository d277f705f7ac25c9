#include "measure/order_statistics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/error.h"

namespace convgrad {
namespace {

std::vector<double> Sorted(std::span<const double> samples) {
  std::vector<double> sorted(samples.begin(), samples.end());
  std::sort(sorted.begin(), sorted.end());
  return sorted;
}

// Linear between neighbours, as numpy.quantile does.
double Quantile(const std::vector<double>& sorted, double part) {
  const double at = part * static_cast<double>(sorted.size() - 1);
  const size_t below = static_cast<size_t>(at);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (at - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

double MedianDistance(const std::vector<double>& sorted, double median) {
  std::vector<double> distances;
  distances.reserve(sorted.size());
  for (const double sample : sorted) distances.push_back(std::fabs(sample - median));
  std::sort(distances.begin(), distances.end());
  return Quantile(distances, 0.5);
}

// How many samples stand for as much as one independent one, at least 1: 1 + 2 * (the correlations
// of a sample's side of the median with that of the next, the one after it, ...), summed as long as
// they stand out of the noise, which is 1 / sqrt(n) where there is no correlation.
double SamplesPerIndependentOne(std::span<const double> samples, double median) {
  std::vector<int> sides;
  sides.reserve(samples.size());
  for (const double sample : samples) sides.push_back((sample > median) - (sample < median));
  const size_t n = sides.size();
  const size_t most_lags = std::min<size_t>(n / 2, 256);  // for time: the sum takes n a lag
  const double noise = 1 / std::sqrt(static_cast<double>(n));
  double factor = 1;
  for (size_t lag = 1; lag < most_lags; ++lag) {
    int64_t sum = 0;
    for (size_t i = lag; i < n; ++i) sum += sides[i] * sides[i - lag];
    const double correlation = static_cast<double>(sum) / static_cast<double>(n - lag);
    if (correlation < noise) break;
    factor += 2 * correlation;
  }
  return factor;
}

// The largest k for which the k-th smallest and the k-th largest of n enclose the median with
// kConfidence; n >= kLeastSamples.
int64_t RankOf(int64_t n) {
  // The normal distribution starts the search near its end.
  const double spread = 1.96 * std::sqrt(static_cast<double>(n)) / 2;
  int64_t k = std::max<int64_t>(1, static_cast<int64_t>(static_cast<double>(n) / 2 - spread) - 2);
  const auto is_enough = [n](int64_t rank) { return 2 * CoinTail(n, rank - 1) <= 1 - kConfidence; };
  while (k > 1 && !is_enough(k)) --k;
  while (is_enough(k + 1)) ++k;
  return k;
}

std::optional<Interval> IntervalOfSorted(const std::vector<double>& sorted,
                                         double samples_per_independent_one) {
  const int64_t n = static_cast<int64_t>(sorted.size());
  if (n < kLeastSamples) return std::nullopt;
  const double middle = static_cast<double>(n + 1) / 2;
  const double reach =
      (middle - static_cast<double>(RankOf(n))) * std::sqrt(samples_per_independent_one);
  const int64_t rank = std::max<int64_t>(1, static_cast<int64_t>(middle - reach));
  return Interval{sorted[rank - 1], sorted[n - rank]};
}

}  // namespace

// NOLINTBEGIN(concurrency-mt-unsafe): std::lgamma is, for a sign that nothing here reads
double CoinTail(int64_t n, int64_t k) {
  // Summed in logarithms: 2^-n is out of range from n = 1075 on.
  double tail = 0;
  const double log_n = std::lgamma(static_cast<double>(n) + 1);
  for (int64_t i = 0; i <= k; ++i) {
    const double heads = static_cast<double>(i);
    tail +=
        std::exp(log_n - std::lgamma(heads + 1) - std::lgamma(static_cast<double>(n) - heads + 1) -
                 static_cast<double>(n) * std::log(2.0));
  }
  return tail;
}
// NOLINTEND(concurrency-mt-unsafe)

Summary Summarize(std::span<const double> samples) {
  if (samples.empty()) ThrowInternal("no samples to summarize");
  const std::vector<double> sorted = Sorted(samples);
  Summary summary;
  summary.samples = static_cast<int64_t>(samples.size());
  summary.min = sorted.front();
  summary.max = sorted.back();
  summary.median = Quantile(sorted, 0.5);
  summary.p5 = Quantile(sorted, 0.05);
  summary.p95 = Quantile(sorted, 0.95);
  summary.mad = MedianDistance(sorted, summary.median);
  double sum = 0, squares = 0;
  for (const double sample : sorted) sum += sample;
  summary.mean = sum / static_cast<double>(sorted.size());
  for (const double sample : sorted) squares += std::pow(sample - summary.mean, 2);
  if (sorted.size() > 1) {
    summary.stddev = std::sqrt(squares / static_cast<double>(sorted.size() - 1));
  }
  summary.ci = IntervalOfSorted(sorted, SamplesPerIndependentOne(samples, summary.median));
  return summary;
}

double RelativeWidth(const Summary& summary) {
  if (!summary.ci || summary.median <= 0) return std::numeric_limits<double>::infinity();
  return (summary.ci->high - summary.ci->low) / summary.median;
}

}  // namespace convgrad
