// The tile of sums that one thread works on: two packed operands and the state of the kernel. Must
// not know where the numbers come from.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/checked.h"
#include "base/memory.h"
#include "conv/precise/compensated_packing.h"
#include "conv/precise/compensated_runner.h"
#include "kernels/kernel_table.h"

namespace convgrad {

// Rows and columns that are summed together: each number packed serves as many sums as the other
// side has items, and all sums stay in the second cache.
inline constexpr int64_t kTileRows = 64;
inline constexpr int64_t kTileCols = 256;

// One thread's packed operands and running sums.
class TileSums {
 public:
  TileSums() : rows_(kTileRows), cols_(kTileCols), sums_(4 * kStride * kTileCols) {}

  static int64_t Bytes() {
    return PackedSide::Bytes(kTileRows) + PackedSide::Bytes(kTileCols) +
           4 * kStride * kTileCols * static_cast<int64_t>(sizeof(double));
  }

  void Begin(const CompensatedKernels& kernels, int64_t num_rows, int64_t num_cols) {
    kernels_ = &kernels;
    // The fewer lanes are left empty, the better.
    const int64_t width = kernels.width;
    rows_are_lanes_ = RoundUp(num_rows, width) * num_cols < RoundUp(num_cols, width) * num_rows;
    rows_.BeFactors();
    cols_.BeFactors();
    (rows_are_lanes_ ? rows_ : cols_).BeLanes(kernels.width);
    num_factors_ = rows_are_lanes_ ? num_cols : num_rows;
    num_lanes_ = RoundUp(rows_are_lanes_ ? num_rows : num_cols, width);
    stride_ = num_lanes_;
    num_terms_ = 0;
    std::fill_n(sums_.data(), 4 * num_factors_ * stride_, 0.0);
  }
  PackedSide& rows() { return rows_; }
  PackedSide& cols() { return cols_; }
  int64_t num_terms() const { return num_terms_; }
  int64_t room() const { return kPackedTerms - num_terms_; }
  // `count` terms more were packed on both sides.
  void Advance(int64_t count) {
    num_terms_ += count;
    if (room() == 0) Flush();
  }
  void Flush() {
    if (num_terms_ == 0) return;
    const PackedSide& factors = rows_are_lanes_ ? cols_ : rows_;
    const PackedSide& lanes = rows_are_lanes_ ? rows_ : cols_;
    kernels_->add({factors.data(), factors.factor_stride(), lanes.data(), kPackedTerms, num_terms_,
                   num_factors_, num_lanes_},
                  {Part(0), Part(1), Part(2), Part(3), stride_});
    num_terms_ = 0;
  }
  ElementSum At(int64_t row, int64_t col, int64_t terms) {
    const int64_t at = rows_are_lanes_ ? col * stride_ + row : row * stride_ + col;
    return {Part(0)[at], Part(1)[at], Part(2)[at], Part(3)[at], terms};
  }

 private:
  static constexpr int64_t kStride = kTileRows + 16;  // rows, or columns, with empty lanes

  double* Part(int64_t part) { return sums_.data() + part * num_factors_ * stride_; }

  const CompensatedKernels* kernels_ = nullptr;
  PackedSide rows_, cols_;
  AlignedArray<double> sums_;
  bool rows_are_lanes_ = false;
  int64_t num_factors_ = 0, num_lanes_ = 0, stride_ = 0, num_terms_ = 0;
};

}  // namespace convgrad
