#include "conv/conv2d/data/pixel_lanes_cut.h"

#include <algorithm>
#include <limits>

#include "conv/plan/even_tasks.h"
#include "conv/plan/work.h"

namespace convgrad {

FilterSteps::FilterSteps(const TapSum& sum) {
  const int64_t group_out_c = sum.forward ? sum.result_c : sum.source_c;
  const int64_t group_in_c = sum.forward ? sum.source_c : sum.result_c;
  const int64_t out_c = group_out_c * sum.groups;
  row = sum.forward ? 1 : out_c;
  term = sum.forward ? out_c : 1;
  tap = group_in_c * out_c;
  group = group_out_c;
}

// Each axis has as many planes as taps or steps at most, and indices from the first position's
// first tap to the last one's last.
bool FitsPixelLanes(const TapSum& sum) {
  constexpr double kMostBytes = 64 << 20, kBytes = 8;
  const auto size = [](const std::vector<AxisPhase>& phases, int64_t positions) {
    const AxisReach reach(phases);
    size_t taps = 1;
    for (const AxisPhase& phase : phases) taps = std::max(taps, phase.taps.size());
    const double planes = std::min(static_cast<double>(taps), static_cast<double>(reach.step));
    const int64_t indices = (reach.high - reach.low) / reach.step + 1 + positions;
    return planes * static_cast<double>(indices);
  };
  return static_cast<double>(sum.groups) * static_cast<double>(sum.source_c) * kBytes *
             size(sum.row_phases, 1) * size(sum.col_phases, sum.col_phases.front().count) <=
         kMostBytes;
}

bool MeetsWholePlanes(const TapSum& sum) {
  const auto meets_its_like = [](const std::vector<AxisPhase>& phases, int64_t source,
                                 int64_t result) {
    const AxisPhase& phase = phases.front();
    return source == result && phases.size() == 1 && phase.taps.size() == 1 &&
           phase.source_first == 0 && phase.source_step == 1;
  };
  return sum.kernel_h == 1 && sum.kernel_w == 1 &&
         meets_its_like(sum.row_phases, sum.source_h, sum.result_h) &&
         meets_its_like(sum.col_phases, sum.source_w, sum.result_w);
}

int64_t CrowdedBytes(int64_t step) {
  constexpr int64_t kMost = 4096, kLeast = 1024;
  if (step < kLineBytes) return 0;
  for (int64_t bytes = kMost; bytes >= kLeast; bytes /= 2) {
    const int64_t past = step % bytes;
    if (std::min(past, bytes - past) < kLineBytes) return bytes;
  }
  return 0;
}

// A stride that no second position takes, and the padding that it jumps over, are none.
Problem WithPlanesAsColumns(const Problem& problem) {
  Problem columns = problem;
  if (problem.data_format != DataFormat::kNCHW || !problem.HasTerms()) return columns;
  if (!MeetsWholePlanes(TapSum(problem))) return columns;
  ConvGeometry& g = columns.geometry;
  g.stride_h = g.stride_w = 1;
  g.pad_top = g.pad_bottom = g.pad_left = g.pad_right = 0;
  g.in_h *= g.in_w;
  g.out_h *= g.out_w;
  g.in_w = g.out_w = 1;
  return columns;
}

RowParts CutRows(int64_t batch, int64_t rows, const RowLimits& limits, int num_threads) {
  constexpr int64_t kPartsPerThread = 3;
  constexpr double kWorthwhile = 0.98;  // of the time with fewer parts
  const int64_t units = CeilDiv(rows, limits.unit);
  const auto parts_of = [&](int64_t count) {
    const int64_t positions = CeilDiv(units, count) * limits.unit;
    return RowParts{CeilDiv(rows, positions), positions};
  };
  int64_t fewest = CeilDiv(units, std::max<int64_t>(1, limits.most / limits.unit));
  if (num_threads == 1) return parts_of(fewest);
  const int64_t most = std::max(fewest, limits.least > limits.unit ? rows / limits.least : units);
  fewest = std::max(fewest, std::min(most, CeilDiv(kPartsPerThread * num_threads, batch)));
  RowParts best{};
  double least = std::numeric_limits<double>::infinity();
  for (int64_t count = fewest; count <= std::min(most, 2 * fewest + num_threads); ++count) {
    const RowParts parts = parts_of(count);
    const int64_t rounds = CeilDiv(batch * parts.count, int64_t{num_threads});
    const double span = Product(rounds, parts.positions);
    if (span >= kWorthwhile * least) continue;
    least = span;
    best = parts;
  }
  return best;
}

int64_t EvenShares(int64_t tasks, int64_t most, int num_threads) {
  constexpr double kEven = 1.03;  // the most tasks of a thread, of the mean
  int64_t best = 1;
  double least = std::numeric_limits<double>::infinity();
  for (int64_t shares = 1; shares <= most && least > kEven; ++shares) {
    const double uneven = Unevenness(tasks * shares, num_threads);
    if (uneven >= least) continue;
    least = uneven;
    best = shares;
  }
  return best;
}

}  // namespace convgrad
