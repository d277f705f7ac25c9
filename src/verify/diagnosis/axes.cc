#include "verify/diagnosis/axes.h"

#include <cstddef>
#include <utility>

#include "base/error.h"

namespace convgrad {

int64_t Axes::At(const Index& index) const {
  Index in_order, sizes_in_order;
  for (size_t axis = 0; axis < 4; ++axis) {
    in_order[static_cast<size_t>(place[axis])] = index[axis];
    sizes_in_order[static_cast<size_t>(place[axis])] = sizes[axis];
  }
  int64_t element = 0;
  for (size_t axis = 0; axis < 4; ++axis) element = element * sizes_in_order[axis] + in_order[axis];
  return element;
}

Index Axes::IndexOf(int64_t element) const {
  std::array<size_t, 4> meaning{};
  for (size_t axis = 0; axis < 4; ++axis) meaning[static_cast<size_t>(place[axis])] = axis;
  Index index{};
  for (size_t at = 4; at-- > 0;) {
    const int64_t size = sizes[meaning[at]];
    index[meaning[at]] = element % size;
    element /= size;
  }
  return index;
}

Axes AxesOf(const Problem& problem, Role role) {
  const ConvGeometry& g = problem.geometry;
  if (role == Role::kFilter) {
    const Shape shape = problem.FilterShape();
    return {{shape[0], shape[1], shape[2], shape[3]}, {0, 1, 2, 3}};
  }
  const std::array<int, 4> place = problem.data_format == DataFormat::kNHWC
                                       ? std::array<int, 4>{0, 1, 2, 3}
                                       : std::array<int, 4>{0, 2, 3, 1};
  if (role == Role::kInput) return {{g.batch, g.in_h, g.in_w, g.in_c}, place};
  return {{g.batch, g.out_h, g.out_w, g.out_c}, place};
}

const char* SubjectOf(const Problem& problem, Role role) {
  if (IsResult(problem, role)) return "the golden";
  return role == Role::kInput ? "the input" : role == Role::kFilter ? "the filter" : "out_backprop";
}

Role ResultRole(const Problem& problem) {
  switch (InfoOf(problem.op).direction) {
    case Direction::kForward: return Role::kOutBackprop;
    case Direction::kBackpropInput: return Role::kInput;
    case Direction::kBackpropFilter: return Role::kFilter;
  }
  ThrowInternal("unknown direction");
}

bool HasRole(const Problem& problem, Role role) {
  return !IsResult(problem, role) || role == ResultRole(problem);
}

Alternative WithSource(const Problem& problem, Role role, Source source) {
  Alternative alternative(problem);
  if (IsResult(problem, role)) {
    alternative.result = std::move(source);
  } else {
    ViewOf(alternative, role).source = std::move(source);
  }
  return alternative;
}

}  // namespace convgrad
