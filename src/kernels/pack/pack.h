// Moving numbers between storage and compute form: widening, narrowing, transposing.
#pragma once

#include <cstdint>

#include "base/float16.h"

namespace convgrad {

inline constexpr int64_t kBehindApart = 32;  // of transpose_apart

// Stored is Float16, BFloat16, float or double; Compute is float, or double for double.
// Strides are in elements. Ranges don't overlap. Any alignment.
template <class Stored>
struct PackKernels {
  using Compute = ComputeType<Stored>;

  // Exact.
  void (*widen)(const Stored* from, Compute* to, int64_t count);
  // Rounds to nearest even; NaN becomes the canonical one. For a 16-bit type `from` holds sums that
  // were rounded to odd (simd/vector-inl.h), so that this is their only rounding.
  void (*narrow)(const Compute* from, Stored* to, int64_t count);
  // to[col * to_stride + row] = from[row * from_stride + col] for row < rows, col < cols. What lies
  // `ahead` elements behind each number read is fetched into the second cache meanwhile, unless
  // `ahead` is 0; it need not exist.
  void (*transpose_widen)(const Stored* from, int64_t from_stride, Compute* to, int64_t to_stride,
                          int64_t rows, int64_t cols, int64_t ahead);
  // The same with what is written; `ahead` elements behind it is what is written next.
  void (*transpose_narrow)(const Compute* from, int64_t from_stride, Stored* to, int64_t to_stride,
                           int64_t rows, int64_t cols, int64_t ahead);
  // transpose_narrow, with whole lines of the result written around the caches where `to` and
  // to_stride allow it; the caller fences.
  void (*transpose_stream)(const Compute* from, int64_t from_stride, Stored* to, int64_t to_stride,
                           int64_t rows, int64_t cols);
  // transpose_widen of every from_step-th column: to[col * to_stride + row]
  //   = from[row * from_stride + col * from_step].
  void (*transpose_every)(const Stored* from, int64_t from_stride, int64_t from_step, Compute* to,
                          int64_t to_stride, int64_t rows, int64_t cols, int64_t ahead);
  // to[col * to_stride + row * to_step] = from[row * from_stride + col]. Numbers between these, and
  // up to kBehindApart behind a column's last, are left alone or become zero.
  void (*transpose_apart)(const Compute* from, int64_t from_stride, Compute* to, int64_t to_stride,
                          int64_t to_step, int64_t rows, int64_t cols);
  // Exchanges the rows 2i and 2i + 1 of `width` numbers for i < pairs.
  void (*swap_pairs)(Compute* rows, int64_t pairs, int64_t width);
  // to[row * to_stride + col] = from[row * from_stride + col] for row < rows, col < cols; made for
  // few columns.
  void (*copy_widen)(const Stored* from, int64_t from_stride, Compute* to, int64_t to_stride,
                     int64_t rows, int64_t cols);
  // Rows of `groups` groups of columns, one behind the other, each cut into blocks of block_cols
  // columns, its last one maybe narrower. Of the first group:
  // to[col / block_cols * block_stride + row * block_cols + col % block_cols]
  //   = from[row * from_stride + col] for row < rows, col < cols;
  // the next group's columns begin at col = cols, its blocks follow the first one's.
  void (*split_widen)(const Stored* from, int64_t from_stride, Compute* to, int64_t block_stride,
                      int64_t rows, int64_t groups, int64_t cols, int64_t block_cols);
  // Numbers of many places side by side: to[k * to_step + i] = from[i][k] for k < count and as many
  // places i as a vector of the compute type has lanes; a null place reads as zeros. `ahead` as
  // above.
  void (*gather_widen)(const Stored* const* from, int64_t count, Compute* to, int64_t to_step,
                       int64_t ahead);
  // The inverse: to[i][k] = from[k * from_step + i], for places that are not null.
  void (*scatter_narrow)(const Compute* from, int64_t from_step, int64_t count, Stored* const* to);
};

}  // namespace convgrad
