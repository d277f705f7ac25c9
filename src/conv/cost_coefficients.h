// Cycles of each kind of work, written by scripts/fit-cost-model from the times in data/perf:
//   kWideCosts, xeon avx512: 778 problems held out, mean regret 1.014, 90th percentile 1.010, most 1.83
//   kWideCosts, xeon2 avx512: 667 problems held out, mean regret 1.014, 90th percentile 1.000, most 3.09
//   kWideCosts, zen4 avx512: 1646 problems held out, mean regret 1.018, 90th percentile 1.007, most 5.71
//   kWideCosts, zen5 avx512: 2232 problems held out, mean regret 1.014, 90th percentile 1.013, most 2.30
//   kNarrowCosts, xeon avx2: 845 problems held out, mean regret 1.021, 90th percentile 1.025, most 3.99
//   kNarrowCosts, xeon2 avx2: 667 problems held out, mean regret 1.012, 90th percentile 1.016, most 1.90
//   kNarrowCosts, zen3 avx2: 745 problems held out, mean regret 1.030, 90th percentile 1.086, most 2.26
//   kNarrowCosts, zen4 avx2: 1646 problems held out, mean regret 1.025, 90th percentile 1.054, most 3.79
#pragma once

#include <array>

#include "conv/plan/work.h"

namespace convgrad {

// For vectors of 64 bytes.
inline constexpr std::array<double, kNumWorkKinds> kWideCosts = {
    0.1379,  // gemm_fma
    0.3578,  // gemm_load
    0.09894,  // gemm_single
    0.1948,  // whole_fma
    0.05303,  // whole_load
    0.1913,  // row_fma
    0.1474,  // plane_fma
    0.03574,  // plane_load
    1.039,  // segment
    1.116,  // fold
    25.61,  // call
    0.1367,  // copied
    0.1638,  // transposed
    0.4571,  // scattered
    1.167,  // run
    74.26,  // task
    0.4109,  // far_line
};
// For vectors of fewer bytes.
inline constexpr std::array<double, kNumWorkKinds> kNarrowCosts = {
    0.04559,  // gemm_fma
    0.2135,  // gemm_load
    0.1552,  // gemm_single
    0.07045,  // whole_fma
    0.1395,  // whole_load
    0.1172,  // row_fma
    0.05415,  // plane_fma
    0.1246,  // plane_load
    2.161,  // segment
    1.098,  // fold
    9.936,  // call
    0.1512,  // copied
    0.2425,  // transposed
    0.6548,  // scattered
    1.003,  // run
    39.41,  // task
    0.3631,  // far_line
};

}  // namespace convgrad
