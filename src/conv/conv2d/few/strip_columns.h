// StripColumns copies what a strip of pixels meets as a matrix of terms by pixels, for sums of few
// terms in NCHW. Padding becomes zeros. This file knows nothing of filters and results.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/checked.h"
#include "base/memory.h"
#include "base/range.h"
#include "conv/axes/tap_sum.h"
#include "conv/move/grid_columns.h"
#include "conv/move/swap_pairs.h"
#include "kernels/kernel_table.h"

namespace convgrad {

inline Range Within(const Range& all, const Range& part) {
  const int64_t begin = std::clamp(part.begin, all.begin, all.end);
  return {begin, std::clamp(part.end, begin, all.end)};
}

// A strip is some pixels of a plane of the result, one behind the other, whatever its rows. With a
// stride, rows of the source are staged first: their columns are put apart by their residue, so
// that what neighbours meet with a tap lies side by side.
template <class Stored>
class StripColumns {
 public:
  using Compute = ComputeType<Stored>;

  // `sum` has one phase, and outlives this; strips have `strip_pixels` pixels at most.
  StripColumns(const TapSum& sum, const KernelTable& table, int64_t strip_pixels);

  struct Scratch {
    explicit Scratch(const StripColumns& columns)
        : matrix(columns.MatrixElements()),
          staged(columns.StagedElements()),
          widened(columns.WidenedElements()) {}

    AlignedArray<Compute> matrix;   // [term][pixel of a strip], strip_pixels apart
    AlignedArray<Compute> staged;   // [row of the source][residue of the column by the stride]
    AlignedArray<Compute> widened;  // a row that is staged next
  };

  int64_t MatrixElements() const {
    return sum_.source_c * static_cast<int64_t>(row_taps_.size() * col_taps_.size()) *
           strip_pixels_;
  }
  int64_t StagedElements() const { return Staged() ? StagedRows() * StagedRowSize() : 0; }
  int64_t ScratchElements() const {
    return MatrixElements() + StagedElements() + WidenedElements();
  }

  // `planes`: those of the source that the strip's sums are of.
  void Gather(const Range& pixels, const Stored* planes, Scratch& scratch) const;

 private:
  static constexpr bool kConverts = !std::is_same_v<Stored, Compute>;

  // A tap of an axis: which positions of the result meet the source with it, and where position 0
  // would.
  struct AxisTap {
    Range on_source;
    int64_t meets;
  };
  // Rows of one channel of the source: as they lie, or staged.
  struct SourceRows {
    const Stored* data;
    const Compute* staged;
    int64_t row_stride, origin;  // where row and column 0 are, or would be
  };

  static std::vector<AxisTap> TapsOf(const AxisPhase& axis, int64_t source_size);

  const AxisPhase& rows() const { return sum_.row_phases[0]; }
  const AxisPhase& cols() const { return sum_.col_phases[0]; }
  bool Staged() const { return cols().source_step > 1; }
  int64_t RowStep(int64_t row_stride) const { return rows().source_step * row_stride; }
  // A strip has pixels of so many rows, at most.
  int64_t StripRows() const {
    return std::min((strip_pixels_ - 1) / sum_.result_w + 2, sum_.result_h);
  }
  int64_t StagedRows() const {
    const int64_t taps = rows().offsets.back() - rows().offsets.front() + 1;
    return std::min(RowStep(StripRows() - 1) + taps, sum_.source_h);
  }
  // So many staged columns of a row have the same residue, at most: those of whole rows, or what a
  // part of the only one meets.
  int64_t ResidueSize() const {
    const int64_t taps = (cols().offsets.back() - cols().offsets.front()) / cols().source_step;
    const int64_t width = sum_.result_h > 1 ? sum_.result_w : strip_pixels_;
    return std::min(width + taps, sum_.source_w / cols().source_step) + 2;
  }
  int64_t StagedRowSize() const { return cols().source_step * ResidueSize(); }
  int64_t WidenedElements() const { return kConverts && Staged() ? StagedRowSize() : 0; }

  SourceRows StageChannel(const Range& pixels, const Stored* plane, Scratch& scratch) const;
  void CopyPiece(const SourceRows& source, int64_t from, int64_t count, Compute* to) const;
  void CopyTerm(const Range& pixels, const SourceRows& source, const AxisTap& row_tap,
                const AxisTap& col_tap, Compute* to) const;

  const TapSum& sum_;
  const PackKernels<Stored>& pack_;
  const PlaneKernels<Compute>& planes_;
  const int64_t strip_pixels_;
  std::vector<AxisTap> row_taps_, col_taps_;
};

template <class Stored>
StripColumns<Stored>::StripColumns(const TapSum& sum, const KernelTable& table,
                                   int64_t strip_pixels)
    : sum_(sum),
      pack_(table.Pack<Stored>()),
      planes_(table.Plane<Compute>()),
      strip_pixels_(strip_pixels),
      row_taps_(TapsOf(rows(), sum_.source_h)),
      col_taps_(TapsOf(cols(), sum_.source_w)) {
  if (!Staged()) return;
  for (AxisTap& tap : col_taps_) {
    const int64_t of_residue = FloorDiv(tap.meets, cols().source_step);
    tap.meets = of_residue + (tap.meets - of_residue * cols().source_step) * ResidueSize();
  }
}

template <class Stored>
auto StripColumns<Stored>::TapsOf(const AxisPhase& axis, int64_t source_size)
    -> std::vector<AxisTap> {
  const GridColumns grid{axis.source_first, axis.source_step, /*apart=*/0, source_size, axis.count};
  std::vector<AxisTap> taps;
  for (const int64_t offset : axis.offsets) {
    taps.push_back({grid.OnRow(offset), axis.source_first + offset});
  }
  return taps;
}

template <class Stored>
auto StripColumns<Stored>::StageChannel(const Range& pixels, const Stored* plane,
                                        Scratch& scratch) const -> SourceRows {
  if (!Staged()) return {plane, nullptr, sum_.source_w, 0};
  const int64_t width = sum_.result_w, step = cols().source_step;
  const Range ys{pixels.begin / width, CeilDiv(pixels.end, width)};
  const int64_t x = ys.size() == 1 ? pixels.begin % width : 0;
  const int64_t low = cols().source_first + x * step + cols().offsets.front();
  const int64_t first_col = std::max<int64_t>(0, low) / step * step;
  const int64_t num_cols = std::min(sum_.source_w - first_col, StagedRowSize());
  const auto row_at = [&](int64_t y, int64_t offset) {
    return rows().source_first + RowStep(y) + offset;
  };
  const int64_t first_row = std::max<int64_t>(0, row_at(ys.begin, rows().offsets.front()));
  const int64_t end_row = std::min(sum_.source_h, row_at(ys.end - 1, rows().offsets.back()) + 1);
  Compute* to = scratch.staged.data();
  for (int64_t row = first_row; row < end_row; ++row, to += StagedRowSize()) {
    const Stored* const from = plane + row * sum_.source_w + first_col;
    const Compute* numbers = nullptr;
    if constexpr (kConverts) {
      pack_.widen(from, scratch.widened.data(), num_cols);
      numbers = scratch.widened.data();
    } else {
      numbers = from;
    }
    planes_.split(numbers, to, ResidueSize(), step, num_cols);
  }
  return {nullptr, scratch.staged.data(), StagedRowSize(),
          -first_row * StagedRowSize() - first_col / step};
}

template <class Stored>
void StripColumns<Stored>::CopyPiece(const SourceRows& source, int64_t from, int64_t count,
                                     Compute* to) const {
  if (source.staged != nullptr) {
    std::copy_n(source.staged + from, count, to);
  } else {
    pack_.widen(source.data + from, to, count);
  }
}

// This copies what the pixels meet of a channel with a tap. Where the next row of the result meets
// what lies behind what one row meets, this is one piece, and what meets padding is made zero
// afterwards.
template <class Stored>
void StripColumns<Stored>::CopyTerm(const Range& pixels, const SourceRows& source,
                                    const AxisTap& row_tap, const AxisTap& col_tap,
                                    Compute* to) const {
  const Range &ys = row_tap.on_source, &xs = col_tap.on_source;
  const int64_t width = sum_.result_w;
  const bool meets = ys.size() > 0 && xs.size() > 0;
  // From the first pixel that is on the source to the last one.
  const Range part =
      meets ? Within(pixels, {ys.begin * width + xs.begin, (ys.end - 1) * width + xs.end})
            : Range{pixels.end, pixels.end};
  const auto pad = [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) to[i - pixels.begin] = 0;
  };
  pad(pixels.begin, part.begin);
  pad(part.end, pixels.end);
  if (part.size() == 0) return;
  const int64_t row_step = RowStep(source.row_stride);
  const int64_t from = source.origin + row_tap.meets * source.row_stride + col_tap.meets;
  if (row_step == width) {
    CopyPiece(source, from + part.begin, part.size(), to + part.begin - pixels.begin);
  } else {
    for (int64_t y = part.begin / width, row = y * width; row < part.end; ++y, row += width) {
      const Range on = Within(part, {row + xs.begin, row + xs.end});
      if (on.size() == 0) continue;
      CopyPiece(source, from + y * row_step + on.begin - row, on.size(),
                to + on.begin - pixels.begin);
    }
  }
  if (xs.size() == width) return;
  // Behind each row, and before the next one.
  for (int64_t gap = (part.begin / width - 1) * width + xs.end; gap < part.end; gap += width) {
    pad(std::max(gap, part.begin), std::min(gap + width - xs.size(), part.end));
  }
}

template <class Stored>
void StripColumns<Stored>::Gather(const Range& pixels, const Stored* planes,
                                  Scratch& scratch) const {
  for (int64_t c = 0; c < sum_.source_c; ++c) {
    const int64_t in_order = sum_.in_pairs ? SwappedPlace(c, sum_.source_c) : c;
    const SourceRows source =
        StageChannel(pixels, planes + c * sum_.source_h * sum_.source_w, scratch);
    Compute* to = scratch.matrix.data() + in_order * strip_pixels_;
    for (const AxisTap& row_tap : row_taps_) {
      for (const AxisTap& col_tap : col_taps_) {
        CopyTerm(pixels, source, row_tap, col_tap, to);
        to += sum_.source_c * strip_pixels_;
      }
    }
  }
}

}  // namespace convgrad
