// Packing bfloat16 numbers two by two, for processors that multiply them so.
#pragma once

#include <cstdint>

#include "base/float16.h"

namespace convgrad {

// Strides are in elements. Ranges don't overlap. Any alignment. Where there is no second number it
// is zero.
struct PackPairKernels {
  // Neighbours of a row: to[row * to_stride + i] = {from[row][2i], from[row][2i + 1]}, where
  // from[row][col] is from[row * from_stride + col], for row < rows, col < cols.
  void (*pair_cols)(const BFloat16* from, int64_t from_stride, BFloat16Pair* to, int64_t to_stride,
                    int64_t rows, int64_t cols);
  // The same to to[i * to_stride + row].
  void (*pair_cols_transposed)(const BFloat16* from, int64_t from_stride, BFloat16Pair* to,
                               int64_t to_stride, int64_t rows, int64_t cols);
  // Neighbours of a column: to[i * to_stride + col] = {from[2i][col], from[2i + 1][col]}.
  void (*pair_rows)(const BFloat16* from, int64_t from_stride, BFloat16Pair* to, int64_t to_stride,
                    int64_t rows, int64_t cols);
  // The same to to[col * to_stride + i].
  void (*pair_rows_transposed)(const BFloat16* from, int64_t from_stride, BFloat16Pair* to,
                               int64_t to_stride, int64_t rows, int64_t cols);
};

}  // namespace convgrad
