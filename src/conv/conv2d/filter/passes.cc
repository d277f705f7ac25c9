// Which columns and groups of a filter gradient are summed up at a time.
#include <algorithm>
#include <vector>

#include "conv/conv2d/filter/cut.h"
#include "conv/move/stream_result.h"

namespace convgrad {

// Groups whose packed pixels are a stage together: rather all pixels of few groups than few pixels
// of all, whose sums every stage would come back to. In NHWC a group's numbers are a part of each
// pixel, of whose lines passes take whole ones: where some pixels of those few are a stage, or come
// from beyond the caches, pixels are best read at once.
int64_t FilterCut::GroupsOfPass() const {
  const ConvGeometry& g = geometry;
  const bool nhwc = format == DataFormat::kNHWC;
  if (UsesInputInPlace() && UsesOutputInPlace()) return g.groups;
  if (nhwc && operand_bytes >= kLeavesTheCaches) return g.groups;
  const double packed =
      Product(NumPixels(), PixelNumbers({0, 1, 0, sizes.panels.count}), sizes.element_bytes);
  const auto held = static_cast<int64_t>(Product(StageBytes(0, num_threads)) / packed);
  if (!nhwc) return std::clamp<int64_t>(held, 1, g.groups);
  const int64_t group_bytes = std::min(g.group_in_c, g.group_out_c) * sizes.element_bytes;
  const int64_t of_line = CeilDiv(kLineBytes, group_bytes);
  return held < of_line ? g.groups : std::min(g.groups, RoundUp(held, of_line));
}

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
    const int64_t groups_held = std::min(GroupsOfPass(), panels_held / sizes.panels.count);
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
