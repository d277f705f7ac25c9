// Sums of few channels of the result as matrix products that have enough rows: a row is a block of
// one channel's chain, for all positions of a phase. Blocks know nothing of each other, so that all
// meet a column of source pixels together, each at a position of its own, and tiles of one or a few
// rows, which would load a vector for every multiply-add, become large ones. Touches no data.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "conv/axes/padded_planes.h"
#include "conv/axes/tap_sum.h"

namespace convgrad {

// A row's sums, what it adds to them, and where: column q of the source's planes belongs to
// position q - shift.
struct BlockRow {
  int64_t sums;    // a row of them, in the order [phase][channel][block]
  int64_t filter;  // its first term in the filter, which is read where it lies
  int64_t shift;
};

// Rows that meet some channels of the source: the next tap of their blocks, whose earlier ones come
// in earlier products.
struct BlockProduct {
  int64_t channel_begin, channel_end;
  bool goes_on;
  std::vector<BlockRow> rows;

  int64_t num_terms() const { return channel_end - channel_begin; }
};

// The products of one group, of sources a step of one apart. A column may take all of them before
// the next one does: a block's taps ascend, and so do their shifts.
struct BlockRows {
  BlockRows(const TapSum& sum, const std::vector<TapPhase>& phases, const PlaneAxis& rows,
            const PlaneAxis& cols);

  // The sums of a phase's channel begin here; those of its blocks follow each other.
  int64_t SumsOf(size_t phase, int64_t channel) const {
    return phase_sums[phase] + channel * num_blocks[phase];
  }

  // A product has so many rows at most.
  int64_t MostRows() const;

  std::vector<BlockProduct> products;
  std::vector<int64_t> phase_sums, num_blocks;  // by phase
  int64_t term_step, group_step;                // in the filter
  int64_t num_sums = 0, most_shift = 0;
};

// True for sums of so few channels that tiles have many more rows by blocks, if a tap has terms
// enough to make up for reading and writing all sums with each, and the sums' margins have room.
bool PaysToTakeBlocksAsRows(const TapSum& sum, const std::vector<TapPhase>& phases,
                            const PlaneAxis& rows, const PlaneAxis& cols);

}  // namespace convgrad
