// The filter of a forward convolution or an input gradient as a panel: for every term in canonical
// order the values of some channels of the result side by side.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/checked.h"
#include "base/parallel.h"
#include "conv/axes/tap_sum.h"
#include "kernels/pack/pack.h"

namespace convgrad {

// Which channels of the result a panel holds, and how many columns it has. With more channels than
// columns it is several panels, which only a forward pass packs together.
struct FilterPanel {
  int64_t group, first_channel, num_channels;  // channels of the group
  int64_t cols;                                // the surplus ones are zero
  int64_t stride = 0;                          // numbers from one panel to the next
};

// Rows of the filter that are fetched while a square's are turned: the next square's.
inline constexpr int64_t kRowsAhead = 16;

// body(panel, terms) for threads that share all terms of some panels. Terms are counted in the
// order [phase][tap][source channel], here and below.
template <class Body>
void ForPanelParts(const Parallel& parallel, int64_t num_panels, int64_t num_terms,
                   const Body& body) {
  constexpr int64_t kPartsPerThread = 4, kFewestTerms = 64;
  const int64_t threads = parallel.num_threads();
  const int64_t wanted = threads == 1 ? 1 : CeilDiv(kPartsPerThread * threads, num_panels);
  const int64_t parts = std::clamp<int64_t>(num_terms / kFewestTerms, 1, wanted);
  parallel.For(num_panels * parts, [&](int64_t i) {
    const int64_t part = i % parts;
    body(i / parts, ShareOf(num_terms, parts, part));
  });
}

// body(tap, first source channel, number of channels, first term) for each tap's part of a range.
template <class Body>
void ForTapsOf(const TapSum& sum, const std::vector<TapPhase>& phases, const Range& terms,
               const Body& body) {
  int64_t term = 0;
  for (const TapPhase& phase : phases) {
    for (const int64_t r : phase.rows->taps) {
      for (const int64_t t : phase.cols->taps) {
        const int64_t begin = std::max(terms.begin, term);
        const int64_t end = std::min(terms.end, term + sum.source_c);
        if (begin < end) body(r * sum.kernel_w + t, begin - term, end - begin, begin);
        term += sum.source_c;
      }
    }
  }
}

// Some terms of the panel that begins at `to`: [term][cols].
template <class Stored>
void PackFilter(const PackKernels<Stored>& kernels, const TapSum& sum,
                const std::vector<TapPhase>& phases, const Stored* filter, const FilterPanel& panel,
                const Range& terms, ComputeType<Stored>* to) {
  if (panel.num_channels % panel.cols != 0) {
    std::fill_n(to + panel.num_channels / panel.cols * panel.stride + terms.begin * panel.cols,
                (terms.end - terms.begin) * panel.cols, ComputeType<Stored>{0});
  }
  const int64_t group_out_c = sum.forward ? sum.result_c : sum.source_c;
  const int64_t group_in_c = sum.forward ? sum.source_c : sum.result_c;
  const int64_t out_c = group_out_c * sum.groups;
  filter += panel.group * group_out_c;
  ForTapsOf(sum, phases, terms, [&](int64_t tap, int64_t channel, int64_t count, int64_t term) {
    const Stored* from = filter + tap * group_in_c * out_c;
    ComputeType<Stored>* rows = to + term * panel.cols;
    if (sum.forward) {
      kernels.split_widen(from + channel * out_c + panel.first_channel, out_c, rows, panel.stride,
                          count, /*groups=*/1, panel.num_channels, panel.cols);
    } else {
      kernels.transpose_widen(from + panel.first_channel * out_c + channel, out_c, rows, panel.cols,
                              panel.num_channels, count, kRowsAhead * out_c);
    }
  });
}

}  // namespace convgrad
