// Cycles of each kind of work, written by scripts/fit-cost-model from the times in data/perf:
//   kWideCosts, xeon avx512: 845 problems held out, mean regret 1.020, 90th percentile 1.021, most 2.86
//   kWideCosts, zen4 avx512: 1319 problems held out, mean regret 1.013, 90th percentile 1.004, most 2.05
//   kWideCosts, zen5 avx512: 80 problems held out, mean regret 1.018, 90th percentile 1.000, most 1.71
//   kWideZen4Costs, zen4 avx512: 1319 problems held out, mean regret 1.013, 90th percentile 1.000, most 3.30
//   kWideZen5Costs, zen5 avx512: 80 problems held out, mean regret 1.008, 90th percentile 1.000, most 1.71
//   kWideIntelCosts, xeon avx512: 845 problems held out, mean regret 1.025, 90th percentile 1.027, most 4.49
//   kNarrowCosts, xeon avx2: 845 problems held out, mean regret 1.023, 90th percentile 1.047, most 3.99
//   kNarrowCosts, zen4 avx2: 1319 problems held out, mean regret 1.025, 90th percentile 1.067, most 3.79
#pragma once

#include <array>

#include "conv/plan/work.h"

namespace convgrad {

// For vectors of 64 bytes.
inline constexpr std::array<double, kNumWorkKinds> kWideCosts = {
    0.137,  // gemm_fma
    0.3541,  // gemm_load
    0.1021,  // gemm_single
    0.1786,  // whole_fma
    0.08476,  // whole_load
    0.1954,  // row_fma
    0.1325,  // plane_fma
    0.05878,  // plane_load
    1.129,  // segment
    0.9649,  // fold
    25.37,  // call
    0.1425,  // copied
    0.1586,  // transposed
    0.2832,  // scattered
    1.108,  // run
    30.04,  // task
    0.2712,  // far_line
};
// For vectors of 64 bytes on a Zen 4.
inline constexpr std::array<double, kNumWorkKinds> kWideZen4Costs = {
    0.2203,  // gemm_fma
    0.2427,  // gemm_load
    0.07466,  // gemm_single
    0.228,  // whole_fma
    0.1271,  // whole_load
    0.1551,  // row_fma
    0.1582,  // plane_fma
    0.07841,  // plane_load
    4.583,  // segment
    0.7339,  // fold
    24.34,  // call
    0.1151,  // copied
    0.1616,  // transposed
    0.4773,  // scattered
    1.006,  // run
    30.64,  // task
    0.1368,  // far_line
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
    0.04072,  // gemm_fma
    0.2279,  // gemm_load
    0.156,  // gemm_single
    0.07132,  // whole_fma
    0.1332,  // whole_load
    0.1019,  // row_fma
    0.06438,  // plane_fma
    0.1093,  // plane_load
    2.524,  // segment
    0.996,  // fold
    8.612,  // call
    0.1205,  // copied
    0.2366,  // transposed
    0.6251,  // scattered
    0.9483,  // run
    32.66,  // task
    0.4287,  // far_line
};

}  // namespace convgrad
