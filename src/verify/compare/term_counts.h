// How many terms each element of a result has, in runs of neighbours.
#pragma once

#include <cstdint>
#include <vector>

#include "problem/geometry.h"

namespace convgrad {

class TermCounts {
 public:
  explicit TermCounts(const Problem& problem);

  // Elements that follow each other from one on: element i of them has terms[i] * terms_scale
  // terms, whose root's inverse is roots[i] * roots_scale; 0 where there are none.
  struct Run {
    const double* terms;
    const double* roots;
    double terms_scale, roots_scale;
    int64_t count;
  };
  Run From(int64_t element) const;

 private:
  // An image row of channels, an image plane of one channel, or a filter's tap and input channel:
  // the same numbers but for a factor.
  std::vector<double> terms_, roots_;
  std::vector<double> scales_;  // of lines; line i has scales_[i / lines_together_ % size]
  int64_t lines_together_ = 1;
};

}  // namespace convgrad
