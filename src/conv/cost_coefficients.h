// Cycles of each kind of work, written by scripts/fit-cost-model from the times in data/perf:
//   kWideCosts, xeon avx512: 845 problems held out, mean regret 1.017, 90th percentile 1.011, most 4.49
//   kWideCosts, zen4 avx512: 1646 problems held out, mean regret 1.016, 90th percentile 1.004, most 3.59
//   kWideCosts, zen5 avx512: 80 problems held out, mean regret 1.018, 90th percentile 1.000, most 1.71
//   kWideZen4Costs, zen4 avx512: 1646 problems held out, mean regret 1.016, 90th percentile 1.000, most 3.59
//   kWideZen5Costs, zen5 avx512: 80 problems held out, mean regret 1.008, 90th percentile 1.000, most 1.71
//   kWideIntelCosts, xeon avx512: 845 problems held out, mean regret 1.021, 90th percentile 1.020, most 4.49
//   kNarrowCosts, xeon avx2: 845 problems held out, mean regret 1.020, 90th percentile 1.019, most 3.99
//   kNarrowCosts, xeon2 avx2: 667 problems held out, mean regret 1.013, 90th percentile 1.021, most 1.90
//   kNarrowCosts, zen4 avx2: 1646 problems held out, mean regret 1.030, 90th percentile 1.072, most 4.18
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
// For vectors of 64 bytes on a Zen 4.
inline constexpr std::array<double, kNumWorkKinds> kWideZen4Costs = {
    0.2192,  // gemm_fma
    0.2921,  // gemm_load
    0.06947,  // gemm_single
    0.239,  // whole_fma
    0.1147,  // whole_load
    0.1805,  // row_fma
    0.1637,  // plane_fma
    0.06357,  // plane_load
    4.003,  // segment
    1.026,  // fold
    39.4,  // call
    0.1373,  // copied
    0.1406,  // transposed
    0.4524,  // scattered
    1.836,  // run
    70.41,  // task
    0.265,  // far_line
};
// For vectors of 64 bytes on a Zen 5.
inline constexpr std::array<double, kNumWorkKinds> kWideZen5Costs = {
    0.02951,  // gemm_fma
    0.384,  // gemm_load
    0.1575,  // gemm_single
    0.1141,  // whole_fma
    0.03736,  // whole_load
    0.2111,  // row_fma
    0.002939,  // plane_fma
    0.2066,  // plane_load
    0.9416,  // segment
    0.5921,  // fold
    1.231,  // call
    0.1435,  // copied
    0.1298,  // transposed
    0.2719,  // scattered
    0.008775,  // run
    261.8,  // task
    0.1153,  // far_line
};
// For vectors of 64 bytes on an Intel processor.
inline constexpr std::array<double, kNumWorkKinds> kWideIntelCosts = {
    0.05602,  // gemm_fma
    0.4598,  // gemm_load
    0.1359,  // gemm_single
    0.141,  // whole_fma
    0.0269,  // whole_load
    0.1126,  // row_fma
    0.1044,  // plane_fma
    0.05199,  // plane_load
    1.387,  // segment
    1.633,  // fold
    52.53,  // call
    0.1323,  // copied
    0.1505,  // transposed
    0.2979,  // scattered
    1.465,  // run
    65.97,  // task
    0.5815,  // far_line
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
