#include "verify/where/heat_map.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace convgrad {
namespace {

constexpr int64_t kMostDown = 16, kMostAcross = 40;
constexpr double kLeastTelling = 0.25, kEqual = 1e-9;
constexpr size_t kMostAxes = 5;  // the largest; more make too many pairs

// The axes of more than one position, in their order.
std::vector<size_t> AxesToShow(const Shape& shape) {
  std::vector<size_t> axes(shape.size());
  std::iota(axes.begin(), axes.end(), size_t{0});
  std::stable_sort(axes.begin(), axes.end(),
                   [&](size_t a, size_t b) { return shape[a] > shape[b]; });
  if (axes.size() > kMostAxes) axes.resize(kMostAxes);
  std::erase_if(axes, [&](size_t axis) { return shape[axis] < 2; });
  std::sort(axes.begin(), axes.end());
  return axes;
}

}  // namespace

GridPlan::GridPlan(const Shape& shape) {
  const auto side = [&](size_t axis, int64_t most) {
    const int64_t cells = std::min(shape[axis], most);
    return Side{axis, shape[axis], cells,
                static_cast<double>(cells) / static_cast<double>(shape[axis])};
  };
  const auto add = [&](const Side& down, const Side& across) {
    grids_.push_back({down, across, num_cells_});
    num_cells_ += static_cast<size_t>(down.cells * across.cells);
  };
  const std::vector<size_t> axes = AxesToShow(shape);
  if (axes.size() == 1) add(Side{}, side(axes[0], kMostAcross));
  for (size_t i = 0; i < axes.size(); ++i) {
    for (size_t k = i + 1; k < axes.size(); ++k) {
      add(side(axes[i], kMostDown), side(axes[k], kMostAcross));
    }
  }
}

int64_t GridPlan::Side::CellOf(int64_t position) const {
  if (size == 1) return 0;
  return std::min(cells - 1, static_cast<int64_t>(static_cast<double>(position) * scale));
}

std::vector<int64_t> GridPlan::Side::Capacities() const {
  // Where each cell begins, by bisection: sizes may be large.
  const auto begin_of = [&](int64_t cell) {
    int64_t first = 0, last = size;
    while (first < last) {
      const int64_t middle = first + (last - first) / 2;
      (CellOf(middle) < cell ? first : last) = CellOf(middle) < cell ? middle + 1 : middle;
    }
    return first;
  };
  std::vector<int64_t> capacities;
  for (int64_t cell = 0; cell < cells; ++cell) {
    const int64_t end = cell + 1 == cells ? size : begin_of(cell + 1);
    capacities.push_back(end - begin_of(cell));
  }
  return capacities;
}

double GridPlan::Grid::Depth(const Shape& extents) const {
  double depth = 1;
  for (size_t axis = 0; axis < extents.size(); ++axis) {
    const bool shown = axis == across.axis || (axis == down.axis && down.size > 1);
    if (!shown) depth *= static_cast<double>(extents[axis]);
  }
  return depth;
}

void HeatGrids::Add(const GridPlan& plan, const Shape& index) {
  if (counts_.empty()) counts_.resize(plan.num_cells_);
  for (const GridPlan::Grid& grid : plan.grids_) {
    const int64_t row = grid.down.CellOf(index[grid.down.axis]);
    const int64_t col = grid.across.CellOf(index[grid.across.axis]);
    ++counts_[grid.begin + static_cast<size_t>(row * grid.across.cells + col)];
  }
}

void HeatGrids::Join(const HeatGrids& other) {
  if (counts_.empty()) {
    counts_ = other.counts_;
    return;
  }
  for (size_t i = 0; i < other.counts_.size(); ++i) counts_[i] += other.counts_[i];
}

std::optional<HeatMap> HeatGrids::Telling(const GridPlan& plan,
                                          const std::vector<std::string>& axis_names,
                                          const Shape& extents) const {
  if (counts_.empty()) return std::nullopt;
  std::optional<HeatMap> best;
  double best_telling = kLeastTelling;
  int64_t best_marked = 0;
  for (const GridPlan::Grid& grid : plan.grids_) {
    const std::vector<int64_t> rows = grid.down.Capacities(), cols = grid.across.Capacities();
    HeatMap map = {grid.down.size == 1 ? "" : axis_names[grid.down.axis],
                   axis_names[grid.across.axis],
                   grid.down.size,
                   grid.across.size,
                   {}};
    const double depth = grid.Depth(extents);
    double sum = 0, squares = 0, all = 0;
    int64_t marked = 0;
    size_t cell = grid.begin;
    for (const int64_t row : rows) {
      std::vector<double>& line = map.shares.emplace_back();
      for (const int64_t col : cols) {
        const double capacity = static_cast<double>(row) * static_cast<double>(col);
        const double share = static_cast<double>(counts_[cell++]) / (capacity * depth);
        sum += share * capacity;
        squares += share * share * capacity;
        all += capacity;
        marked += share > 0;
        line.push_back(share);
      }
    }
    const double mean = sum / all;
    if (mean >= 1) continue;
    // How far the shares differ, as a part of what it would be if each cell held all or nothing;
    // elements strewn at random leave little. Of equals, the one that shows most cells.
    const double telling = (squares / all - mean * mean) / (mean * (1 - mean));
    const bool equals = std::fabs(telling - best_telling) < kEqual;
    if (equals ? marked > best_marked : telling > best_telling) {
      best_telling = telling;
      best_marked = marked;
      best = std::move(map);
    }
  }
  return best;
}

}  // namespace convgrad
