// Mistaken places: the right numbers in another order, of an operand or of the result.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/checked.h"
#include "verify/diagnosis/hypotheses.h"

namespace convgrad {
namespace {

using Index = std::array<int64_t, 4>;

// A tensor's axes by meaning: image, row, column, channel; a filter's kernel row, kernel column,
// input channel, and output channel or multiplier.
struct Axes {
  Index sizes;
  std::array<int, 4> place;  // of each in the tensor's shape

  int64_t At(const Index& index) const {
    Index in_order, sizes_in_order;
    for (size_t axis = 0; axis < 4; ++axis) {
      in_order[static_cast<size_t>(place[axis])] = index[axis];
      sizes_in_order[static_cast<size_t>(place[axis])] = sizes[axis];
    }
    int64_t element = 0;
    for (size_t axis = 0; axis < 4; ++axis)
      element = element * sizes_in_order[axis] + in_order[axis];
    return element;
  }
  Index IndexOf(int64_t element) const {
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
};

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

bool HasRole(const Problem& problem, Role role) {
  const Role result = InfoOf(problem.op).direction == Direction::kForward ? Role::kOutBackprop
                      : InfoOf(problem.op).direction == Direction::kBackpropInput ? Role::kInput
                                                                                  : Role::kFilter;
  return !IsResult(problem, role) || role == result;
}

// The computation with one tensor, operand or result, seen through `source`.
Alternative WithSource(const Problem& problem, Role role, Source source) {
  Alternative alternative(problem);
  if (IsResult(problem, role)) {
    alternative.result = std::move(source);
  } else {
    ViewOf(alternative, role).source = std::move(source);
  }
  return alternative;
}

// --- elements that move inside their tensor ---

struct Move {
  const char* name;
  Role role;
  bool (*applies)(const Problem& problem, const Index& sizes);
  void (*move)(const Problem& problem, const Index& sizes, Index& index);
  const char* what;  // "as if the filter ..."
  const char* remedy;
};

bool Always(const Problem&, const Index&) {
  return true;
}
bool HasSquareTaps(const Problem&, const Index& sizes) {
  return sizes[0] == sizes[1];
}
bool IsSquareImage(const Problem&, const Index& sizes) {
  return sizes[1] == sizes[2];
}
bool HasSquareChannels(const Problem& problem, const Index& sizes) {
  return !InfoOf(problem.op).depthwise && sizes[2] == sizes[3];
}
bool HasFewChannels(const Problem&, const Index& sizes) {
  return sizes[3] == 3 || sizes[3] == 4;
}
bool HasGroups(const Problem& problem, const Index&) {
  return problem.geometry.groups > 1;
}
void ReverseRows(const Problem&, const Index& sizes, Index& index) {
  index[1] = sizes[1] - 1 - index[1];
}
void ReverseColumns(const Problem&, const Index& sizes, Index& index) {
  index[2] = sizes[2] - 1 - index[2];
}
void TransposeImage(const Problem&, const Index&, Index& index) {
  std::swap(index[1], index[2]);
}
void ReverseChannels(const Problem&, const Index& sizes, Index& index) {
  index[3] = sizes[3] - 1 - index[3];
}
void FirstImage(const Problem&, const Index&, Index& index) {
  index[0] = 0;
}
// Channel i of group g, in the place g*n + i, taken from the place i*groups + g.
void InterleaveGroups(const Problem& problem, const Index& sizes, Index& index) {
  const int64_t groups = problem.geometry.groups, members = sizes[3] / groups;
  index[3] = index[3] % members * groups + index[3] / members;
}
void DealGroups(const Problem& problem, const Index& sizes, Index& index) {
  const int64_t groups = problem.geometry.groups, members = sizes[3] / groups;
  index[3] = index[3] % groups * members + index[3] / groups;
}

constexpr const char* kEitherSide = "change it on one side";
constexpr Move kMoves[] = {
    {"filter-flipped", Role::kFilter, Always,
     [](const Problem&, const Index& sizes, Index& index) {
       index[0] = sizes[0] - 1 - index[0];
       index[1] = sizes[1] - 1 - index[1];
     },
     "had its taps in reverse order, a convolution where TensorFlow's op is a correlation",
     "reverse both kernel axes on one side"},
    {"filter-rows-flipped", Role::kFilter, Always,
     [](const Problem&, const Index& sizes, Index& index) { index[0] = sizes[0] - 1 - index[0]; },
     "had its kernel rows in reverse order", kEitherSide},
    {"filter-columns-flipped", Role::kFilter, Always,
     [](const Problem&, const Index& sizes, Index& index) { index[1] = sizes[1] - 1 - index[1]; },
     "had its kernel columns in reverse order", kEitherSide},
    {"taps-transposed", Role::kFilter, HasSquareTaps,
     [](const Problem&, const Index&, Index& index) { std::swap(index[0], index[1]); },
     "had kernel rows and columns exchanged", "transpose the kernel axes on one side"},
    {"channels-transposed", Role::kFilter, HasSquareChannels,
     [](const Problem&, const Index&, Index& index) { std::swap(index[2], index[3]); },
     "had input and output channels exchanged", "transpose its last two axes on one side"},
    {"multiplier-order", Role::kOutBackprop, HasGroups, InterleaveGroups,
     "had its channels in the order m*C+c, where TensorFlow's is c*M+m",
     "reorder the channels on one side"},
    {"multiplier-order", Role::kOutBackprop, HasGroups, DealGroups,
     "had its channels dealt out to the groups in turn, where TensorFlow keeps a group together",
     "reorder the channels on one side"},
    {"group-order", Role::kInput, HasGroups, InterleaveGroups,
     "had the channels of its groups interleaved", "reorder the channels on one side"},
    {"group-order", Role::kInput, HasGroups, DealGroups,
     "had its channels dealt out to the groups in turn", "reorder the channels on one side"},
    {"channels-reversed", Role::kInput, HasFewChannels, ReverseChannels,
     "had its channels in reverse order, BGR for RGB", kEitherSide},
    {"image-transposed", Role::kInput, IsSquareImage, TransposeImage,
     "had rows and columns exchanged", "transpose the images on one side"},
    {"image-transposed", Role::kOutBackprop, IsSquareImage, TransposeImage,
     "had rows and columns exchanged", "transpose the images on one side"},
    {"image-flipped", Role::kInput, Always, ReverseRows, "were upside down", kEitherSide},
    {"image-flipped", Role::kOutBackprop, Always, ReverseRows, "were upside down", kEitherSide},
    {"image-flipped", Role::kInput, Always, ReverseColumns, "were mirrored", kEitherSide},
    {"image-flipped", Role::kOutBackprop, Always, ReverseColumns, "were mirrored", kEitherSide},
    {"image-repeated", Role::kInput, Always, FirstImage, "held the first image again and again",
     "look for a batch stride of 0"},
    {"image-repeated", Role::kOutBackprop, Always, FirstImage,
     "held the first image again and again", "look for a batch stride of 0"},
};

void AddMoves(const Problem& problem, std::vector<Hypothesis>& hypotheses) {
  for (const Move& move : kMoves) {
    if (!HasRole(problem, move.role)) continue;
    const Axes axes = AxesOf(problem, move.role);
    if (!move.applies(problem, axes.sizes)) continue;
    const auto source = [problem, axes, moved = move.move](int64_t position) {
      Index index = axes.IndexOf(position);
      moved(problem, axes.sizes, index);
      return axes.At(index);
    };
    hypotheses.push_back(
        {move.name,
         fmt::format("as if {} {}: {}", SubjectOf(problem, move.role), move.what, move.remedy),
         WithSource(problem, move.role, source)});
  }
}

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

void AddRearrangements(const Problem& problem, std::vector<Hypothesis>& hypotheses) {
  AddMoves(problem, hypotheses);
  AddRelayouts(problem, hypotheses);
  AddShifts(problem, hypotheses);
}

}  // namespace convgrad
