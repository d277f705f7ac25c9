#include "conv/move/grid_columns.h"

namespace convgrad {

// Runs of positions of which both, one or none of the two columns are on the row.
void PairedColumns::Split(const GridPiece& piece, const BFloat16* row, int64_t column_stride,
                          const ChannelBlocks& blocks, BFloat16Pair* to) const {
  const GridColumns& grid = piece.grid;
  const Range first = grid.OnRow(0), second = grid.OnRow(grid.apart);
  const int64_t end = piece.begin + piece.count;
  for (int64_t at = piece.begin; at < end;) {
    int64_t next = end;
    for (const int64_t edge : {first.begin, first.end, second.begin, second.end}) {
      if (edge > at) next = std::min(next, edge);
    }
    const BFloat16* column = row + (grid.first + at * grid.step) * column_stride;
    BFloat16Pair* block = to + (at - piece.begin) * blocks.block_channels;
    for (int64_t group = 0; group < blocks.groups; ++group) {
      pack_.pair_split(first.Has(at) ? column : nullptr,
                       second.Has(at) ? column + grid.apart * column_stride : nullptr,
                       grid.step * column_stride, block, blocks.block_stride, next - at,
                       blocks.channels, blocks.block_channels);
      column += blocks.channels;
      block += CeilDiv(blocks.channels, blocks.block_channels) * blocks.block_stride;
    }
    at = next;
  }
}

void PairedColumns::Copy(const GridColumns& grid, const BFloat16* row, int64_t column_stride,
                         int64_t channels, BFloat16Pair* to, int64_t to_stride) const {
  if (column_stride != channels || to_stride != channels || grid.step != 1) {
    return Split({grid, 0, grid.count}, row, column_stride, {1, channels, to_stride, 0}, to);
  }
  pack_.pair_apart(
      row, 0,
      {grid.width * channels, grid.first * channels, grid.apart * channels, grid.count * channels},
      to, 0, 1);
}

void PairedColumns::CopyTransposed(const GridColumns& grid, const BFloat16* row,
                                   int64_t plane_stride, int64_t channels, BFloat16Pair* to,
                                   int64_t to_stride) const {
  pack_.pair_apart_transposed(row, plane_stride, {grid.width, grid.first, grid.apart, grid.count},
                              to, to_stride, channels);
}

void PairedColumns::Transpose(const GridPiece& piece, const BFloat16* row, int64_t plane_stride,
                              int64_t channels, BFloat16Pair* to, int64_t to_stride,
                              int64_t) const {
  const int64_t column = 2 * piece.begin;
  pack_.pair_cols_transposed(row + column, plane_stride, to, to_stride, channels,
                             std::min(2 * piece.count, piece.grid.width - column));
}

void PairedColumns::CopyPlane(const GridColumns& grid, const BFloat16* row, int64_t row_stride,
                              int64_t num_rows, BFloat16Pair* to) const {
  pack_.pair_apart(row, row_stride, {grid.width, grid.first, grid.apart, grid.count}, to,
                   grid.count, num_rows);
}

}  // namespace convgrad
