// Cycles of each kind of work, written by scripts/fit-cost-model from the times in data/perf:
//   kWideCosts, xeon avx512: 845 problems held out, mean regret 1.021, 90th percentile 1.021, most 2.86
//   kWideCosts, zen4 avx512: 1052 problems held out, mean regret 1.015, 90th percentile 1.002, most 2.21
//   kWideCosts, zen5 avx512: 80 problems held out, mean regret 1.016, 90th percentile 1.000, most 1.71
//   kWideZen4Costs, zen4 avx512: 1052 problems held out, mean regret 1.014, 90th percentile 1.000, most 3.64
//   kWideZen5Costs, zen5 avx512: 80 problems held out, mean regret 1.008, 90th percentile 1.000, most 1.71
//   kWideIntelCosts, xeon avx512: 845 problems held out, mean regret 1.021, 90th percentile 1.022, most 2.86
//   kNarrowCosts, xeon avx2: 845 problems held out, mean regret 1.023, 90th percentile 1.047, most 3.99
//   kNarrowCosts, zen4 avx2: 1052 problems held out, mean regret 1.031, 90th percentile 1.085, most 3.25
#pragma once

#include <array>

#include "conv/plan/work.h"

namespace convgrad {

// For vectors of 64 bytes.
inline constexpr std::array<double, kNumWorkKinds> kWideCosts = {
    0.1079,  // gemm_fma
    0.4784,  // gemm_load
    0.1624,  // gemm_single
    0.1845,  // whole_fma
    0.07817,  // whole_load
    0.2022,  // row_fma
    0.1328,  // plane_fma
    0.06452,  // plane_load
    1.285,  // segment
    0.9331,  // fold
    30.02,  // call
    0.1633,  // copied
    0.1624,  // transposed
    0.3143,  // scattered
    1.054,  // run
    36.14,  // task
    0.1899,  // far_line
};
// For vectors of 64 bytes on a Zen 4.
inline constexpr std::array<double, kNumWorkKinds> kWideZen4Costs = {
    0.2097,  // gemm_fma
    0.3604,  // gemm_load
    0.1081,  // gemm_single
    0.2583,  // whole_fma
    0.08654,  // whole_load
    0.08673,  // row_fma
    0.1646,  // plane_fma
    0.06163,  // plane_load
    5.677,  // segment
    0.9093,  // fold
    50.66,  // call
    0.1846,  // copied
    0.1334,  // transposed
    0.2772,  // scattered
    1.555,  // run
    25.08,  // task
    0.1446,  // far_line
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
    0.04695,  // gemm_fma
    0.5081,  // gemm_load
    0.1726,  // gemm_single
    0.148,  // whole_fma
    0.01559,  // whole_load
    0.08321,  // row_fma
    0.1206,  // plane_fma
    0.04691,  // plane_load
    3.075,  // segment
    1.672,  // fold
    20.66,  // call
    0.1201,  // copied
    0.2038,  // transposed
    0.3073,  // scattered
    1.035,  // run
    39.11,  // task
    0.5953,  // far_line
};
// For vectors of fewer bytes.
inline constexpr std::array<double, kNumWorkKinds> kNarrowCosts = {
    0.04184,  // gemm_fma
    0.2486,  // gemm_load
    0.1661,  // gemm_single
    0.08583,  // whole_fma
    0.1229,  // whole_load
    0.1043,  // row_fma
    0.09318,  // plane_fma
    0.09927,  // plane_load
    3.109,  // segment
    1.19,  // fold
    11.26,  // call
    0.149,  // copied
    0.2586,  // transposed
    0.7653,  // scattered
    0.8476,  // run
    34.26,  // task
    0.3571,  // far_line
};

}  // namespace convgrad
