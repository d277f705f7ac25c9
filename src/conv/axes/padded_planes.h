// Where source positions lie when an axis is cut by residues of the source step and padded so that
// every tap of every position is there: the geometry behind lanes that run along pixels.
#pragma once

#include <cstdint>
#include <vector>

#include "conv/axes/tap_sum.h"

namespace convgrad {

// Index e of residue plane i is source position e * step + residues[i]; indices of all planes run
// over [low, low + extent), enough for as many positions as any phase has. Position p of a phase
// meets its tap t at index p + index[t] of plane[t].
struct PlaneAxis {
  struct Tap {
    int64_t plane, index;
  };

  explicit PlaneAxis(const std::vector<AxisPhase>& phases);

  int64_t step, low, extent;
  std::vector<int64_t> residues;       // those that taps meet
  std::vector<std::vector<Tap>> taps;  // by phase
};

}  // namespace convgrad
