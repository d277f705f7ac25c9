// Forward convolution and input gradient seen as one thing: every position of the result adds, over
// taps in canonical order, products of a source tensor's pixel and the filter. Which taps meet
// which source position is worked out for each axis on its own; nothing here touches data.
#pragma once

#include <cstdint>
#include <vector>

#include "conv/axes/slab.h"
#include "order/canonical_order.h"
#include "problem/geometry.h"

namespace convgrad {

// A range of an axis' positions that meet the same taps of their phase.
struct AxisClass {
  int64_t begin, end;          // indices of positions in the phase
  int64_t tap_begin, tap_end;  // of AxisPhase::taps; may be empty
};

// The positions first, first + step, ... of one axis of the result; taps[i] meets position p (as an
// index in the phase) at source position source_first + p * source_step + offsets[i]. Offsets
// ascend. Forward has one phase, the input gradient one for each residue by the stride.
struct AxisPhase {
  int64_t first, step, count;
  int64_t source_first, source_step;
  std::vector<int64_t> taps;  // along the kernel, in canonical order
  std::vector<int64_t> offsets;
  std::vector<AxisClass> classes;  // in order, no gaps
};

// One direction of one problem. Result channels of a group sum over source channels of the group.
struct TapSum {
  // True if a problem is one, and can be: every row and column of the result is visited here and
  // every tap and stride phase kept, so sizes at which that is a burden (no images) are left out.
  static bool Describes(const Problem& problem);

  explicit TapSum(const Problem& problem);  // of a problem it describes

  bool forward;
  bool in_pairs;  // TermsInPairs, and there are some
  int64_t batch, groups;
  int64_t result_h, result_w, result_c;  // channels of one group
  int64_t source_h, source_w, source_c;
  int64_t kernel_h, kernel_w;
  std::vector<AxisPhase> row_phases, col_phases;

  int64_t num_phases() const { return static_cast<int64_t>(row_phases.size() * col_phases.size()); }
};

// A phase of rows with a phase of columns: one set of taps, one canonical list of blocks.
struct TapPhase {
  const AxisPhase* rows;
  const AxisPhase* cols;
  std::vector<TapBlock> blocks;
  int64_t first_term;  // of its taps x source channels among those of all phases
  bool in_pairs;

  int64_t num_taps() const {
    return static_cast<int64_t>(rows->taps.size()) * static_cast<int64_t>(cols->taps.size());
  }
  int64_t num_classes() const {
    return static_cast<int64_t>(rows->classes.size() * cols->classes.size());
  }
};

// All phases of `sum`, which must outlive them.
std::vector<TapPhase> PhasesOf(const TapSum& sum);
// Taps x source channels of all phases.
int64_t TermsOf(const TapSum& sum, const std::vector<TapPhase>& phases);

// The same for operands that hold the channels of the source two by two: source channels of `sum`
// and terms count pairs from now on.
std::vector<TapPhase> PhasesInPairs(TapSum& sum);

// True if some position meets padding with a tap of its phase.
bool MeetsPadding(const TapSum& sum);

// The source rows that a slab's positions meet, within [0, source_h).
Range SourceRows(const TapSum& sum, const Slab& slab);

// Source positions that one axis' taps meet: position p of any phase needs p * step + low to
// p * step + high.
struct AxisReach {
  int64_t step, low, high;

  explicit AxisReach(const std::vector<AxisPhase>& phases);
  // The source's positions, and those of padding, that positions [begin, end) reach.
  Range Of(int64_t begin, int64_t end) const {
    return {begin * step + low, (end - 1) * step + high + 1};
  }
};

// Indices of a phase's positions that lie in [begin, end) of the axis.
Range IndicesWithin(const AxisPhase& phase, int64_t begin, int64_t end);

}  // namespace convgrad
