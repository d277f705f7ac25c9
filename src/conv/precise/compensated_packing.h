// The matrices that the compensated kernel multiplies, packed from tensors of any type and layout.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "base/memory.h"
#include "tensor/dtype.h"

namespace convgrad {

// Terms that are packed together.
inline constexpr int64_t kPackedTerms = 128;

// Where an item (a row or a column of the result) has its numbers: term k at offset + k * step for
// begin <= k < end; its other terms fall on padding.
struct PackedItem {
  int64_t offset, begin, end;
};

// One operand's numbers, for every term of each item: as the kernel's factors or as its lanes.
class PackedSide {
 public:
  explicit PackedSide(int64_t max_items)
      : factor_stride_(max_items + 8),  // no power of two, which caches map to the same few sets
        numbers_((max_items + 8) * kPackedTerms) {
    for (int64_t i = 0; i < numbers_.size(); ++i) numbers_[i] = 0;
  }
  static int64_t Bytes(int64_t max_items) {
    return (max_items + 8) * kPackedTerms * static_cast<int64_t>(sizeof(double));
  }

  void BeFactors() { lane_shift_ = -1; }
  void BeLanes(int width) { lane_shift_ = std::countr_zero(static_cast<unsigned>(width)); }
  const double* data() const { return numbers_.data(); }
  int64_t factor_stride() const { return factor_stride_; }

  // Terms [0, count) of the items, into terms `at` and on. A step of 1 is read along the terms,
  // others along the items, which then are neighbours.
  template <class Stored>
  void Pack(const Stored* tensor, const PackedItem* items, int64_t num_items, int64_t step,
            int64_t at, int64_t count) {
    if (step == 1) {
      for (int64_t i = 0; i < num_items; ++i) {
        double* to = &At(at, i);
        const int64_t to_step = TermStep();
        for (int64_t k = 0; k < count; ++k) to[k * to_step] = Number(tensor, items[i], k, step);
      }
      return;
    }
    for (int64_t k = 0; k < count; ++k) {
      for (int64_t i = 0; i < num_items; ++i) At(at + k, i) = Number(tensor, items[i], k, step);
    }
  }

  // Term `at` of the items: number_of(i), in order.
  template <class NumberOf>
  void PackOne(int64_t num_items, int64_t at, const NumberOf& number_of) {
    const int64_t width = lane_shift_ < 0 ? num_items : int64_t{1} << lane_shift_;
    for (int64_t begin = 0; begin < num_items; begin += width) {
      double* to = &At(at, begin);
      const int64_t end = std::min(num_items, begin + width);
      for (int64_t i = begin; i < end; ++i) to[i - begin] = number_of(i);
    }
  }

 private:
  template <class Stored>
  static double Number(const Stored* tensor, const PackedItem& item, int64_t k, int64_t step) {
    return item.begin <= k && k < item.end ? Widen(tensor[item.offset + k * step]) : 0.0;
  }
  int64_t TermStep() const { return lane_shift_ < 0 ? factor_stride_ : int64_t{1} << lane_shift_; }
  double& At(int64_t term, int64_t item) {
    if (lane_shift_ < 0) return numbers_[term * factor_stride_ + item];
    const int64_t lane = item & ((int64_t{1} << lane_shift_) - 1);
    return numbers_[((((item >> lane_shift_) * kPackedTerms) + term) << lane_shift_) + lane];
  }

  int lane_shift_ = -1;
  int64_t factor_stride_;
  AlignedArray<double> numbers_;
};

}  // namespace convgrad
