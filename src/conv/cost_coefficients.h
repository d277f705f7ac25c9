// Cycles of each kind of work, written by scripts/fit-cost-model from the times in data/perf:
//   kWideCosts, xeon avx512: 845 problems held out, mean regret 1.022, 90th percentile 1.024, most 2.86
//   kWideCosts, zen4 avx512: 1052 problems held out, mean regret 1.013, 90th percentile 1.000, most 1.93
//   kWideCosts, zen5 avx512: 80 problems held out, mean regret 1.018, 90th percentile 1.000, most 1.71
//   kWideZen4Costs, zen4 avx512: 1052 problems held out, mean regret 1.012, 90th percentile 1.000, most 2.02
//   kWideZen5Costs, zen5 avx512: 80 problems held out, mean regret 1.008, 90th percentile 1.000, most 1.71
//   kWideIntelCosts, xeon avx512: 845 problems held out, mean regret 1.025, 90th percentile 1.027, most 4.49
//   kNarrowCosts, xeon avx2: 845 problems held out, mean regret 1.024, 90th percentile 1.051, most 3.99
//   kNarrowCosts, zen4 avx2: 1052 problems held out, mean regret 1.025, 90th percentile 1.043, most 3.79
#pragma once

#include <array>

#include "conv/plan/work.h"

namespace convgrad {

// For vectors of 64 bytes.
inline constexpr std::array<double, kNumWorkKinds> kWideCosts = {
    0.1146,  // gemm_fma
    0.4218,  // gemm_load
    0.1187,  // gemm_single
    0.1815,  // whole_fma
    0.06211,  // whole_load
    0.2001,  // row_fma
    0.1365,  // plane_fma
    0.05242,  // plane_load
    1.185,  // segment
    0.8564,  // fold
    26.11,  // call
    0.1467,  // copied
    0.1497,  // transposed
    0.2902,  // scattered
    1.014,  // run
    28.77,  // task
    0.1314,  // far_line
};
// For vectors of 64 bytes on a Zen 4.
inline constexpr std::array<double, kNumWorkKinds> kWideZen4Costs = {
    0.213,  // gemm_fma
    0.342,  // gemm_load
    0.0791,  // gemm_single
    0.2452,  // whole_fma
    0.1002,  // whole_load
    0.1788,  // row_fma
    0.1641,  // plane_fma
    0.07747,  // plane_load
    2.991,  // segment
    0.8344,  // fold
    37.58,  // call
    0.1927,  // copied
    0.1481,  // transposed
    0.2855,  // scattered
    1.439,  // run
    23.35,  // task
    0.1097,  // far_line
};
// For vectors of 64 bytes on a Zen 5.
inline constexpr std::array<double, kNumWorkKinds> kWideZen5Costs = {
    0.02566,  // gemm_fma
    0.3861,  // gemm_load
    0.1597,  // gemm_single
    0.114,  // whole_fma
    0.03158,  // whole_load
    0.2172,  // row_fma
    0.02385,  // plane_fma
    0.178,  // plane_load
    0.03526,  // segment
    0.7409,  // fold
    0.001081,  // call
    0.1282,  // copied
    0.1336,  // transposed
    0.2689,  // scattered
    0.6071,  // run
    257.1,  // task
    0.2251,  // far_line
};
// For vectors of 64 bytes on an Intel processor.
inline constexpr std::array<double, kNumWorkKinds> kWideIntelCosts = {
    0.05389,  // gemm_fma
    0.4703,  // gemm_load
    0.1616,  // gemm_single
    0.1436,  // whole_fma
    0.01601,  // whole_load
    0.05164,  // row_fma
    0.1175,  // plane_fma
    0.04249,  // plane_load
    3.767,  // segment
    1.494,  // fold
    16.09,  // call
    0.09975,  // copied
    0.1951,  // transposed
    0.7198,  // scattered
    1,  // run
    39.98,  // task
    0.7373,  // far_line
};
// For vectors of fewer bytes.
inline constexpr std::array<double, kNumWorkKinds> kNarrowCosts = {
    0.03862,  // gemm_fma
    0.2211,  // gemm_load
    0.1479,  // gemm_single
    0.06543,  // whole_fma
    0.1334,  // whole_load
    0.09595,  // row_fma
    0.1398,  // plane_fma
    0.04766,  // plane_load
    2.632,  // segment
    1.187,  // fold
    7.896,  // call
    0.1491,  // copied
    0.2334,  // transposed
    0.8435,  // scattered
    0.6713,  // run
    30.05,  // task
    0.3084,  // far_line
};

}  // namespace convgrad
