// Errors of a whole tensor in few numbers: along each axis, over pairs of axes, and how many there
// are of each size. Bounded, however large the tensor is.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "verify/where/where.h"

namespace convgrad {

// The least and the greatest signed error at the positions of one axis, or in each of equal parts
// of a long one. Negative: the number is too small.
struct AxisProfile {
  std::string axis;
  int64_t size = 1;
  std::vector<double> low, high;
};

// The error of the largest size, with its sign, in the cells of a grid over two axes.
struct ErrorGrid {
  std::string down, across;  // names of the axes
  int64_t down_size = 1, across_size = 1;
  std::vector<std::vector<double>> worst;  // by row and column
};

// How many elements have an error of which size: in [2^(first + i), 2^(first + i + 1)) counts[i].
struct ErrorHistogram {
  int first = 0;
  std::vector<int64_t> counts;
  int64_t zero = 0;
  int64_t infinite = 0;  // NaN and infinity where a number is expected, or the other way round
};

struct LargeError {
  int64_t element = 0;
  double error = 0;  // infinite where there is no number
};

struct ErrorProfile {
  std::string measure;  // "bound", "ulp", "abs", "rel" or "tolerance": what errors are shares of
  double limit = 0;     // the largest error in it that passes
  std::vector<AxisProfile> axes;  // of those with more than one position
  std::vector<ErrorGrid> grids;   // rows and columns (or taps), then the other two axes
  ErrorHistogram errors;          // of their sizes, in `measure`
  ErrorHistogram ulps;            // ULP by which the number is not the expected one
  // As many as there would be where roundings are independent and as large as they can be: with no
  // error, then as in ulps.counts. Empty where nothing was compared with the data.
  std::vector<double> model;
  std::vector<LargeError> worst;  // the largest first
};

// No profile is made of more elements: 200 MB would be needed meanwhile.
inline constexpr int64_t kMostProfiledElements = int64_t{1} << 24;

// The errors of each element, in C order.
struct ElementErrors {
  std::span<const float> errors;  // in the measure, without sign; infinite where there is no number
  std::span<const float> ulps;    // with sign
  std::span<const float> model;   // ULP: how large sums' rounding errors are; may be empty
};

ErrorProfile ProfileOf(const ElementErrors& elements, const Layout& layout);

}  // namespace convgrad
