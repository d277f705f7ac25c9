// Mistaken places: the right numbers in another order, of an operand or of the result.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "verify/diagnosis/axes.h"
#include "verify/diagnosis/hypotheses.h"

namespace convgrad {
namespace {

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
void ReverseGroups(const Problem& problem, const Index& sizes, Index& index) {
  const int64_t groups = problem.geometry.groups, members = sizes[3] / groups;
  index[3] = (groups - 1 - index[3] / members) * members + index[3] % members;
}
void FirstGroup(const Problem& problem, const Index& sizes, Index& index) {
  index[3] %= sizes[3] / problem.geometry.groups;
}
// A depthwise filter has its groups along the input channels, any other along the output's.
void ReverseFilterGroups(const Problem& problem, const Index& sizes, Index& index) {
  if (!InfoOf(problem.op).depthwise) return ReverseGroups(problem, sizes, index);
  index[2] = sizes[2] - 1 - index[2];
}
void FirstFilterGroup(const Problem& problem, const Index& sizes, Index& index) {
  if (!InfoOf(problem.op).depthwise) return FirstGroup(problem, sizes, index);
  index[2] = 0;
}
void ReverseImages(const Problem&, const Index& sizes, Index& index) {
  index[0] = sizes[0] - 1 - index[0];
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
    {"group-order", Role::kOutBackprop, HasGroups, ReverseGroups, "had its groups in reverse order",
     "reorder the channels on one side"},
    {"group-order", Role::kInput, HasGroups, ReverseGroups, "had its groups in reverse order",
     "reorder the channels on one side"},
    {"group-order", Role::kFilter, HasGroups, ReverseFilterGroups,
     "had its groups in reverse order", "reorder the channels on one side"},
    {"first-group", Role::kInput, HasGroups, FirstGroup,
     "held the channels of group 0 for every group", "look for a missing offset of the group"},
    {"first-group", Role::kOutBackprop, HasGroups, FirstGroup,
     "held the channels of group 0 for every group", "look for a missing offset of the group"},
    {"first-group", Role::kFilter, HasGroups, FirstFilterGroup, "held group 0 for every group",
     "look for a missing offset of the group"},
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
    {"images-reversed", Role::kInput, Always, ReverseImages, "held its images in reverse order",
     kEitherSide},
    {"images-reversed", Role::kOutBackprop, Always, ReverseImages,
     "held its images in reverse order", kEitherSide},
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

// Two images in each other's place: of the result, or for a sum over images of one operand.
void AddExchangedImages(const Problem& problem, std::vector<Hypothesis>& hypotheses) {
  constexpr int64_t kFewImages = 8, kMostImages = 32;
  const bool is_sum = InfoOf(problem.op).direction == Direction::kBackpropFilter;
  const Role role = is_sum ? Role::kInput : ResultRole(problem);
  const Axes axes = AxesOf(problem, role);
  const int64_t batch = problem.geometry.batch;
  const auto add = [&](int64_t one, int64_t other) {
    const auto source = [=](int64_t position) {
      Index index = axes.IndexOf(position);
      if (index[0] == one || index[0] == other) index[0] = one + other - index[0];
      return axes.At(index);
    };
    hypotheses.push_back({"images-exchanged",
                          fmt::format("as if {} had images {} and {} exchanged: {}",
                                      SubjectOf(problem, role), one, other, kEitherSide),
                          WithSource(problem, role, source)});
  };
  // All pairs of a few, else neighbours, and the first with the last.
  for (int64_t one = 0; one < std::min(batch, kMostImages); ++one) {
    const int64_t end = batch <= kFewImages ? batch : std::min(one + 2, batch);
    for (int64_t other = one + 1; other < end; ++other) add(one, other);
  }
  if (batch > kFewImages) add(0, batch - 1);
}

}  // namespace

void AddRearrangements(const Problem& problem, std::vector<Hypothesis>& hypotheses) {
  AddMoves(problem, hypotheses);
  AddExchangedImages(problem, hypotheses);
}

}  // namespace convgrad
