// Cycles of each kind of work, written by scripts/fit-cost-model from the times in data/perf:
//   kWideCosts, xeon avx512: 807 problems held out, mean regret 1.021, 90th percentile 1.020, most 2.86
//   kWideCosts, zen4 avx512: 737 problems held out, mean regret 1.016, 90th percentile 1.006, most 1.90
//   kWideCosts, zen5 avx512: 80 problems held out, mean regret 1.018, 90th percentile 1.000, most 1.71
//   kWideZen4Costs, zen4 avx512: 737 problems held out, mean regret 1.013, 90th percentile 1.000, most 1.95
//   kNarrowCosts, xeon avx2: 807 problems held out, mean regret 1.021, 90th percentile 1.047, most 3.99
//   kNarrowCosts, zen4 avx2: 737 problems held out, mean regret 1.026, 90th percentile 1.042, most 2.43
#pragma once

#include <array>

#include "conv/plan/work.h"

namespace convgrad {

// For vectors of 64 bytes.
inline constexpr std::array<double, kNumWorkKinds> kWideCosts = {
    0.08203,  // gemm_fma
    0.54,  // gemm_load
    0.166,  // gemm_single
    0.1692,  // whole_fma
    0.07176,  // whole_load
    0.1831,  // row_fma
    0.006198,  // plane_fma
    0.2301,  // plane_load
    0.4036,  // shifted_fma
    0.4366,  // segment
    2.104,  // fold
    26.98,  // call
    0.1465,  // copied
    0.1716,  // transposed
    0.3018,  // scattered
    0.8478,  // run
    36.37,  // task
    0.4441,  // far_line
};
// For vectors of 64 bytes on a Zen 4.
inline constexpr std::array<double, kNumWorkKinds> kWideZen4Costs = {
    0.1938,  // gemm_fma
    0.5096,  // gemm_load
    0.1884,  // gemm_single
    0.255,  // whole_fma
    0.1188,  // whole_load
    0.1865,  // row_fma
    0.06384,  // plane_fma
    0.2348,  // plane_load
    0.04884,  // shifted_fma
    4.339,  // segment
    1.706,  // fold
    59.55,  // call
    0.1515,  // copied
    0.1181,  // transposed
    0.3211,  // scattered
    1.616,  // run
    30.64,  // task
    0.003129,  // far_line
};
// For vectors of fewer bytes.
inline constexpr std::array<double, kNumWorkKinds> kNarrowCosts = {
    0.005467,  // gemm_fma
    0.315,  // gemm_load
    0.1903,  // gemm_single
    0.07028,  // whole_fma
    0.1205,  // whole_load
    0.09778,  // row_fma
    0.02653,  // plane_fma
    0.1199,  // plane_load
    0.02241,  // shifted_fma
    2.376,  // segment
    1.66,  // fold
    31.95,  // call
    0.1263,  // copied
    0.192,  // transposed
    0.5211,  // scattered
    0.9288,  // run
    22.63,  // task
    0.3472,  // far_line
};

}  // namespace convgrad
