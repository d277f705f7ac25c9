// Cycles of each kind of work, written by scripts/fit-cost-model from the times in data/perf:
//   kWideCosts, zen4 avx512: 427 problems held out, mean regret 1.024, 90th percentile 1.032, most 2.29
//   kWideCosts, zen5 avx512: 80 problems held out, mean regret 1.018, 90th percentile 1.000, most 1.71
//   kWideZen4Costs, zen4 avx512: 427 problems held out, mean regret 1.025, 90th percentile 1.000, most 3.35
//   kNarrowCosts, zen4 avx2: 427 problems held out, mean regret 1.022, 90th percentile 1.000, most 2.43
#pragma once

#include <array>

#include "conv/plan/work.h"

namespace convgrad {

// For vectors of 64 bytes.
inline constexpr std::array<double, kNumWorkKinds> kWideCosts = {
    0.1241,  // gemm_fma
    0.1616,  // gemm_load
    0.1848,  // whole_fma
    0.003083,  // whole_load
    0.1043,  // row_fma
    0.004412,  // plane_fma
    0.1177,  // plane_load
    0.623,  // shifted_fma
    1.414,  // segment
    0.9936,  // fold
    41.79,  // call
    0.1474,  // copied
    0.1387,  // transposed
    0.1599,  // scattered
    1.31,  // run
    10.5,  // task
    0.1354,  // far_line
};
// For vectors of 64 bytes on a Zen 4.
inline constexpr std::array<double, kNumWorkKinds> kWideZen4Costs = {
    0.2368,  // gemm_fma
    0.2479,  // gemm_load
    0.2688,  // whole_fma
    0.1187,  // whole_load
    0.1347,  // row_fma
    0.05815,  // plane_fma
    0.2187,  // plane_load
    0.1067,  // shifted_fma
    4.556,  // segment
    1.253,  // fold
    144.1,  // call
    0.1776,  // copied
    0.136,  // transposed
    0.135,  // scattered
    2.52,  // run
    2.664,  // task
    0.2989,  // far_line
};
// For vectors of fewer bytes.
inline constexpr std::array<double, kNumWorkKinds> kNarrowCosts = {
    0.03937,  // gemm_fma
    0.1678,  // gemm_load
    0.1084,  // whole_fma
    0.03714,  // whole_load
    0.1372,  // row_fma
    0.04024,  // plane_fma
    0.1234,  // plane_load
    0.01917,  // shifted_fma
    1.447,  // segment
    1.832,  // fold
    32.78,  // call
    0.1172,  // copied
    0.182,  // transposed
    0.8028,  // scattered
    1.389,  // run
    16.31,  // task
    0.03709,  // far_line
};

}  // namespace convgrad
