#include "conv/axes/padded_planes.h"

#include <algorithm>
#include <iterator>
#include <map>

namespace convgrad {

PlaneAxis::PlaneAxis(const std::vector<AxisPhase>& phases)
    : step(phases.front().source_step), low(0), extent(1) {
  const int64_t most = phases.front().count;  // later phases may have one position less
  int64_t high = 1;
  bool any = false;
  std::map<int64_t, int64_t> planes;  // by residue
  for (const AxisPhase& phase : phases) {
    std::vector<Tap>& phase_taps = taps.emplace_back();
    for (const int64_t offset : phase.offsets) {
      const int64_t source = phase.source_first + offset;
      const int64_t residue = (source % step + step) % step;
      const int64_t index = (source - residue) / step;
      const auto [plane, is_new] = planes.emplace(residue, std::ssize(residues));
      phase_taps.push_back({plane->second, index});
      if (is_new) residues.push_back(residue);
      low = any ? std::min(low, index) : index;
      high = any ? std::max(high, index + most) : index + most;
      any = true;
    }
  }
  extent = high - low;
}

}  // namespace convgrad
