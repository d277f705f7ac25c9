// Packing bfloat16 numbers two by two, for processors that multiply them so.
#pragma once

#include <cstdint>

#include "base/float16.h"

namespace convgrad {

struct BFloat16Magnitudes {
  uint16_t least, greatest;
};

// `count` pairs of numbers `apart` in a row of `cols`, one behind the other from `begin` on.
// Numbers off the row are zeros.
struct PairsApart {
  int64_t cols, begin, apart, count;
};

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
  // Rows that are not neighbours, in blocks of block_cols columns, the last one maybe narrower:
  // to[col / block_cols * block_stride + row * block_cols + col % block_cols]
  //   = {first[row * from_stride + col], second[row * from_stride + col]};
  // a null `first` or `second` reads as zeros.
  void (*pair_split)(const BFloat16* first, const BFloat16* second, int64_t from_stride,
                     BFloat16Pair* to, int64_t block_stride, int64_t rows, int64_t cols,
                     int64_t block_cols);
  // Every number of a row with another: to[row * to_stride + i]
  //   = {from[row][begin + i], from[row][begin + i + apart]} for i < count.
  void (*pair_apart)(const BFloat16* from, int64_t from_stride, const PairsApart& pairs,
                     BFloat16Pair* to, int64_t to_stride, int64_t rows);
  // The same to to[i * to_stride + row].
  void (*pair_apart_transposed)(const BFloat16* from, int64_t from_stride, const PairsApart& pairs,
                                BFloat16Pair* to, int64_t to_stride, int64_t rows);
  // Pairs of many places side by side, as many places i as a vector has pairs; a null place reads
  // as zeros: to[k * to_step + i] = {from[i][2k], from[i][2k + 1]} for k < count.
  void (*gather_cols)(const BFloat16* const* from, int64_t count, BFloat16Pair* to,
                      int64_t to_step);
  // to[k * to_step + i] = {from[i][k], from[i][k + apart]} for k < count. What lies `ahead` numbers
  // behind is fetched meanwhile; it need not exist.
  void (*gather_rows)(const BFloat16* const* from, int64_t apart, int64_t count, BFloat16Pair* to,
                      int64_t to_step, int64_t ahead);
  // The least magnitude that is not zero, if there is one (else 0xFFFF), and the greatest, of
  // `count` numbers, as bits.
  BFloat16Magnitudes (*magnitudes)(const BFloat16* numbers, int64_t count);
};

}  // namespace convgrad
