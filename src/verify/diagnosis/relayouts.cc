// Mistaken memory: the numbers of another layout, or one place off, under the right shape.
#include <fmt/format.h>

#include <array>

#include "base/checked.h"
#include "verify/diagnosis/axes.h"
#include "verify/diagnosis/hypotheses.h"

namespace convgrad {
namespace {

// --- numbers in the memory order of another layout, under the same shape ---

struct Relayout {
  const char* name;
  Role role;
  bool only_depthwise;
  std::array<int, 4> order;  // the axes, by meaning, from outermost to innermost
  const char* what;
  const char* remedy;
};

constexpr Relayout kRelayouts[] = {
    {"filter-multiplier-order",
     Role::kFilter,
     true,
     {0, 1, 3, 2},
     "held its numbers in the order [height,width,multiplier,channel]",
     "swap its last two axes with a transpose, not a reshape"},
    {"filter-depthwise-oihw",
     Role::kFilter,
     true,
     {2, 3, 0, 1},
     "held its numbers in the order [channel,multiplier,height,width], as PyTorch's [C*M,1,kh,kw]",
     "give it as it was with --filter-format OIHW"},
    {"filter-oihw",
     Role::kFilter,
     false,
     {3, 2, 0, 1},
     "held its numbers in OIHW order",
     "convert with numpy.transpose(f, (2,3,1,0)), not with a reshape, or give it as it was with "
     "--filter-format OIHW"},
    {"filter-ohwi",
     Role::kFilter,
     false,
     {3, 0, 1, 2},
     "held its numbers in OHWI order",
     "convert with numpy.transpose(f, (1,2,3,0)), not with a reshape, or give it as it was with "
     "--filter-format OHWI"},
    {"filter-hwoi",
     Role::kFilter,
     false,
     {0, 1, 3, 2},
     "held its numbers in HWOI order",
     "convert with numpy.transpose(f, (0,1,3,2)), not with a reshape"},
    {"input-nchw",
     Role::kInput,
     false,
     {0, 3, 1, 2},
     "held its numbers in NCHW order",
     "transpose it, a reshape is not enough"},
    {"output-nchw",
     Role::kOutBackprop,
     false,
     {0, 3, 1, 2},
     "held its numbers in NCHW order",
     "transpose it, a reshape is not enough"},
    {"input-nhwc",
     Role::kInput,
     false,
     {0, 1, 2, 3},
     "held its numbers in NHWC order",
     "transpose it, a reshape is not enough"},
    {"height-width-order",
     Role::kInput,
     false,
     {0, 2, 1, 3},
     "held its numbers with height and width exchanged, [image,column,row,channel],",
     "transpose it, a reshape is not enough"},
    {"height-width-order",
     Role::kOutBackprop,
     false,
     {0, 2, 1, 3},
     "held its numbers with height and width exchanged, [image,column,row,channel],",
     "transpose it, a reshape is not enough"},
    {"height-width-order",
     Role::kInput,
     false,
     {0, 3, 2, 1},
     "held its numbers with height and width exchanged, [image,channel,column,row],",
     "transpose it, a reshape is not enough"},
    {"height-width-order",
     Role::kOutBackprop,
     false,
     {0, 3, 2, 1},
     "held its numbers with height and width exchanged, [image,channel,column,row],",
     "transpose it, a reshape is not enough"},
    {"output-nhwc",
     Role::kOutBackprop,
     false,
     {0, 1, 2, 3},
     "held its numbers in NHWC order",
     "transpose it, a reshape is not enough"},
};

// The place of each axis, by meaning, in a layout.
std::array<int, 4> PlacesIn(const std::array<int, 4>& order) {
  std::array<int, 4> place{};
  for (int at = 0; at < 4; ++at) place[static_cast<size_t>(order[static_cast<size_t>(at)])] = at;
  return place;
}

// Both ways: numbers written in the other layout and read in ours, and the reverse.
void AddBothWays(const Problem& problem, const Relayout& relayout, const Axes& ours,
                 std::vector<Hypothesis>& hypotheses) {
  const Axes theirs = {ours.sizes, PlacesIn(relayout.order)};
  const auto add = [&](const Axes& from, const Axes& to) {
    hypotheses.push_back(
        {relayout.name,
         fmt::format("as if {} {} under its shape: {}", SubjectOf(problem, relayout.role),
                     relayout.what, relayout.remedy),
         WithSource(problem, relayout.role,
                    [from, to](int64_t position) { return to.At(from.IndexOf(position)); })});
  };
  add(ours, theirs);
  add(theirs, ours);
}

void AddRelayouts(const Problem& problem, std::vector<Hypothesis>& hypotheses) {
  for (const Relayout& relayout : kRelayouts) {
    if (!HasRole(problem, relayout.role)) continue;
    if (relayout.only_depthwise && !InfoOf(problem.op).depthwise) continue;
    const Axes ours = AxesOf(problem, relayout.role);
    if (ours.place == PlacesIn(relayout.order)) continue;
    AddBothWays(problem, relayout, ours, hypotheses);
  }
  for (const Role role : {Role::kInput, Role::kFilter, Role::kOutBackprop}) {
    if (!HasRole(problem, role)) continue;
    const Axes ours = AxesOf(problem, role);
    std::array<int, 4> reversed{};
    for (size_t axis = 0; axis < 4; ++axis) {
      reversed[static_cast<size_t>(3 - ours.place[axis])] = static_cast<int>(axis);
    }
    AddBothWays(problem,
                {"fortran-order", role, false, reversed, "held its numbers in Fortran order",
                 "save it with numpy.ascontiguousarray"},
                ours, hypotheses);
  }
}

// --- numbers one place off ---

constexpr const char* kImageAxes[] = {"image", "row", "column", "channel"};
constexpr const char* kFilterAxes[] = {"kernel row", "kernel column", "input channel",
                                       "output channel"};

void AddShift(const Problem& problem, Role role, size_t axis, int64_t step,
              std::vector<Hypothesis>& hypotheses) {
  const Axes axes = AxesOf(problem, role);
  if (axes.sizes[axis] < 2) return;
  const char* name = role == Role::kFilter ? kFilterAxes[axis] : kImageAxes[axis];
  for (const bool around : {true, false}) {
    const auto source = [axes, axis, step, around](int64_t position) {
      Index index = axes.IndexOf(position);
      const int64_t size = axes.sizes[axis];
      index[axis] += step;
      if (around) index[axis] = (index[axis] + size) % size;
      const bool inside = index[axis] >= 0 && index[axis] < size;
      return inside ? axes.At(index) : int64_t{-1};
    };
    hypotheses.push_back(
        {"shifted",
         fmt::format(
             "as if {} were shifted by one {} towards its {}, {}: look for an index off by one",
             SubjectOf(problem, role), name, step > 0 ? "start" : "end",
             around ? "the last coming round" : "with zeros moving in"),
         WithSource(problem, role, source)});
  }
}

void AddShifts(const Problem& problem, std::vector<Hypothesis>& hypotheses) {
  for (const Role role : {Role::kInput, Role::kFilter, Role::kOutBackprop}) {
    if (!HasRole(problem, role)) continue;
    for (const size_t axis : {size_t{1}, size_t{2}, size_t{3}, size_t{0}}) {
      for (const int64_t step : {-1, 1}) AddShift(problem, role, axis, step, hypotheses);
    }
    const Shape shape = problem.ShapeOf(role);
    const int64_t size = *CheckedProduct(shape);
    for (const int64_t step : {-1, 1}) {
      const auto source = [size, step](int64_t position) {
        const int64_t from = position + step;
        return from < size ? from : int64_t{-1};
      };
      hypotheses.push_back(
          {"data-offset",
           fmt::format("as if {} were read one element too {}: look for a header of another size",
                       SubjectOf(problem, role), step > 0 ? "late" : "early"),
           WithSource(problem, role, source)});
    }
  }
}

}  // namespace

void AddRelayoutsAndShifts(const Problem& problem, std::vector<Hypothesis>& hypotheses) {
  AddRelayouts(problem, hypotheses);
  AddShifts(problem, hypotheses);
}

}  // namespace convgrad
