// The kernel of sums in twice the precision: every lane is an element's own chain of exact products
// and compensated additions. It knows nothing of convolutions.
#pragma once

#include <cstdint>

namespace convgrad {

// Sums of products so far, of every factor with every lane; arrays of num_factors rows of `stride`
// numbers.
struct CompensatedSums {
  double* high;       // the running sum as double addition has it
  double* low;        // what its additions and products lost
  double* magnitude;  // sum of |product|
  double* squares;    // sum of product^2
  int64_t stride;
};

// Adds, for k < num_terms in order, factors[k][i] * lanes[k][j] to sum [i][j]. Vectors of lanes lie
// one after the other, each with all its terms: lane j of term k is
//   lanes[(j / width * panel_terms + k) * width + j % width]
// where `width` is the kernel's.
struct CompensatedTerms {
  const double* factors;
  int64_t factor_stride;  // from a term to the next
  const double* lanes;
  int64_t panel_terms;
  int64_t num_terms;
  int64_t num_factors;
  int64_t num_lanes;  // a multiple of the width
};

struct CompensatedKernels {
  int width;  // lanes of a vector
  void (*add)(const CompensatedTerms& terms, const CompensatedSums& sums);
};

}  // namespace convgrad
