// Cycles of each kind of work, written by scripts/fit-cost-model from the times in data/perf:
//   kWideCosts, xeon avx512: 858 problems held out, mean regret 1.024, 90th percentile 1.024, most 4.49
//   kWideCosts, zen4 avx512: 737 problems held out, mean regret 1.015, 90th percentile 1.006, most 3.72
//   kWideCosts, zen5 avx512: 80 problems held out, mean regret 1.037, 90th percentile 1.003, most 1.97
//   kWideZen4Costs, zen4 avx512: 737 problems held out, mean regret 1.013, 90th percentile 1.000, most 1.95
//   kWideZen5Costs, zen5 avx512: 80 problems held out, mean regret 1.008, 90th percentile 1.000, most 1.71
//   kWideIntelCosts, xeon avx512: 858 problems held out, mean regret 1.024, 90th percentile 1.024, most 4.49
//   kNarrowCosts, xeon avx2: 858 problems held out, mean regret 1.020, 90th percentile 1.042, most 3.99
//   kNarrowCosts, zen4 avx2: 737 problems held out, mean regret 1.026, 90th percentile 1.041, most 2.43
#pragma once

#include <array>

#include "conv/plan/work.h"

namespace convgrad {

// For vectors of 64 bytes.
inline constexpr std::array<double, kNumWorkKinds> kWideCosts = {
    0.06469,  // gemm_fma
    0.5887,  // gemm_load
    0.1699,  // gemm_single
    0.1667,  // whole_fma
    0.06194,  // whole_load
    0.1527,  // row_fma
    0.04924,  // plane_fma
    0.1304,  // plane_load
    0.1659,  // shifted_fma
    1.016,  // segment
    2.007,  // fold
    26.2,  // call
    0.1328,  // copied
    0.1574,  // transposed
    0.2939,  // scattered
    0.7159,  // run
    31.35,  // task
    0.4301,  // far_line
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
// For vectors of 64 bytes on a Zen 5.
inline constexpr std::array<double, kNumWorkKinds> kWideZen5Costs = {
    0.00862,  // gemm_fma
    0.3997,  // gemm_load
    0.1688,  // gemm_single
    0.1115,  // whole_fma
    0.008505,  // whole_load
    0.1683,  // row_fma
    0.1004,  // plane_fma
    0.051,  // plane_load
    0.4941,  // shifted_fma
    0.1881,  // segment
    0.4561,  // fold
    0.001,  // call
    0.1036,  // copied
    0.1291,  // transposed
    0.2454,  // scattered
    0.6071,  // run
    252.2,  // task
    0.3698,  // far_line
};
// For vectors of 64 bytes on an Intel processor.
inline constexpr std::array<double, kNumWorkKinds> kWideIntelCosts = {
    0.04342,  // gemm_fma
    0.5279,  // gemm_load
    0.1691,  // gemm_single
    0.1413,  // whole_fma
    0.02409,  // whole_load
    0.07582,  // row_fma
    0.1356,  // plane_fma
    0.05685,  // plane_load
    0.1021,  // shifted_fma
    3.207,  // segment
    1.83,  // fold
    20.64,  // call
    0.1114,  // copied
    0.2015,  // transposed
    0.3073,  // scattered
    0.9698,  // run
    39.22,  // task
    0.609,  // far_line
};
// For vectors of fewer bytes.
inline constexpr std::array<double, kNumWorkKinds> kNarrowCosts = {
    0.005288,  // gemm_fma
    0.3096,  // gemm_load
    0.1874,  // gemm_single
    0.06748,  // whole_fma
    0.1221,  // whole_load
    0.08825,  // row_fma
    0.01547,  // plane_fma
    0.1296,  // plane_load
    0.01691,  // shifted_fma
    2.285,  // segment
    1.543,  // fold
    30.13,  // call
    0.1234,  // copied
    0.1863,  // transposed
    0.5237,  // scattered
    0.8834,  // run
    22.41,  // task
    0.3392,  // far_line
};

}  // namespace convgrad
