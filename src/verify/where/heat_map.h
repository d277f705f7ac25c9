// A picture of where elements sit: their share in the cells of a grid over two axes of a tensor,
// those two that tell most. Along the other axes only the positions from their first to their last
// count, so that a patch in one image and channel shows as such.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tensor/tensor.h"

namespace convgrad {

struct HeatMap {
  std::string down, across;  // names of the axes
  int64_t down_size = 1, across_size = 1;
  std::vector<std::vector<double>> shares;  // by row and column of the grid: 0 none, 1 all
};

// The grids over all pairs of axes of one shape.
class GridPlan {
 public:
  GridPlan() = default;
  explicit GridPlan(const Shape& shape);

 private:
  friend class HeatGrids;
  struct Side {
    size_t axis = 0;
    int64_t size = 1;
    int64_t cells = 1;
    double scale = 1;  // cells a position

    int64_t CellOf(int64_t position) const;
    std::vector<int64_t> Capacities() const;  // positions in each cell
  };
  struct Grid {
    Side down, across;
    size_t begin = 0;  // of its cells among those of all grids

    // Elements for each pair of positions, with so many positions along each axis.
    double Depth(const Shape& extents) const;
  };
  std::vector<Grid> grids_;
  size_t num_cells_ = 0;
};

// Counts of elements in all grids; can be joined piece by piece.
class HeatGrids {
 public:
  void Add(const GridPlan& plan, const Shape& index);
  void Join(const HeatGrids& other);

  // None where the elements are evenly spread over every grid. `extents`: by axis, positions from
  // the elements' first to their last.
  std::optional<HeatMap> Telling(const GridPlan& plan, const std::vector<std::string>& axis_names,
                                 const Shape& extents) const;

 private:
  std::vector<int64_t> counts_;
};

}  // namespace convgrad
