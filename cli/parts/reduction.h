// Parts of one result put together: exact sums added in any order, images set in a row.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/parallel.h"
#include "cli/parts/part_list.h"
#include "order/fixed_point.h"
#include "tensor/tensor.h"

namespace convgrad::cli {

// The sum of parts that were read, and the hash of each file.
struct SummedParts {
  FixedPointSums sums;
  std::vector<std::string> sha256;
};

// The sum of all parts' sums, in the least window. More than `max_bytes` are refused as
// "memory/limit". Throws data "part/header" for sums that no images have.
SummedParts SumParts(const PartList& parts, int64_t max_bytes, const Parallel& parallel);

// Sums rounded once to the problem's type.
Tensor RoundSums(const Problem& problem, const FixedPointSums& sums, const Parallel& parallel);

// The images of all parts, in order; likewise.
struct JoinedParts {
  Tensor result;
  std::vector<std::string> sha256;
};
JoinedParts JoinParts(const PartList& parts, int64_t max_bytes);

}  // namespace convgrad::cli
