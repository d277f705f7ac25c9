// The filter of a forward convolution or an input gradient as a panel: for every term in canonical
// order the values of some channels of the result side by side.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "conv/axes/tap_sum.h"
#include "kernels/pack/pack.h"

namespace convgrad {

// Which channels of the result a panel holds, and how many columns it has.
struct FilterPanel {
  int64_t group, first_channel, num_channels;  // channels of the group
  int64_t cols;                                // >= num_channels; the surplus ones are zero
};

// `to`: [phase][tap][source channel][cols].
template <class Stored>
void PackFilter(const PackKernels<Stored>& kernels, const TapSum& sum,
                const std::vector<TapPhase>& phases, const Stored* filter, const FilterPanel& panel,
                ComputeType<Stored>* to) {
  if (panel.num_channels < panel.cols)
    std::fill_n(to, TermsOf(sum, phases) * panel.cols, ComputeType<Stored>{0});
  const int64_t group_out_c = sum.forward ? sum.result_c : sum.source_c;
  const int64_t group_in_c = sum.forward ? sum.source_c : sum.result_c;
  const int64_t out_c = group_out_c * sum.groups;
  filter += panel.group * group_out_c;
  for (const TapPhase& phase : phases) {
    for (const int64_t r : phase.rows->taps) {
      for (const int64_t t : phase.cols->taps) {
        const Stored* tap = filter + (r * sum.kernel_w + t) * group_in_c * out_c;
        if (sum.forward) {
          kernels.copy_widen(tap + panel.first_channel, out_c, to, panel.cols, group_in_c,
                             panel.num_channels);
        } else {
          kernels.transpose_widen(tap + panel.first_channel * out_c, out_c, to, panel.cols,
                                  panel.num_channels, group_out_c, 0);
        }
        to += sum.source_c * panel.cols;
      }
    }
  }
}

// Whether padding may be multiplied by the filter: zero times an infinity or a NaN is a NaN.
template <class Stored>
bool IsFinite(const void* filter, int64_t count) {
  const auto* values = static_cast<const Stored*>(filter);
  return std::all_of(values, values + count,
                     [](Stored value) { return std::isfinite(Widen(value)); });
}

}  // namespace convgrad
