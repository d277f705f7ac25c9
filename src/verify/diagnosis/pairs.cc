// Two mistakes at once, of those that often come together: one in the attributes and one in a
// layout, an order, a factor or an activation.
#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

#include "verify/diagnosis/hypotheses.h"

namespace convgrad {
namespace {

// The subject of a mistake; two of one kind don't come together.
enum class Part { kWindows, kFilter, kChannels, kFactor, kActivation, kNone };

struct Named {
  std::string_view name;
  Part part;
};

constexpr Named kParts[] = {
    {"pads-same", Part::kWindows},
    {"pads-symmetric", Part::kWindows},
    {"pads-swapped", Part::kWindows},
    {"padding-ignored", Part::kWindows},
    {"pads-first", Part::kWindows},
    {"window-offset", Part::kWindows},
    {"dilation-ignored", Part::kWindows},
    {"dilation-added", Part::kWindows},
    {"dilations-swapped", Part::kWindows},
    {"strides-swapped", Part::kWindows},
    {"filter-flipped", Part::kFilter},
    {"taps-transposed", Part::kFilter},
    {"channels-transposed", Part::kFilter},
    {"filter-oihw", Part::kFilter},
    {"filter-ohwi", Part::kFilter},
    {"filter-hwoi", Part::kFilter},
    {"filter-multiplier-order", Part::kFilter},
    {"filter-depthwise-oihw", Part::kFilter},
    {"multiplier-order", Part::kChannels},
    {"group-order", Part::kChannels},
    {"sign-flipped", Part::kFactor},
    {"counted-twice", Part::kFactor},
    {"batch-mean", Part::kFactor},
    {"rectified", Part::kActivation},
    {"relu6", Part::kActivation},
};

Part PartOf(const Hypothesis& hypothesis) {
  const auto* named = std::ranges::find(kParts, std::string_view(hypothesis.name), &Named::name);
  return named == std::end(kParts) ? Part::kNone : named->part;
}

bool IsSet(const View& view) {
  return view.source || view.change;
}

// Both, where they change other things; `windows` may change the problem, the other does not.
std::optional<Alternative> Both(const Alternative& windows, const Alternative& other) {
  const bool meet = (IsSet(windows.first) && IsSet(other.first)) ||
                    (IsSet(windows.second) && IsSet(other.second)) ||
                    (windows.result && other.result) || (windows.factor != 1 && other.factor != 1);
  if (meet) return std::nullopt;
  Alternative both = windows;
  if (IsSet(other.first)) both.first = other.first;
  if (IsSet(other.second)) both.second = other.second;
  if (other.result) both.result = other.result;
  if (other.factor != 1) both.factor = other.factor;
  if (other.finish != Finish::kRounded) {
    both.finish = other.finish;
    both.ceiling = other.ceiling;
  }
  return both;
}

}  // namespace

std::vector<Hypothesis> LikelyPairs(const Problem& problem) {
  std::vector<Hypothesis> singles;
  AddScalings(problem, singles);
  AddAttributes(problem, singles);
  AddRearrangements(problem, singles);
  AddRelayoutsAndShifts(problem, singles);
  AddActivations(problem, singles);
  std::erase_if(singles, [](const Hypothesis& one) { return PartOf(one) == Part::kNone; });
  // Windows first: only the first of two may change the problem.
  std::ranges::stable_sort(singles, {}, PartOf);
  std::vector<Hypothesis> pairs;
  for (auto one = singles.begin(); one != singles.end(); ++one) {
    for (auto other = std::next(one); other != singles.end(); ++other) {
      if (PartOf(*one) == PartOf(*other)) continue;
      std::optional<Alternative> both = Both(one->alternative, other->alternative);
      if (!both) continue;
      pairs.push_back({one->name + "+" + other->name,
                       "two mistakes: " + one->sentence + "; and " + other->sentence,
                       *std::move(both)});
    }
  }
  return pairs;
}

}  // namespace convgrad
