#include "conv/conv2d/data/pixel_lanes_cut.h"

namespace convgrad {

TermCount::TermCount(const TapSum& sum) : valid(1), all(1) {
  for (const auto* phases : {&sum.row_phases, &sum.col_phases}) {
    double axis_valid = 0, axis_all = 0;
    for (const AxisPhase& phase : *phases) {
      axis_all += static_cast<double>(phase.count) * static_cast<double>(phase.taps.size());
      for (const AxisClass& c : phase.classes) {
        axis_valid +=
            static_cast<double>(c.end - c.begin) * static_cast<double>(c.tap_end - c.tap_begin);
      }
    }
    valid *= axis_valid;
    all *= axis_all;
  }
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

}  // namespace convgrad
