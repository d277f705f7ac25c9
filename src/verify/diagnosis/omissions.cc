// Mistaken ends: terms that a loop left out, and other numbers than zeros around the input.
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "verify/diagnosis/axes.h"
#include "verify/diagnosis/hypotheses.h"

namespace convgrad {
namespace {

// --- terms left out ---

using IsLeftOut = std::function<bool(const Index&)>;

// The computation without the elements of an operand that `is_left_out`.
Hypothesis Without(const Problem& problem, Role role, IsLeftOut is_left_out, const char* name,
                   std::string sentence) {
  const Axes axes = AxesOf(problem, role);
  const auto source = [axes, is_left_out = std::move(is_left_out)](int64_t position) {
    return is_left_out(axes.IndexOf(position)) ? int64_t{-1} : position;
  };
  return {name, std::move(sentence), WithSource(problem, role, source)};
}

// "(37 mod 32)" where the number left out is what a loop in steps leaves over.
std::string RemainderInWords(int64_t size, int64_t left_out) {
  for (const int64_t step : {64, 32, 16, 8, 4}) {
    if (size % step == left_out) return fmt::format(" ({} mod {})", size, step);
  }
  return "";
}

enum class Steps { kAll, kPowersOfTwo };

// How many are left out where loops go wrong: a few, or what is left over by steps of 4 to 64.
std::set<int64_t> LikelyTails(int64_t size, Steps steps) {
  constexpr int64_t kFew = 8, kMostSteps = 64;
  std::set<int64_t> tails;
  for (int64_t tail = 1; tail <= kFew; ++tail) tails.insert(tail);
  for (int64_t step = 4; step <= kMostSteps; step = steps == Steps::kAll ? step + 1 : 2 * step) {
    tails.insert(size % step);
  }
  std::erase_if(tails, [&](int64_t tail) { return tail <= 0 || tail >= size; });
  return tails;
}

// Channels that are summed over: of the group's input forward, of its output backward.
void AddChannelTails(const Problem& problem, std::vector<Hypothesis>& hypotheses) {
  const Direction direction = InfoOf(problem.op).direction;
  if (direction == Direction::kBackpropFilter) return;
  const ConvGeometry& g = problem.geometry;
  const bool forward = direction == Direction::kForward;
  const int64_t channels = forward ? g.group_in_c : g.group_out_c;
  const Role role = forward ? Role::kInput : Role::kOutBackprop;
  for (const int64_t tail : LikelyTails(channels, Steps::kAll)) {
    hypotheses.push_back(Without(
        problem, role, [=](const Index& at) { return at[3] % channels >= channels - tail; },
        "tail-dropped",
        fmt::format("the last {} of {} channels{} are missing in the golden's sums: look at the "
                    "end of the loop over channels",
                    tail, channels, RemainderInWords(channels, tail))));
  }
}

// Output pixels that a filter gradient sums over: of each image, of the batch, whole rows, columns.
void AddPixelTails(const Problem& problem, std::vector<Hypothesis>& hypotheses) {
  if (InfoOf(problem.op).direction != Direction::kBackpropFilter) return;
  const ConvGeometry& g = problem.geometry;
  const int64_t plane = g.out_h * g.out_w, cols = g.out_w;
  const auto add = [&](int64_t size, const char* what, const auto& place_of) {
    for (const int64_t tail : LikelyTails(size, Steps::kPowersOfTwo)) {
      hypotheses.push_back(Without(
          problem, Role::kOutBackprop, [=](const Index& at) { return place_of(at) >= size - tail; },
          "tail-dropped",
          fmt::format("the last {} of {} {}{} are missing in the golden's sums: look at the end of "
                      "the loop over pixels",
                      tail, size, what, RemainderInWords(size, tail))));
    }
  };
  add(plane, "pixels of every image", [=](const Index& at) { return at[1] * cols + at[2]; });
  add(g.out_h, "rows of out_backprop", [](const Index& at) { return at[1]; });
  add(g.out_w, "columns of out_backprop", [](const Index& at) { return at[2]; });
  if (g.batch < 2) return;
  add(g.batch * plane, "pixels of the batch",
      [=](const Index& at) { return (at[0] * plane) + at[1] * cols + at[2]; });
}

// A filter gradient's missing tap was never written.
void AddMissingTaps(const Problem& problem, std::vector<Hypothesis>& hypotheses) {
  constexpr int64_t kMostTaps = 81;
  const ConvGeometry& g = problem.geometry;
  if (InfoOf(problem.op).direction == Direction::kBackpropFilter) return;
  const auto add = [&](const std::string& what, const IsLeftOut& is_left_out) {
    hypotheses.push_back(Without(
        problem, Role::kFilter, is_left_out, "tap-missing",
        fmt::format("{} missing in the golden: look at the loop over the filter's taps", what)));
  };
  if (g.kernel_h * g.kernel_w < 2) return;
  for (const int64_t row : {g.kernel_h - 1, int64_t{0}}) {
    if (g.kernel_h < 2) break;
    add(fmt::format("kernel row {} is", row), [=](const Index& at) { return at[0] == row; });
  }
  for (const int64_t col : {g.kernel_w - 1, int64_t{0}}) {
    if (g.kernel_w < 2) break;
    add(fmt::format("kernel column {} is", col), [=](const Index& at) { return at[1] == col; });
  }
  for (int64_t tap = 0; tap < std::min(g.kernel_h * g.kernel_w, kMostTaps); ++tap) {
    const int64_t row = tap / g.kernel_w, col = tap % g.kernel_w;
    add(fmt::format("the tap in kernel row {}, column {} is", row, col),
        [=](const Index& at) { return at[0] == row && at[1] == col; });
  }
}

// --- what surrounds the input ---

// Where a padded row or column is taken from: `at` may lie outside of [0, size).
using Surround = int64_t (*)(int64_t at, int64_t size);

int64_t Modulo(int64_t at, int64_t size) {
  return (at % size + size) % size;
}
int64_t Nearest(int64_t at, int64_t size) {
  return std::clamp<int64_t>(at, 0, size - 1);
}
int64_t Mirrored(int64_t at, int64_t size) {
  const int64_t place = Modulo(at, 2 * size);
  return place < size ? place : 2 * size - 1 - place;
}
int64_t Reflected(int64_t at, int64_t size) {
  if (size == 1) return 0;
  const int64_t place = Modulo(at, 2 * size - 2);
  return place < size ? place : 2 * size - 2 - place;
}

constexpr struct {
  const char* name;
  Surround source;
  const char* what;
} kSurrounds[] = {
    {"edge-padding", Nearest, "the nearest number of the edge"},
    {"reflect-padding", Reflected, "the input reflected at its edge, the edge itself once"},
    {"symmetric-padding", Mirrored, "the input mirrored at its edge, the edge itself twice"},
    {"wrap-padding", Modulo, "the input from its other end on"},
};

// The input with its surroundings written out, from the first to the last row and column that a
// window sees; none where windows see none, or far more of them than of the input. What an input
// gradient does with them is another sum, not looked for.
std::optional<Problem> WithSurroundings(const Problem& problem) {
  const ConvGeometry& g = problem.geometry;
  if (InfoOf(problem.op).direction == Direction::kBackpropInput) return std::nullopt;
  if (g.in_h < 1 || g.in_w < 1) return std::nullopt;
  const int64_t rows = (g.out_h - 1) * g.stride_h + (g.kernel_h - 1) * g.dilation_h + 1;
  const int64_t cols = (g.out_w - 1) * g.stride_w + (g.kernel_w - 1) * g.dilation_w + 1;
  const bool sees_none = g.pad_top <= 0 && g.pad_left <= 0 && rows - g.pad_top <= g.in_h &&
                         cols - g.pad_left <= g.in_w;
  if (sees_none || rows > 4 * g.in_h + 64 || cols > 4 * g.in_w + 64) return std::nullopt;
  Problem padded = problem;
  padded.padding = Padding::kExplicit;
  padded.geometry.in_h = rows;
  padded.geometry.in_w = cols;
  padded.geometry.pad_top = padded.geometry.pad_bottom = 0;
  padded.geometry.pad_left = padded.geometry.pad_right = 0;
  return padded;
}

// The element of the input that is seen at a position of the padded one; -1: a zero.
Source SourceOfPadded(const Problem& problem, const Problem& padded, Surround of) {
  const Axes ours = AxesOf(problem, Role::kInput), theirs = AxesOf(padded, Role::kInput);
  return [=, top = problem.geometry.pad_top, left = problem.geometry.pad_left](int64_t position) {
    Index index = theirs.IndexOf(position);
    index[1] = of(index[1] - top, ours.sizes[1]);
    index[2] = of(index[2] - left, ours.sizes[2]);
    return index[1] < 0 || index[2] < 0 ? int64_t{-1} : ours.At(index);
  };
}

void AddSurrounds(const Problem& problem, std::vector<Hypothesis>& hypotheses) {
  const std::optional<Problem> padded = WithSurroundings(problem);
  if (!padded) return;
  for (const auto& surround : kSurrounds) {
    hypotheses.push_back(
        {surround.name,
         fmt::format(
             "the golden's windows see {} where {} has zeros: pad with zeros there, or give "
             "the padded input here with --padding VALID",
             surround.what, NameOf(problem.padding)),
         WithSource(*padded, Role::kInput, SourceOfPadded(problem, *padded, surround.source))});
  }
}

}  // namespace

void AddMultipliedPadding(const Problem& problem, std::vector<Hypothesis>& hypotheses) {
  const std::optional<Problem> padded = WithSurroundings(problem);
  if (!padded) return;
  const auto zeros = [](int64_t at, int64_t size) { return at < size ? at : -1; };
  hypotheses.push_back(
      {"padding-multiplied",
       "the golden multiplies padding, where zero times an infinity or NaN is NaN; here padding is "
       "no term: nothing is wrong with it for operands that are finite",
       WithSource(*padded, Role::kInput, SourceOfPadded(problem, *padded, zeros))});
}

void AddOmissions(const Problem& problem, std::vector<Hypothesis>& hypotheses) {
  AddSurrounds(problem, hypotheses);
  AddMissingTaps(problem, hypotheses);
  AddChannelTails(problem, hypotheses);
  AddPixelTails(problem, hypotheses);
}

}  // namespace convgrad
