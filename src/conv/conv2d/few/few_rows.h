// Which problems go to the micro-kernel of few rows (kernels/gemm/few_rows.h).
#pragma once

#include <cstdint>

#include "kernels/kernel_table.h"
#include "problem/geometry.h"

namespace convgrad {

// So many pixels meet a filter at most: from more on, packed panels and larger tiles are quicker.
inline constexpr int64_t kFewPixels = 64;

// True of the types that it computes, where there are vectors.
inline bool HasFewRowsKernel(const Problem& problem, const KernelTable& kernels) {
  const bool is_computed = problem.dtype == DType::kFloat32 || problem.dtype == DType::kFloat64;
  return is_computed && kernels.few_rows_f32.run != nullptr;
}

}  // namespace convgrad
