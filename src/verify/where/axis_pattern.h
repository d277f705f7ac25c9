// Which positions of one axis are met, and whether they come again with a period: every second row,
// channels 13 to 15 of every 16.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace convgrad {

// The positions of an axis at which a set of elements lies.
struct AxisRange {
  std::string axis;  // "row"; "axis 2"
  int64_t size = 0;
  int64_t first = 0, last = 0;
  // Where the positions come again along the whole axis, or from first to last: 0 if they don't,
  // else which of so many they are, counted from 0 at the axis's beginning.
  int64_t period = 0;
  std::vector<int64_t> of_period;

  bool IsWhole() const { return first == 0 && last == size - 1 && period == 0; }
  // How many positions are met, as far as range and period tell.
  int64_t Positions() const;
};

// The least box that holds a set of elements.
struct Box {
  std::vector<AxisRange> axes;  // none for no element
  bool is_filled = false;       // they are all that the ranges and periods allow

  int64_t Elements() const;
};

// "one row (3)", "every 2nd row (from 1)", "channels 13..15 of every 16", "channels 3..5 of 24"; ""
// for a whole axis.
std::string InWords(const AxisRange& range);

// The positions of one axis that were met; joined piece by piece.
class AxisPattern {
 public:
  void Add(int64_t position, int64_t size);
  void Join(const AxisPattern& other);

  // Sets period and of_period.
  void FindPeriod(AxisRange& range) const;

 private:
  bool Has(int64_t position) const {
    return (met_[static_cast<size_t>(position / 64)] >> (position % 64) & 1) != 0;
  }
  bool Repeats(const AxisRange& range, int64_t period) const;

  std::vector<uint64_t> met_;  // bits; empty for an axis too long to keep
};

}  // namespace convgrad
