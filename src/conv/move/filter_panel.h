// The filter of a forward convolution or an input gradient as a panel: for every term in canonical
// order the values of some channels of the result side by side.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

#include "conv/axes/tap_sum.h"
#include "kernels/pack/pack.h"

namespace convgrad {

// Which channels of the result a panel holds, and how many columns it has.
struct FilterPanel {
  int64_t group, first_channel, num_channels;  // channels of the group
  int64_t cols;                                // >= num_channels; the surplus ones are zero
};

// Rows of the filter that are fetched while a square's are turned: the next square's.
inline constexpr int64_t kRowsAhead = 16;

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
          kernels.split_widen(tap + panel.first_channel, out_c, to, /*block_stride=*/0, group_in_c,
                              /*groups=*/1, panel.num_channels, panel.cols);
        } else {
          kernels.transpose_widen(tap + panel.first_channel * out_c, out_c, to, panel.cols,
                                  panel.num_channels, group_out_c, kRowsAhead * out_c);
        }
        to += sum.source_c * panel.cols;
      }
    }
  }
}

// True if padding may be multiplied by the filter: zero times an infinity or a NaN is a NaN. The
// loop looks at all numbers, at their bits, so that the compiler makes it one of vectors.
template <class Stored>
bool IsFinite(const void* filter, int64_t count) {
  using Bits = std::conditional_t<sizeof(Stored) == 8, uint64_t,
                                  std::conditional_t<sizeof(Stored) == 4, uint32_t, uint16_t>>;
  constexpr int kFractionBits = sizeof(Stored) == 8               ? 52
                                : sizeof(Stored) == 4             ? 23
                                : std::is_same_v<Stored, Float16> ? 10
                                                                  : 7;
  // Ones in the exponent are an infinity or a NaN.
  constexpr Bits kMost = std::numeric_limits<Bits>::max();
  constexpr Bits kInfinity = (kMost >> 1) ^ (kMost >> (8 * sizeof(Bits) - kFractionBits));
  const auto* values = static_cast<const Stored*>(filter);
  Bits special = 0;
  for (int64_t i = 0; i < count; ++i) {
    const auto bits = std::bit_cast<Bits>(values[i]);
    special |= static_cast<Bits>((bits & kInfinity) == kInfinity);
  }
  return special == 0;
}

}  // namespace convgrad
