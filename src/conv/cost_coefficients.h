// Cycles of each kind of work, written by scripts/fit-cost-model from the times in data/perf:
//   kWideCosts, zen4 avx512: 736 problems held out, mean regret 1.017, 90th percentile 1.008, most 2.29
//   kWideCosts, zen5 avx512: 80 problems held out, mean regret 1.021, 90th percentile 1.000, most 1.71
//   kWideZen4Costs, zen4 avx512: 736 problems held out, mean regret 1.013, 90th percentile 1.000, most 1.95
//   kNarrowCosts, zen4 avx2: 736 problems held out, mean regret 1.027, 90th percentile 1.029, most 2.43
#pragma once

#include <array>

#include "conv/plan/work.h"

namespace convgrad {

// For vectors of 64 bytes.
inline constexpr std::array<double, kNumWorkKinds> kWideCosts = {
    0.1117,  // gemm_fma
    0.4647,  // gemm_load
    0.136,  // gemm_single
    0.1986,  // whole_fma
    0.03817,  // whole_load
    0.2131,  // row_fma
    0.003894,  // plane_fma
    0.2262,  // plane_load
    0.5469,  // shifted_fma
    0.5263,  // segment
    1.536,  // fold
    26.94,  // call
    0.1345,  // copied
    0.1324,  // transposed
    0.2872,  // scattered
    0.9007,  // run
    27.3,  // task
    0.1095,  // far_line
};
// For vectors of 64 bytes on a Zen 4.
inline constexpr std::array<double, kNumWorkKinds> kWideZen4Costs = {
    0.1925,  // gemm_fma
    0.4396,  // gemm_load
    0.1401,  // gemm_single
    0.2568,  // whole_fma
    0.07146,  // whole_load
    0.1691,  // row_fma
    0.06212,  // plane_fma
    0.2409,  // plane_load
    0.05915,  // shifted_fma
    3.546,  // segment
    1.255,  // fold
    63.87,  // call
    0.151,  // copied
    0.1241,  // transposed
    0.2852,  // scattered
    1.42,  // run
    22.45,  // task
    0.1132,  // far_line
};
// For vectors of fewer bytes.
inline constexpr std::array<double, kNumWorkKinds> kNarrowCosts = {
    0.003773,  // gemm_fma
    0.3113,  // gemm_load
    0.1909,  // gemm_single
    0.08833,  // whole_fma
    0.09222,  // whole_load
    0.1207,  // row_fma
    0.04238,  // plane_fma
    0.1211,  // plane_load
    0.0262,  // shifted_fma
    2.167,  // segment
    1.565,  // fold
    27.68,  // call
    0.1095,  // copied
    0.1731,  // transposed
    0.5476,  // scattered
    1.09,  // run
    27.05,  // task
    0.07679,  // far_line
};

}  // namespace convgrad
