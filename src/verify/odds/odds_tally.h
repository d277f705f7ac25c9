// The numbers that odds need of a tensor's deviations, piece by piece: tallies of pieces join to
// the tally of the whole in any order with the same outcome.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "verify/odds/deviation.h"

namespace convgrad {

// The largest of all numbers offered, each with its element; of equals the first element.
class Largest {
 public:
  struct Entry {
    double value;
    int64_t element;
  };
  static constexpr size_t kMost = 128;

  void Offer(double value, int64_t element);
  void Join(const Largest& other);
  std::vector<Entry> Sorted() const;  // the largest first

 private:
  void Trim();

  std::vector<Entry> entries_;  // at most 2 * kMost
};

class OddsTally {
 public:
  void Add(const Deviation& deviation, int64_t element);
  void Join(const OddsTally& other);

  int64_t count() const { return count_; }
  double MeanSquareInUsual() const { return Mean(usual_squares_); }
  double MeanSquareInAny() const { return Mean(any_squares_); }
  const Largest& in_usual() const { return in_usual_; }
  const Largest& in_any() const { return in_any_; }

 private:
  double Mean(uint64_t squares) const;

  int64_t count_ = 0;
  // In whole steps, so that no order of joining changes them; each square is rounded down.
  uint64_t usual_squares_ = 0, any_squares_ = 0;
  Largest in_usual_, in_any_;
};

}  // namespace convgrad
