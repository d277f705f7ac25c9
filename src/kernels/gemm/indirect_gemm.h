// The indirect matrix micro-kernel that all of conv2d runs on: a small tile of a matrix product
// whose operands lie where the caller's offsets say. It knows nothing of convolutions.
//
//   tile[i][j] = sum over blocks (in double) of
//                  chain over the block's segments and k < length of
//                    a[a_rows[i] + segment.a + k * a_step] * b[segment.b + k * b_step + j]
//
// with k ascending, or in pairs: 1, 0, 3, 2, ...
#pragma once

#include <cstdint>
#include <span>

#include "base/float16.h"

namespace convgrad {

// `length` consecutive terms, at these offsets (in elements) into the operands. In pairs: an even
// number, or one.
struct GemmSegment {
  int64_t a, b, length;
};

// Element is float, double, or BFloat16Pair: then the product of two elements is that of the second
// numbers added first and that of the first ones after it, each fused. No block's sum of those may
// be infinite or have a subnormal on its way; then none is NaN or -0, which the kernel does not
// look for.
template <class Element>
struct GemmTileArgs {
  using Compute = ComputeType<Element>;
  const Element* a;
  // Tiles that differ in their rows alone, one after the other: a_rows and c_rows hold as many as
  // the kernel has for each of them. Surplus rows of the last one repeat a valid a_row.
  int64_t num_tiles = 1;
  const int64_t* a_rows;
  int64_t a_step;
  // Readable for all columns of the kernel, or, if they are `masked`, which takes a kernel that
  // masks columns, for num_cols. To mask takes some machines as long as a multiply-add.
  const Element* b;
  bool masked;
  int64_t b_step;
  bool in_pairs;  // float only

  // Memory that will be wanted soon: with every term the kernel asks for the lines of `ahead_bytes`
  // more bytes, each time a step further on. A tile begins a step of its own behind the one before,
  // or, if that is 0, where that one ended. Without a step and bytes: nothing. Null: the rows of
  // the next tile, if they are far.
  const void* ahead;
  int64_t ahead_step, ahead_bytes, ahead_tile_step;
  // It lies beyond the caches. If not, tiles that have little time for it fetch nothing.
  bool far;

  // The segments of block i end at block_ends[i]. At least one block; a block may have no segments.
  const GemmSegment* segments;
  const int64_t* block_ends;
  int64_t num_blocks;

  // The sums of finished blocks: rows x columns of the kernel in row-major order, then, for double
  // only, as many error terms. Aligned to kAlignment. `resume`: they hold earlier blocks; else they
  // start from zero. `keep`: the sums stay there; else the finished tile goes to c. With either,
  // every tile has its own, a step from the one before; else they share one's, and the step is 0.
  double* sums;
  int64_t sums_step;
  bool resume, keep;

  // c[c_rows[i] + j] for j < num_cols and all rows, but of the last tile only i < num_rows; sums of
  // further columns may be anything.
  Compute* c;
  BFloat16* narrowed;  // in place of c, if not null: numbers of the final type; pairs only
  const int64_t* c_rows;
  int64_t num_rows, num_cols;
  bool odd;  // rounded for a later rounding to 16 bits, also one that happens here
  // The chains of the only block go on from what c holds, which is read in whole vectors; some
  // columns of the kernel's last one are wanted. Not of pairs.
  bool goes_on;
  // So many panels of num_cols columns, side by side in b and in c, if more than one: of whole
  // vectors, not narrowed, and none of their sums resumed or kept.
  int64_t num_panels = 1;
  // Whole vectors, whose rows are then aligned to lines, are written around the caches; before
  // another thread reads them the caller needs a full memory barrier.
  bool stream;
  // Else the result may lie beyond the caches: then a tile asks for its lines as it begins.
  bool fetches_result;

  // The wanted rows of a tile that has `rows`.
  int64_t RowsOf(int64_t tile, int64_t rows) const {
    return tile + 1 == num_tiles ? num_rows : rows;
  }
};

// `count` rows, the first of a and of c at these offsets, each a step behind the one before.
struct EvenRows {
  int64_t count;
  int64_t a_row, a_step, c_row, c_step;
};

// One size of the kernel. `cols` is a whole number of vectors.
template <class Element>
struct GemmTile {
  int rows, cols;
  void (*run)(const GemmTileArgs<Element>& args);
};

template <class Element>
struct IndirectGemmKernels {
  using Compute = ComputeType<Element>;
  int lanes;           // sums in a vector
  bool masks_columns;  // reads no more of b than num_cols wants where that is asked for
  // Grouped by columns, ascending; rows descending inside a group, down to 1.
  std::span<const GemmTile<Element>> tiles;

  // The product of the first of these rows, in place of those of `args`: as many as fill whole
  // tiles, whose number is returned. Takes at most the columns of the widest tile, blocks that
  // begin and end here, not in pairs, and an a_step of 1. Its sums take no more room than those of
  // the tallest tile of these columns. Reads nothing of a_rows, c_rows, num_tiles, num_rows,
  // num_panels, `ahead`, `far` and fetches_result.
  int64_t (*even_rows)(const GemmTileArgs<Element>& args, const EvenRows& rows);
  // to[j] = the fold of sums[i * step + j] over i < num_blocks, rounded to nearest, for j < count;
  // reads whole vectors.
  void (*fold_blocks)(const Compute* sums, int64_t step, int64_t num_blocks, Compute* to,
                      int64_t count);
  // total += sums, as the canonical order adds a run: `count` sums, then, for double, the errors.
  void (*add_run)(const double* sums, double* total, int64_t count);
  // The last step of the kernel alone: the tile of `cols` columns whose sums are `args.sums`, to
  // args.c. Reads sums, c, c_rows, num_rows, num_cols and odd.
  void (*finish)(const GemmTileArgs<Element>& args, int64_t rows, int64_t cols);
};

}  // namespace convgrad
