// How a depthwise filter gradient is dealt out: units of channels and taps, portions of the sums
// over output pixels, spans of blocks that share strips, and the memory they take.
#pragma once

#include <cstdint>
#include <vector>

#include "base/checked.h"
#include "base/memory.h"
#include "conv/axes/lines.h"
#include "conv/depthwise/chunks.h"
#include "conv/depthwise/strips.h"
#include "kernels/kernel_table.h"
#include "order/canonical_order.h"
#include "problem/geometry.h"

namespace convgrad {

// Blocks [begin, end) that are read from the same strips: some of one image, or one of several
// images, which are in the strips one at a time.
struct BlockSpan {
  int64_t begin, end;
  PixelBlock bounds;  // what they cover together
};

// Where a span's outputs lie in an image, and the inputs that they read with some taps; not all of
// these rows need be read.
struct SpanPlace {
  Range in_rows, in_cols, out_rows, out_cols;
};

// A unit is summed up together: some taps of some channels.
struct FilterUnit {
  Range channels, row_taps, col_taps;
};

// The part of a unit that one task sums up.
struct PortionPart {
  Range portions;
  std::vector<BlockSpan> spans;  // none: SpansOf(portions) finds them, for there are too many
};

// Portions whose sums are kept at once, and their parts.
struct PortionPass {
  Range portions;
  std::vector<PortionPart> parts;
};

struct DepthwiseFilterCut {
  DepthwiseFilterCut(const Problem& problem, const KernelTable& kernels, int num_threads);

  Dimension rows, cols;
  DataLayout input, output;
  int64_t multiplier;
  // Outputs of a channel that strips and sums hold in parts, [output][channel]: all, which share an
  // input that is not repeated; or 1, and the channels of all outputs are as in memory.
  int64_t parts;
  int64_t compute_bytes, stored_bytes;
  int64_t element_bytes;  // of what the kernels read: of the compute type, or stored
  int64_t lanes;          // channels that the kernels take at a time
  bool f64;
  bool input_in_place, output_in_place;
  // Lines of neighbouring pixels share few sets of the first cache, and a kernel comes back for
  // them.
  bool crowds_sets;
  bool fetches;                    // operands in place are fetched ahead: they are in no near cache
  ChannelChunks chunks;            // of input channels
  int64_t row_groups, col_groups;  // of taps
  // Blocks of a portion, which has sums of its own: a run, or where threads have too few of those a
  // single block.
  int64_t portion_blocks = kRunBlocks;
  // Portions whose sums are kept at once, of as many units, and in how many parts they are dealt
  // out. Portions that are no runs are all kept at once.
  int64_t portions_at_once, portion_parts, units_at_once;
  PixelBlockGrid blocks;
  int64_t blocks_of_image;                        // 1 where blocks are of several images
  PixelBlock largest_block = {0, 1, 0, 0, 0, 0};  // of an image; only its size counts
  int64_t blocks_of_span;                         // at most
  std::vector<PortionPass> passes;
  static constexpr int64_t kListedBlocks = 1 << 16;  // about: those of the first parts

  int64_t num_units() const { return chunks.count() * row_groups * col_groups; }
  int64_t num_runs() const { return CeilDiv(std::ssize(blocks), kRunBlocks); }
  int64_t num_portions() const { return CeilDiv(std::ssize(blocks), portion_blocks); }
  // Outputs that are computed together, and their sums: whole vectors.
  int64_t PartSize(int64_t channels) const { return channels * multiplier / parts; }
  int64_t PartSums(int64_t channels) const { return RoundUp(PartSize(channels), lanes); }
  // The sums of a tap.
  int64_t TapSize(int64_t channels) const { return parts * PartSums(channels); }
  // Doubles of one unit for one portion or the total: sums, then errors for f64.
  int64_t FoldSize() const { return unit_size * (f64 ? 2 : 1); }
  // Sums of portions at once, and the total, which a single portion's is. The sums of a single
  // block are the result.
  bool has_one_block() const { return blocks.size() == 1; }
  int64_t folds_of_unit() const {
    return has_one_block() ? 0 : num_portions() == 1 ? 1 : portions_at_once + 1;
  }

  int64_t unit_size = 0;  // sums of the largest unit
  // Elements of what one task allocates.
  int64_t input_size = 0, output_size = 0, intermediate_size = 0;
  static constexpr int64_t kSumsSlack = 1024;  // bytes, to choose where the sums begin
  int64_t worker_bytes() const {
    return (unit_size + input_size + output_size + intermediate_size) * compute_bytes +
           (input_in_place ? kSumsSlack : 0);
  }

  FilterUnit UnitAt(int64_t index) const;
  std::vector<BlockSpan> SpansOf(Range portions) const;
  SpanPlace PlaceOf(const FilterUnit& unit, const PixelBlock& bounds) const;
  // Pixels of input of one image that a unit reads at most, and the bytes of all its strips.
  int64_t InputPixels(const PixelBlock& bounds) const;
  int64_t StripBytes(const PixelBlock& bounds) const;

 private:
  int64_t ChunkUnit() const { return ChannelsOfVectors(lanes, multiplier / parts); }
  PixelBlock LargestSpan(int64_t num_blocks) const;
  void ChoosePlaces(const Problem& problem, const KernelTable& kernels);
  bool ReadsLinesTogether(DType dtype, const KernelTable& kernels) const;
  int64_t BytesToFetch(DType dtype, const KernelTable& kernels) const;
  bool ReadsCrowdedPixelsInPlace(DType dtype, const KernelTable& kernels) const;
  void ChooseUnits();
  void GroupTaps();
  void FillThreads(int num_threads);
  void BalanceChunks(int64_t least, int num_threads);
  bool PaysToDealBlocks(int num_threads) const;
  void ChoosePortions(int64_t tasks);
  void MeasureStrips();
  void DealPortions();
};

}  // namespace convgrad
