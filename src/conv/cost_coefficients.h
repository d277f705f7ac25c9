// Cycles of each kind of work, written by scripts/fit-cost-model from the times in data/perf:
//   kWideCosts, xeon avx512: 858 problems held out, mean regret 1.019, 90th percentile 1.013, most 2.86
//   kWideCosts, zen4 avx512: 815 problems held out, mean regret 1.013, 90th percentile 1.000, most 1.90
//   kWideCosts, zen5 avx512: 80 problems held out, mean regret 1.016, 90th percentile 1.000, most 1.71
//   kWideZen4Costs, zen4 avx512: 815 problems held out, mean regret 1.012, 90th percentile 1.000, most 1.95
//   kWideZen5Costs, zen5 avx512: 80 problems held out, mean regret 1.008, 90th percentile 1.000, most 1.71
//   kWideIntelCosts, xeon avx512: 858 problems held out, mean regret 1.024, 90th percentile 1.024, most 4.49
//   kNarrowCosts, xeon avx2: 858 problems held out, mean regret 1.021, 90th percentile 1.041, most 3.99
//   kNarrowCosts, zen4 avx2: 815 problems held out, mean regret 1.027, 90th percentile 1.046, most 3.18
#pragma once

#include <array>

#include "conv/plan/work.h"

namespace convgrad {

// For vectors of 64 bytes.
inline constexpr std::array<double, kNumWorkKinds> kWideCosts = {
    0.09003,  // gemm_fma
    0.5273,  // gemm_load
    0.1618,  // gemm_single
    0.1701,  // whole_fma
    0.07631,  // whole_load
    0.1768,  // row_fma
    0.1205,  // plane_fma
    0.04045,  // plane_load
    2.021,  // segment
    1.028,  // fold
    27.89,  // call
    0.1447,  // copied
    0.1591,  // transposed
    0.3117,  // scattered
    0.944,  // run
    33.77,  // task
    0.1729,  // far_line
};
// For vectors of 64 bytes on a Zen 4.
inline constexpr std::array<double, kNumWorkKinds> kWideZen4Costs = {
    0.1967,  // gemm_fma
    0.4241,  // gemm_load
    0.1076,  // gemm_single
    0.2551,  // whole_fma
    0.07075,  // whole_load
    0.1594,  // row_fma
    0.1172,  // plane_fma
    0.06126,  // plane_load
    4.2,  // segment
    1.1,  // fold
    36.65,  // call
    0.1701,  // copied
    0.1502,  // transposed
    0.2784,  // scattered
    1.033,  // run
    28.91,  // task
    0.06932,  // far_line
};
// For vectors of 64 bytes on a Zen 5.
inline constexpr std::array<double, kNumWorkKinds> kWideZen5Costs = {
    0.02739,  // gemm_fma
    0.4036,  // gemm_load
    0.1621,  // gemm_single
    0.1141,  // whole_fma
    0.04122,  // whole_load
    0.2274,  // row_fma
    0.02138,  // plane_fma
    0.1875,  // plane_load
    0.02918,  // segment
    0.762,  // fold
    0.001225,  // call
    0.1302,  // copied
    0.1376,  // transposed
    0.2771,  // scattered
    0.7146,  // run
    264.9,  // task
    0.1636,  // far_line
};
// For vectors of 64 bytes on an Intel processor.
inline constexpr std::array<double, kNumWorkKinds> kWideIntelCosts = {
    0.04317,  // gemm_fma
    0.5306,  // gemm_load
    0.1723,  // gemm_single
    0.1411,  // whole_fma
    0.02927,  // whole_load
    0.05931,  // row_fma
    0.12,  // plane_fma
    0.03975,  // plane_load
    3.596,  // segment
    1.692,  // fold
    21.3,  // call
    0.1141,  // copied
    0.2015,  // transposed
    0.3069,  // scattered
    0.9726,  // run
    38.3,  // task
    0.6005,  // far_line
};
// For vectors of fewer bytes.
inline constexpr std::array<double, kNumWorkKinds> kNarrowCosts = {
    0.01265,  // gemm_fma
    0.3209,  // gemm_load
    0.1878,  // gemm_single
    0.08146,  // whole_fma
    0.1169,  // whole_load
    0.102,  // row_fma
    0.05825,  // plane_fma
    0.1164,  // plane_load
    2.778,  // segment
    1.102,  // fold
    10.19,  // call
    0.138,  // copied
    0.2494,  // transposed
    0.6453,  // scattered
    0.9613,  // run
    34.63,  // task
    0.3426,  // far_line
};

}  // namespace convgrad
