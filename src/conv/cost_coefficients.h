// Cycles of each kind of work, written by scripts/fit-cost-model from the times in data/perf:
//   kWideCosts, xeon avx512: 845 problems held out, mean regret 1.023, 90th percentile 1.023, most 4.49
//   kWideCosts, zen4 avx512: 1516 problems held out, mean regret 1.023, 90th percentile 1.030, most 3.85
//   kWideCosts, zen5 avx512: 80 problems held out, mean regret 1.011, 90th percentile 1.000, most 1.71
//   kWideZen4Costs, zen4 avx512: 1516 problems held out, mean regret 1.015, 90th percentile 1.004, most 3.30
//   kWideZen5Costs, zen5 avx512: 80 problems held out, mean regret 1.008, 90th percentile 1.000, most 1.71
//   kWideIntelCosts, xeon avx512: 845 problems held out, mean regret 1.026, 90th percentile 1.036, most 4.49
//   kNarrowCosts, xeon avx2: 845 problems held out, mean regret 1.024, 90th percentile 1.049, most 3.99
//   kNarrowCosts, zen4 avx2: 1516 problems held out, mean regret 1.030, 90th percentile 1.087, most 4.18
#pragma once

#include <array>

#include "conv/plan/work.h"

namespace convgrad {

// For vectors of 64 bytes.
inline constexpr std::array<double, kNumWorkKinds> kWideCosts = {
    0.1342,  // gemm_fma
    0.3634,  // gemm_load
    0.1082,  // gemm_single
    0.1916,  // whole_fma
    0.04779,  // whole_load
    0.1851,  // row_fma
    0.1373,  // plane_fma
    0.08666,  // plane_load
    0.8106,  // segment
    0.4665,  // fold
    16.3,  // call
    0.1356,  // copied
    0.2075,  // transposed
    0.495,  // scattered
    0.7642,  // run
    43.93,  // task
    0.4064,  // far_line
};
// For vectors of 64 bytes on a Zen 4.
inline constexpr std::array<double, kNumWorkKinds> kWideZen4Costs = {
    0.2203,  // gemm_fma
    0.2531,  // gemm_load
    0.07373,  // gemm_single
    0.2366,  // whole_fma
    0.1026,  // whole_load
    0.1945,  // row_fma
    0.1765,  // plane_fma
    0.06061,  // plane_load
    3.455,  // segment
    0.8222,  // fold
    27.03,  // call
    0.1278,  // copied
    0.161,  // transposed
    0.6019,  // scattered
    1.278,  // run
    31.85,  // task
    0.1329,  // far_line
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
    0.05566,  // gemm_fma
    0.4629,  // gemm_load
    0.1516,  // gemm_single
    0.1415,  // whole_fma
    0.01866,  // whole_load
    0.06232,  // row_fma
    0.1221,  // plane_fma
    0.03848,  // plane_load
    3.658,  // segment
    1.353,  // fold
    16.52,  // call
    0.09375,  // copied
    0.1892,  // transposed
    0.6979,  // scattered
    0.9395,  // run
    37.37,  // task
    0.6754,  // far_line
};
// For vectors of fewer bytes.
inline constexpr std::array<double, kNumWorkKinds> kNarrowCosts = {
    0.03441,  // gemm_fma
    0.2256,  // gemm_load
    0.1385,  // gemm_single
    0.05575,  // whole_fma
    0.1384,  // whole_load
    0.09149,  // row_fma
    0.03659,  // plane_fma
    0.1203,  // plane_load
    2.198,  // segment
    0.9135,  // fold
    7.771,  // call
    0.1223,  // copied
    0.2211,  // transposed
    0.8872,  // scattered
    0.7944,  // run
    27.05,  // task
    0.3698,  // far_line
};

}  // namespace convgrad
