// Where in a result the bad elements sit, in words: the border, a channel tail, one image, one tap.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "problem/geometry.h"
#include "tensor/tensor.h"
#include "verify/where/axis_pattern.h"
#include "verify/where/heat_map.h"

namespace convgrad {

// A tensor's axes, as they are known before any element is looked at.
class Layout {
 public:
  // The axes of a tensor of which nothing but the shape is known.
  explicit Layout(const Shape& shape);
  // Those of a problem's result.
  explicit Layout(const Problem& problem);

  const Shape& shape() const { return shape_; }
  const std::vector<std::string>& axis_names() const { return axis_names_; }
  // Pairs of axes that make a picture, down and across: rows and columns, then what is left of
  // four.
  std::vector<std::pair<size_t, size_t>> AxisPairs() const;
  Shape IndexOf(int64_t element) const;

 private:
  friend class Whereabouts;
  // Elements at which some tap of the filter meets padding, by position along an axis.
  struct Border {
    size_t axis;
    std::vector<bool> is_border;
  };
  void AddBorder(size_t axis, std::vector<bool> is_border);

  Shape shape_;
  std::vector<std::string> axis_names_;  // "image", "row", ...; "axis 2"
  std::vector<Border> borders_;
  bool has_inside_ = false;                    // some element is not at the border
  std::optional<size_t> row_axis_, col_axis_;  // of a filter's taps
  std::optional<size_t> channel_axis_;         // the one that vector lanes run along
  GridPlan grids_;
};

// Positions of a set of elements, as much of them as Describe needs; can be joined piece by piece.
class Whereabouts {
 public:
  void Add(const Layout& layout, int64_t element);
  void Join(const Whereabouts& other);

  int64_t count() const { return count_; }
  // "" for no element; else for instance "border, one image (3)", "every 2nd row (from 1)",
  // "rows 4..7 of 8, columns 3..5 of 9", "nearly all of every 2nd row (from 1)", "scattered in
  // channels 3..5 of 24" or "scattered".
  std::string Describe(const Layout& layout) const;
  Box LeastBox(const Layout& layout) const;
  // None for no element, or where all parts of the tensor have an equal share.
  std::optional<HeatMap> Picture(const Layout& layout) const;

 private:
  struct Extremes {
    int64_t first, last;
  };
  std::optional<std::string> OneTap(const Layout& layout) const;

  int64_t count_ = 0;
  int64_t at_border_ = 0;
  std::vector<Extremes> ranges_;  // by axis: the least and the largest position
  std::vector<AxisPattern> patterns_;
  HeatGrids grids_;
  Shape at_;  // the last element's index; kept for its memory
};

}  // namespace convgrad
