// How a filter gradient of few input channels is cut for the micro-kernel of one row of a filter
// (kernels/gemm/tap_row.h): panels of output channels, and what each output column meets. Follows
// from problem and kernels; touches no data.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/checked.h"
#include "conv/axes/slab.h"
#include "conv/plan/work.h"
#include "kernels/kernel_table.h"
#include "order/canonical_order.h"
#include "problem/geometry.h"

namespace convgrad {

struct TapRowsCut {
  // True if the form and some tile fit the problem, which has terms.
  static bool Fits(const Problem& problem, const KernelTable& kernels);

  // The problem must fit.
  TapRowsCut(const Problem& problem, const KernelTable& kernels);

  int64_t NumRuns() const { return CeilDiv(std::ssize(blocks), kRunBlocks); }
  // A panel's, a multiple of a vector.
  int64_t NumSums() const { return geometry.kernel_h * numbers * tile.cols; }
  int64_t PanelCols(int64_t panel) const {
    return std::min(tile.cols, geometry.out_c - panel * tile.cols);
  }
  bool StoresComputeType() const {
    return problem.dtype == DType::kFloat32 || problem.dtype == DType::kFloat64;
  }
  int64_t ComputeBytes() const { return problem.dtype == DType::kFloat64 ? 8 : 4; }
  bool IsNhwc() const { return problem.data_format == DataFormat::kNHWC; }
  // Pixels of the input, whose channels are all of a tap's numbers, lie side by side.
  bool UsesInputInPlace() const { return StoresComputeType() && (IsNhwc() || geometry.in_c == 1); }
  bool UsesOutputInPlace() const {
    return StoresComputeType() && IsNhwc() && geometry.out_c % tile.cols == 0;
  }
  // Blocks of one run whose operands are packed together: whole rows of one image, whose planes are
  // then read in longer pieces; or a single one.
  struct Stage {
    int64_t block_begin, block_end;
    PixelBlock whole;  // all their pixels
  };
  std::span<const Stage> StagesOfRun(int64_t run) const;
  // The rows of the input that a block's rows meet with these rows of the filter; maybe none.
  Slab InputRows(const PixelBlock& block, int64_t tap_begin, int64_t tap_end) const;
  // The rows of the block that meet that row of the filter; maybe none.
  Slab RowsOfTap(const PixelBlock& block, int64_t tap) const;
  // A block's that meet some numbers of a row of taps: the first of them, what each meets
  // before and behind those that meet all, and how many these are.
  struct Columns {
    int64_t first;
    std::span<const TapRowRange> before, behind;
    int64_t whole;
  };
  Columns ColumnsOf(const PixelBlock& block) const;

  Work CountWork() const;
  std::string Tiles() const;

  const Problem problem;
  const ConvGeometry geometry;
  const int64_t numbers;  // that a row of taps meets: taps x channels
  const bool wide;        // vectors are 64 bytes
  struct Tile {
    int64_t index, cols, lanes;  // index: among the kernels'; negative: none fits
  };
  const Tile tile;
  const int64_t num_panels;
  const std::vector<PixelBlock> blocks;
  // Columns from met_begin on meet some numbers of a row of taps, [whole_begin, whole_end) all of
  // them; what those before and behind meet, which are fewer than twice the taps of a row.
  struct MetColumns {
    int64_t met_begin, whole_begin, whole_end;
    std::vector<TapRowRange> before, behind;
  };
  const MetColumns met_columns;
  const std::vector<Range> met_rows;  // rows of the output, maybe none, by each row of taps
  const std::vector<Stage> stages;
  // Elements that a thread packs, at most.
  const int64_t input_elements, output_elements;

 private:
  MetColumns MakeColumns() const;
  std::vector<Range> MakeRows() const;
  std::vector<Stage> CutStages() const;
  int64_t InputElements() const;
  int64_t OutputElements() const;
  int64_t StageEnd(int64_t first) const;
  PixelBlock Together(int64_t first, int64_t end) const;
};

}  // namespace convgrad
