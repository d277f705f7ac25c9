// Cycles of each kind of work, written by scripts/fit-cost-model from the times in data/perf:
//   kWideCosts, zen4 avx512: 758 problems held out, mean regret 1.015, 90th percentile 1.001, most 1.95
//   kWideCosts, zen5 avx512: 80 problems held out, mean regret 1.021, 90th percentile 1.000, most 1.71
//   kWideZen4Costs, zen4 avx512: 758 problems held out, mean regret 1.014, 90th percentile 1.000, most 2.08
//   kNarrowCosts, zen4 avx2: 758 problems held out, mean regret 1.027, 90th percentile 1.036, most 2.43
#pragma once

#include <array>

#include "conv/plan/work.h"

namespace convgrad {

// For vectors of 64 bytes.
inline constexpr std::array<double, kNumWorkKinds> kWideCosts = {
    0.1226,  // gemm_fma
    0.4484,  // gemm_load
    0.1305,  // gemm_single
    0.1997,  // whole_fma
    0.05023,  // whole_load
    0.1876,  // row_fma
    0.002676,  // plane_fma
    0.2113,  // plane_load
    0.4058,  // shifted_fma
    0.6059,  // segment
    1.587,  // fold
    31.07,  // call
    0.144,  // copied
    0.1354,  // transposed
    0.2706,  // scattered
    0.7342,  // run
    27.95,  // task
    0.1205,  // far_line
};
// For vectors of 64 bytes on a Zen 4.
inline constexpr std::array<double, kNumWorkKinds> kWideZen4Costs = {
    0.1917,  // gemm_fma
    0.4314,  // gemm_load
    0.1113,  // gemm_single
    0.2496,  // whole_fma
    0.07303,  // whole_load
    0.1362,  // row_fma
    0.05374,  // plane_fma
    0.2425,  // plane_load
    0.03066,  // shifted_fma
    3.571,  // segment
    1.499,  // fold
    67.71,  // call
    0.1615,  // copied
    0.1356,  // transposed
    0.2791,  // scattered
    1.176,  // run
    16.18,  // task
    0.185,  // far_line
};
// For vectors of fewer bytes.
inline constexpr std::array<double, kNumWorkKinds> kNarrowCosts = {
    0.003761,  // gemm_fma
    0.3138,  // gemm_load
    0.1902,  // gemm_single
    0.08675,  // whole_fma
    0.09431,  // whole_load
    0.1199,  // row_fma
    0.03363,  // plane_fma
    0.1313,  // plane_load
    0.01237,  // shifted_fma
    2.225,  // segment
    1.58,  // fold
    27.63,  // call
    0.1131,  // copied
    0.1735,  // transposed
    0.5521,  // scattered
    0.9939,  // run
    23.8,  // task
    0.07116,  // far_line
};

}  // namespace convgrad
