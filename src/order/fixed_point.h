// Exact sums of products, one for each element of a tensor, as integers in two's complement of as
// many 64-bit words as all of them need: what is left of a sum before it is rounded. Sums of parts
// are added word by word, in any order. Must not know whose products they are.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/memory.h"
#include "base/parallel.h"
#include "order/superaccumulator.h"

namespace convgrad {

// Word i of a number is worth 2^(64 * (first + i)) a unit; the last has the sign.
struct WordWindow {
  int first = 0;
  int count = 1;

  int end() const { return first + count; }
  bool operator==(const WordWindow&) const = default;
  // The least one of numbers that are multiples of 2^lowest_bit and smaller than 2^highest_bit.
  static WordWindow Of(int lowest_bit, int highest_bit);
  // The least one that has both.
  WordWindow With(const WordWindow& other) const;
};

// That of all sums of products of a type's finite numbers that a tensor's elements can have: 3
// words of float16, 10 of float32 and bfloat16, 67 of float64.
WordWindow WidestWindow(DType dtype);

// A sum as infinite and NaN products make it, whatever else is in it: states of several sums are
// joined by |.
enum SpecialSum : uint8_t { kFiniteSum = 0, kPositiveSum = 1, kNegativeSum = 2, kNaNSum = 3 };

// The state that an infinite or NaN product makes.
SpecialSum SpecialSumOf(double product);

class FixedPointSums {
 public:
  // Zeros. More than `max_bytes` (0: no limit) are refused as "memory/limit" when they are needed.
  explicit FixedPointSums(int64_t count, int64_t max_bytes = 0);

  // Zeros in a window.
  FixedPointSums(int64_t count, const WordWindow& window);

  int64_t count() const { return count_; }
  const WordWindow& window() const { return window_; }
  std::span<const uint64_t> At(int64_t element) const {
    return {words_.data() + element * window_.count, static_cast<size_t>(window_.count)};
  }
  // The words of all elements, one after the other.
  const uint64_t* words() const { return words_.data(); }
  int64_t WordBytes() const { return words_.size() * static_cast<int64_t>(sizeof(uint64_t)); }
  // A byte each; none where all are finite.
  std::span<const uint8_t> states() const { return states_; }
  SpecialSum StateAt(int64_t element) const {
    return states_.empty() ? kFiniteSum
                           : static_cast<SpecialSum>(states_[static_cast<size_t>(element)]);
  }
  bool HasSpecial() const;

  // Makes room: afterwards the window has all of `window`.
  void Widen(const WordWindow& window, const Parallel& parallel);
  // Makes room for MarkSpecial, which threads may then call for different elements.
  void KeepStates();
  bool HasStates() const { return !states_.empty(); }

  // value * 2^exponent, in the window.
  void AddInteger(int64_t element, int64_t value, int exponent);
  // Both finite; in the window, as are all sums.
  void AddProduct(int64_t element, double x, double y);
  void AddWords(int64_t element, const uint64_t* words, const WordWindow& window);
  void MarkSpecial(int64_t element, SpecialSum state) {
    states_[static_cast<size_t>(element)] |= state;
  }

  // Zeros where a state says all, and the least window that has the numbers: what depends on the
  // sums alone, not on how they came about.
  void Normalize(const Parallel& parallel);

  // Rounded once, to nearest even; NaN is canonical.
  template <class Stored>
  double Rounded(int64_t element) const;

 private:
  uint64_t* MutableAt(int64_t element) { return words_.data() + element * window_.count; }
  WordWindow UsedWindow(const Parallel& parallel) const;
  void Move(const WordWindow& window, const Parallel& parallel);

  int64_t count_, max_bytes_;
  WordWindow window_;
  AlignedArray<uint64_t> words_;
  std::vector<uint8_t> states_;  // empty: all are finite
};

}  // namespace convgrad
