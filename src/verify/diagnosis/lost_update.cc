#include "verify/diagnosis/lost_update.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "verify/diagnosis/axes.h"

namespace convgrad {
namespace {

// Channels of one of the operands, and which of them an element of the filter belongs to.
class FilterChannels {
 public:
  FilterChannels(const Problem& problem, Role role)
      : role_(role),
        geometry_(problem.geometry),
        depthwise_(InfoOf(problem.op).depthwise),
        axes_(AxesOf(problem, Role::kFilter)) {}

  int64_t count() const { return role_ == Role::kInput ? geometry_.in_c : geometry_.out_c; }
  int64_t Of(int64_t element) const {
    const Index index = axes_.IndexOf(element);
    const int64_t out = depthwise_ ? index[2] * geometry_.group_out_c + index[3] : index[3];
    if (role_ == Role::kOutBackprop) return out;
    return depthwise_ ? index[2] : out / geometry_.group_out_c * geometry_.group_in_c + index[2];
  }

 private:
  Role role_;
  ConvGeometry geometry_;
  bool depthwise_;
  Axes axes_;
};

// By channel, how far the golden is off at most.
std::vector<double> WorstOf(const FilterChannels& channels, const Tensor& actual,
                            const Tensor& golden) {
  std::vector<double> worst(static_cast<size_t>(channels.count()));
  VisitFloat(golden.dtype(), [&](auto tag) {
    using Stored = typename decltype(tag)::Type;
    for (int64_t i = 0; i < golden.num_elements(); ++i) {
      const double off =
          std::fabs(Widen(golden.data<Stored>()[i]) - Widen(actual.data<Stored>()[i]));
      double& of_channel = worst[static_cast<size_t>(channels.Of(i))];
      if (off > of_channel) of_channel = off;
    }
  });
  return worst;
}

void AddLost(const Problem& problem, Role role, const std::vector<bool>& is_off,
             std::vector<Hypothesis>& hypotheses) {
  constexpr int64_t kMostImages = 32;
  const int64_t batch = problem.geometry.batch;
  const Axes axes = AxesOf(problem, role);
  const auto off = std::ranges::count(is_off, true);
  for (int64_t image = 0; image < batch; ++image) {
    if (image == kMostImages && batch > kMostImages) image = batch - 1;
    const auto source = [=](int64_t position) {
      const Index index = axes.IndexOf(position);
      const bool is_lost = index[0] == image && is_off[static_cast<size_t>(index[3])];
      return is_lost ? int64_t{-1} : position;
    };
    hypotheses.push_back(
        {"lost-update",
         fmt::format("image {} is missing in the golden in {} of {} {} channels, which have all "
                     "others: an update was lost, look for threads that add to the same numbers",
                     image, off, is_off.size(), role == Role::kInput ? "input" : "output"),
         WithSource(problem, role, source)});
  }
}

}  // namespace

std::vector<Hypothesis> LostUpdates(const Problem& problem, const Tensor& actual,
                                    const Tensor& golden) {
  std::vector<Hypothesis> hypotheses;
  const bool is_sum = InfoOf(problem.op).direction == Direction::kBackpropFilter;
  if (!is_sum || problem.geometry.batch < 2 || golden.num_elements() == 0) return hypotheses;
  for (const Role role : {Role::kOutBackprop, Role::kInput}) {
    const std::vector<double> worst = WorstOf(FilterChannels(problem, role), actual, golden);
    // An image changes a channel by far more than rounding does.
    const double clearly = *std::ranges::max_element(worst) * 0x1p-7;
    std::vector<bool> is_off;
    for (const double off : worst) is_off.push_back(off > clearly);
    if (std::ranges::count(is_off, true) == std::ssize(is_off)) continue;
    AddLost(problem, role, is_off, hypotheses);
  }
  return hypotheses;
}

}  // namespace convgrad
