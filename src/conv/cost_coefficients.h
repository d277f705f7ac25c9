// Cycles of each kind of work, written by scripts/fit-cost-model from the times in data/perf:
//   kWideCosts, zen4 avx512: 736 problems held out, mean regret 1.024, 90th percentile 1.044, most 2.45
//   kWideCosts, zen5 avx512: 80 problems held out, mean regret 1.009, 90th percentile 1.000, most 1.71
//   kWideZen4Costs, zen4 avx512: 736 problems held out, mean regret 1.015, 90th percentile 1.001, most 1.95
//   kNarrowCosts, zen4 avx2: 736 problems held out, mean regret 1.030, 90th percentile 1.046, most 2.95
#pragma once

#include <array>

#include "conv/plan/work.h"

namespace convgrad {

// For vectors of 64 bytes.
inline constexpr std::array<double, kNumWorkKinds> kWideCosts = {
    0.1484,  // gemm_fma
    0.1594,  // gemm_load
    0.1998,  // whole_fma
    0.01355,  // whole_load
    0.1548,  // row_fma
    0.001,  // plane_fma
    0.205,  // plane_load
    0.5238,  // shifted_fma
    0.1749,  // segment
    0.3034,  // fold
    21.28,  // call
    0.1453,  // copied
    0.1489,  // transposed
    0.2121,  // scattered
    0.9602,  // run
    49.02,  // task
    0.1908,  // far_line
};
// For vectors of 64 bytes on a Zen 4.
inline constexpr std::array<double, kNumWorkKinds> kWideZen4Costs = {
    0.236,  // gemm_fma
    0.1641,  // gemm_load
    0.2501,  // whole_fma
    0.07518,  // whole_load
    0.08896,  // row_fma
    0.1097,  // plane_fma
    0.1874,  // plane_load
    0.09033,  // shifted_fma
    6.927,  // segment
    2.163,  // fold
    20.01,  // call
    0.1848,  // copied
    0.2162,  // transposed
    0.8327,  // scattered
    1.251,  // run
    59.33,  // task
    0.04723,  // far_line
};
// For vectors of fewer bytes.
inline constexpr std::array<double, kNumWorkKinds> kNarrowCosts = {
    0.06199,  // gemm_fma
    0.1448,  // gemm_load
    0.08989,  // whole_fma
    0.09782,  // whole_load
    0.1882,  // row_fma
    0.05932,  // plane_fma
    0.161,  // plane_load
    0.002437,  // shifted_fma
    1.189,  // segment
    1.653,  // fold
    22.28,  // call
    0.1012,  // copied
    0.1765,  // transposed
    0.5754,  // scattered
    1.062,  // run
    28.34,  // task
    0.01528,  // far_line
};

}  // namespace convgrad
