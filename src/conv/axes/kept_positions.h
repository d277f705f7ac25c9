// Which rows and columns a sum over taps has any use for. With a stride some positions of the
// source may meet no tap, and some of the result's phases may have none, whose sums are empty: an
// algorithm that copies its tensors need not copy those. Touches no data.
#pragma once

#include <cstdint>
#include <vector>

#include "conv/axes/tap_sum.h"

namespace convgrad {

// The positions of an axis of `size` whose residues by `period` are among these, numbered anew.
struct KeptPositions {
  int64_t size, period;
  std::vector<int64_t> residues;  // ascending

  bool all() const { return static_cast<int64_t>(residues.size()) == period; }
  int64_t PositionOf(int64_t index) const;
  // How many lie before `position`: the number of the first one that does not.
  int64_t CountBefore(int64_t position) const;
  int64_t count() const { return CountBefore(size); }
  bool Has(int64_t position) const { return CountBefore(position + 1) > CountBefore(position); }
  // How many have the residue of this rank.
  int64_t CountOf(size_t rank) const;
  // The residues that are not kept.
  std::vector<int64_t> DroppedResidues() const;
};

struct KeptPixels {
  KeptPositions rows, cols;

  bool all() const { return rows.all() && cols.all(); }
};

// All of an axis.
inline KeptPositions AllPositions(int64_t size) {
  return {size, 1, {0}};
}

// The source's pixels that taps meet, by which `sum` from now on numbers its source. All where few
// columns would be left.
KeptPixels KeepMetSource(TapSum& sum);
// The result's pixels whose phases have taps; all where no phase has any.
KeptPixels SummedResult(const TapSum& sum);
// These pixels, by which `sum` from now on numbers its result. All
// where few columns would be left, or no row, or where rows are too long.
KeptPixels KeepSummedResult(TapSum& sum);

}  // namespace convgrad
