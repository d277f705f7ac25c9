// Packing of columns: the positions of a grid along rows of a tensor, as numbers of the compute
// type or as pairs of bfloat16 numbers, in the forms that a filter gradient's operands have. Knows
// strides, not what rows and channels are for.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/checked.h"
#include "base/range.h"
#include "kernels/kernel_table.h"

namespace convgrad {

// Position i is column first + i * step of a row of `width` columns, and, in pairs, with it the one
// `apart` further. Columns off the row are zeros.
struct GridColumns {
  int64_t first, step, apart, width, count;

  // Rows that follow each other as one; for a grid that has as many positions between rows as in
  // them: none that is off.
  GridColumns OfRows(int64_t rows) const {
    return {first, step, apart, rows * width, rows * count};
  }
  // Positions whose column, moved by `offset`, is on the row.
  Range OnRow(int64_t offset) const {
    const int64_t at = first + offset;
    const auto position = [&](int64_t column) {
      return std::clamp<int64_t>(column <= at ? 0 : CeilDiv(column - at, step), 0, count);
    };
    return {position(0), position(width)};
  }
};

// Some of a grid's positions.
struct GridPiece {
  const GridColumns& grid;
  int64_t begin, count;
};

// Groups of `channels`, one behind the other, each cut into blocks, the last one maybe narrower;
// block_stride elements from one block to the next, whichever group's.
struct ChannelBlocks {
  int64_t groups, channels, block_channels, block_stride;
};

// Everywhere `row` is where column 0 of the first channel lies.
template <class Stored>
class WidenedColumns {
 public:
  using Element = ComputeType<Stored>;

  explicit WidenedColumns(const KernelTable& kernels) : pack_(kernels.Pack<Stored>()) {}

  // True if the grid covers rows without a gap.
  static bool Covers(const GridColumns& grid) {
    return grid.first == 0 && grid.step == 1 && grid.count == grid.width;
  }

  // NHWC: [group][block][position][channel of the block], for grids without columns off the row.
  void Split(const GridPiece& piece, const Stored* row, int64_t column_stride,
             const ChannelBlocks& blocks, Element* to) const {
    const GridColumns& grid = piece.grid;
    pack_.split_widen(row + (grid.first + piece.begin * grid.step) * column_stride,
                      grid.step * column_stride, to, blocks.block_stride, piece.count,
                      blocks.groups, blocks.channels, blocks.block_channels);
  }

  // NHWC: [position][channel], of a whole row; positions are to_stride numbers apart, what is
  // between them may be anything.
  void Copy(const GridColumns& grid, const Stored* row, int64_t column_stride, int64_t channels,
            Element* to, int64_t to_stride) const {
    const Range on = FillOffRow(grid, to, to_stride);
    if (on.begin == on.end) return;
    pack_.copy_widen(row + (grid.first + on.begin * grid.step) * column_stride,
                     grid.step * column_stride, to + on.begin * to_stride, to_stride,
                     on.end - on.begin, channels);
  }

  // NCHW: the same.
  void CopyTransposed(const GridColumns& grid, const Stored* row, int64_t plane_stride,
                      int64_t channels, Element* to, int64_t to_stride) const {
    const Range on = FillOffRow(grid, to, to_stride);
    if (on.begin == on.end) return;
    const Stored* from = row + grid.first + on.begin;
    if (to_stride == 1) return pack_.widen(from, to + on.begin, on.end - on.begin);
    pack_.transpose_widen(from, plane_stride, to + on.begin * to_stride, to_stride, channels,
                          on.end - on.begin, 0);
  }

  // NCHW: position i to `to` + i * to_stride, for grids that cover rows; `ahead` as of PackKernels.
  void Transpose(const GridPiece& piece, const Stored* row, int64_t plane_stride, int64_t channels,
                 Element* to, int64_t to_stride, int64_t ahead) const {
    pack_.transpose_widen(row + piece.begin, plane_stride, to, to_stride, channels, piece.count,
                          ahead);
  }

  // One channel: [row][position], for grids that cover rows.
  void CopyPlane(const GridColumns& grid, const Stored* row, int64_t row_stride, int64_t num_rows,
                 Element* to) const {
    if (row_stride == grid.width) return pack_.widen(row, to, num_rows * grid.width);
    for (int64_t i = 0; i < num_rows; ++i) {
      pack_.widen(row + i * row_stride, to + i * grid.width, grid.width);
    }
  }

 private:
  static Range FillOffRow(const GridColumns& grid, Element* to, int64_t to_stride) {
    const Range on = grid.OnRow(0);
    std::fill(to, to + on.begin * to_stride, Element{0});
    std::fill(to + on.end * to_stride, to + grid.count * to_stride, Element{0});
    return on;
  }

  const PackKernels<Stored>& pack_;
};

// The same in pairs. Padding is zeros here: what it is multiplied with is finite.
class PairedColumns {
 public:
  using Element = BFloat16Pair;

  explicit PairedColumns(const KernelTable& kernels) : pack_(kernels.pack_bf16_pairs) {}

  static bool Covers(const GridColumns& grid) {
    return grid.first == 0 && grid.apart == 1 && grid.step == 2 && 2 * grid.count == grid.width;
  }
  void Split(const GridPiece& piece, const BFloat16* row, int64_t column_stride,
             const ChannelBlocks& blocks, BFloat16Pair* to) const;
  void Copy(const GridColumns& grid, const BFloat16* row, int64_t column_stride, int64_t channels,
            BFloat16Pair* to, int64_t to_stride) const;
  void CopyTransposed(const GridColumns& grid, const BFloat16* row, int64_t plane_stride,
                      int64_t channels, BFloat16Pair* to, int64_t to_stride) const;
  // For grids of neighbours two columns apart.
  void Transpose(const GridPiece& piece, const BFloat16* row, int64_t plane_stride,
                 int64_t channels, BFloat16Pair* to, int64_t to_stride, int64_t ahead) const;
  void CopyPlane(const GridColumns& grid, const BFloat16* row, int64_t row_stride, int64_t num_rows,
                 BFloat16Pair* to) const;

 private:
  const PackPairKernels& pack_;
};

}  // namespace convgrad
