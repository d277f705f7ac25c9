// Cycles of each kind of work, written by scripts/fit-cost-model from the times in data/perf:
//   kWideCosts, zen4 avx512: 427 problems held out, mean regret 1.023, 90th percentile 1.028, most 2.29
//   kWideCosts, zen5 avx512: 80 problems held out, mean regret 1.020, 90th percentile 1.000, most 1.71
//   kWideZen4Costs, zen4 avx512: 427 problems held out, mean regret 1.025, 90th percentile 1.000, most 3.35
//   kNarrowCosts, zen4 avx2: 427 problems held out, mean regret 1.022, 90th percentile 1.000, most 2.43
#pragma once

#include <array>

#include "conv/plan/work.h"

namespace convgrad {

// For vectors of 64 bytes.
inline constexpr std::array<double, kNumWorkKinds> kWideCosts = {
    0.126,  // gemm_fma
    0.159,  // gemm_load
    0.1877,  // whole_fma
    0.002986,  // whole_load
    0.1076,  // row_fma
    0.004412,  // plane_fma
    0.1253,  // plane_load
    0.6229,  // shifted_fma
    1.393,  // segment
    0.9339,  // fold
    41.73,  // call
    0.1474,  // copied
    0.1387,  // transposed
    0.16,  // scattered
    1.289,  // run
    10.5,  // task
    0.1374,  // far_line
};
// For vectors of 64 bytes on a Zen 4.
inline constexpr std::array<double, kNumWorkKinds> kWideZen4Costs = {
    0.2405,  // gemm_fma
    0.2402,  // gemm_load
    0.2688,  // whole_fma
    0.1185,  // whole_load
    0.1082,  // row_fma
    0.046,  // plane_fma
    0.2153,  // plane_load
    0.1101,  // shifted_fma
    5.414,  // segment
    1.216,  // fold
    143.9,  // call
    0.1804,  // copied
    0.1339,  // transposed
    0.1309,  // scattered
    2.599,  // run
    2.75,  // task
    0.2987,  // far_line
};
// For vectors of fewer bytes.
inline constexpr std::array<double, kNumWorkKinds> kNarrowCosts = {
    0.03938,  // gemm_fma
    0.1678,  // gemm_load
    0.1084,  // whole_fma
    0.0372,  // whole_load
    0.1372,  // row_fma
    0.04023,  // plane_fma
    0.1234,  // plane_load
    0.018,  // shifted_fma
    1.447,  // segment
    1.831,  // fold
    32.84,  // call
    0.1172,  // copied
    0.1819,  // transposed
    0.8026,  // scattered
    1.389,  // run
    16.04,  // task
    0.03711,  // far_line
};

}  // namespace convgrad
