// Times every algorithm that can do a problem, in turns with the one that is chosen by default, and
// says which of them is quicker for certain. Must not know where choices are kept.
#pragma once

#include <string>

#include "conv/compute.h"

namespace convgrad::cli {

struct Tuned {
  std::string by_default;  // the algorithm that is chosen without tuning
  std::string quickest;    // the same, unless another won every round by more than rounds differ by
  double gain = 1;         // the default's time over the quickest one's, of the median round
};

// Where and how to compute, without an algorithm. Throws Stopped when the process is asked to end.
Tuned TuneProblem(const Problem& problem, const Execution& execution);

}  // namespace convgrad::cli
