// Cycles of each kind of work, written by scripts/fit-cost-model from the times in data/perf:
//   kWideCosts, xeon avx512: 858 problems held out, mean regret 1.020, 90th percentile 1.020, most 2.86
//   kWideCosts, zen4 avx512: 844 problems held out, mean regret 1.015, 90th percentile 1.006, most 1.90
//   kWideCosts, zen5 avx512: 80 problems held out, mean regret 1.016, 90th percentile 1.000, most 1.71
//   kWideZen4Costs, zen4 avx512: 844 problems held out, mean regret 1.013, 90th percentile 1.000, most 3.72
//   kWideZen5Costs, zen5 avx512: 80 problems held out, mean regret 1.008, 90th percentile 1.000, most 1.71
//   kWideIntelCosts, xeon avx512: 858 problems held out, mean regret 1.024, 90th percentile 1.024, most 4.49
//   kNarrowCosts, xeon avx2: 858 problems held out, mean regret 1.021, 90th percentile 1.041, most 3.99
//   kNarrowCosts, zen4 avx2: 844 problems held out, mean regret 1.026, 90th percentile 1.044, most 3.18
#pragma once

#include <array>

#include "conv/plan/work.h"

namespace convgrad {

// For vectors of 64 bytes.
inline constexpr std::array<double, kNumWorkKinds> kWideCosts = {
    0.08229,  // gemm_fma
    0.5431,  // gemm_load
    0.1891,  // gemm_single
    0.1708,  // whole_fma
    0.07777,  // whole_load
    0.1544,  // row_fma
    0.1353,  // plane_fma
    0.05006,  // plane_load
    1.597,  // segment
    0.97,  // fold
    24.89,  // call
    0.1464,  // copied
    0.1866,  // transposed
    0.3141,  // scattered
    0.9278,  // run
    42.42,  // task
    0.5205,  // far_line
};
// For vectors of 64 bytes on a Zen 4.
inline constexpr std::array<double, kNumWorkKinds> kWideZen4Costs = {
    0.1974,  // gemm_fma
    0.371,  // gemm_load
    0.1107,  // gemm_single
    0.2525,  // whole_fma
    0.05273,  // whole_load
    0.05931,  // row_fma
    0.1549,  // plane_fma
    0.05667,  // plane_load
    5.636,  // segment
    0.8557,  // fold
    34.24,  // call
    0.1711,  // copied
    0.1562,  // transposed
    0.2828,  // scattered
    1.109,  // run
    33.26,  // task
    0.1802,  // far_line
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
    0.01193,  // gemm_fma
    0.3248,  // gemm_load
    0.1761,  // gemm_single
    0.08091,  // whole_fma
    0.1105,  // whole_load
    0.0958,  // row_fma
    0.06096,  // plane_fma
    0.115,  // plane_load
    2.697,  // segment
    1.071,  // fold
    8.975,  // call
    0.1277,  // copied
    0.2461,  // transposed
    0.6312,  // scattered
    0.9739,  // run
    33.16,  // task
    0.3353,  // far_line
};

}  // namespace convgrad
