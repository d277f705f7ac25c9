// Which columns and groups of a filter gradient are summed up at a time.
#include <algorithm>
#include <vector>

#include "conv/conv2d/filter/cut.h"

namespace convgrad {

std::vector<FilterCut::Pass> FilterCut::CutPasses() const {
  std::vector<Pass> cut;
  const ConvGeometry& g = geometry;
  const int64_t panel_sums = row_blocks * tile_taps * sizes.tile_sums * int64_t{sizeof(double)};
  const int64_t all_panels = g.groups * sizes.panels.count;
  // A result that is rounded once it is whole is held no more than sums are.
  const int64_t panel_held = !one_call        ? panel_sums
                             : RoundsResult() ? ResultRows() * PanelBytes()
                                              : 0;
  const int64_t panels_held =
      panel_held == 0 ? all_panels : std::max<int64_t>(1, kSumBytes / panel_held);
  if (panels_held >= sizes.panels.count) {
    const int64_t groups_held = std::min(g.groups, panels_held / sizes.panels.count);
    for (int64_t group = 0; group < g.groups; group += groups_held) {
      cut.push_back({group, std::min(g.groups, group + groups_held), 0, sizes.panels.count});
    }
  } else {
    for (int64_t group = 0; group < g.groups; ++group) {
      for (int64_t panel = 0; panel < sizes.panels.count; panel += panels_held) {
        cut.push_back({group, group + 1, panel, std::min(sizes.panels.count, panel + panels_held)});
      }
    }
  }
  return cut;
}

}  // namespace convgrad
