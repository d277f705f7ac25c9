// The algorithm "direct" in NHWC against the reference, bit for bit, with about as many channels as
// the kernels take at a time: tensors of every type that are read and written where they lie, whose
// last channels and columns end in the middle of a group or a tile, on every target.
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "algorithm_testing.h"
#include "operands.h"

namespace convgrad {
namespace {

using testing::CheckAlgorithm;
using testing::RandomOperands;
using testing::Values;

std::string Text(std::initializer_list<int64_t> values) {
  std::string list;
  for (const int64_t value : values) list += (list.empty() ? "" : ",") + std::to_string(value);
  return list;
}

// A problem line; one in a few has no output.
std::string DrawLine(std::mt19937_64& random) {
  const auto draw = [&](int64_t least, int64_t most) {
    return least + static_cast<int64_t>(random() % static_cast<uint64_t>(most - least + 1));
  };
  constexpr const char* kOps[] = {"depthwise_conv2d", "depthwise_conv2d_backprop_input",
                                  "depthwise_conv2d_backprop_filter"};
  constexpr const char* kTypes[] = {"float32", "float64", "float16", "bfloat16"};
  // Groups of 4 to 32 channels; a few are whole.
  const int64_t channels = draw(0, 3) == 0 ? 8 * draw(1, 9) : draw(4, 75);
  // Most filters have one block.
  const int64_t kernel_h = draw(0, 9) == 0 ? 30 : draw(1, 5), kernel_w = draw(1, 10);
  const std::string op = kOps[draw(0, 2)];
  return op + " " + kTypes[draw(0, 3)] +
         " NHWC in=" + Text({draw(1, 3), draw(1, 12), draw(1, 25), channels}) +
         " filter=" + Text({kernel_h, kernel_w, channels, 1}) +
         " strides=" + Text({draw(1, 3), draw(1, 3)}) +
         " dilations=" + Text({draw(1, 2), draw(1, 3)}) +
         " pads=" + Text({draw(0, 5), draw(0, 5), draw(0, 9), draw(0, 9)}) + " padding=EXPLICIT";
}

class DepthwiseInPlace : public ::testing::TestWithParam<Values> {};

TEST_P(DepthwiseInPlace, OfRandomProblems) {
  std::mt19937_64 random(6);
  int taken = 0;
  for (uint64_t seed = 0; taken < 250 && !HasFailure(); ++seed) {
    const std::string line = DrawLine(random);
    try {
      const Problem problem = ParseProblem(line);
      CheckAlgorithm("direct", problem, RandomOperands(problem, seed, GetParam()));
      ++taken;
    } catch (const Error&) {
      continue;  // an output without rows or columns
    }
  }
}

INSTANTIATE_TEST_SUITE_P(AllValues, DepthwiseInPlace,
                         ::testing::Values(Values::kOrdinary, Values::kSpecial),
                         [](const auto& instance) {
                           return instance.param == Values::kOrdinary ? "Ordinary" : "Special";
                         });

}  // namespace
}  // namespace convgrad
