// The algorithm "block-lanes" against the reference, bit for bit: blocks of images, of rows and of
// parts of rows, fewer than a vector has lanes or more than a run has blocks; strides, dilations,
// multipliers, every target; and infinities that meet the zeros which it multiplies.
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <random>
#include <string>

#include "algorithm_testing.h"
#include "operands.h"

namespace convgrad {
namespace {

using testing::CheckAlgorithm;
using testing::Operands;
using testing::RandomOperands;
using testing::Takes;
using testing::Values;

// A problem line; not every one has an output or is taken.
std::string DrawLine(std::mt19937_64& random) {
  const auto draw = [&](int64_t least, int64_t most) {
    return least + static_cast<int64_t>(random() % static_cast<uint64_t>(most - least + 1));
  };
  const auto text = [](std::initializer_list<int64_t> values) {
    std::string list;
    for (const int64_t value : values) list += (list.empty() ? "" : ",") + std::to_string(value);
    return list;
  };
  const bool nhwc = draw(0, 1) == 0, wide = draw(0, 4) == 0;
  const int64_t batch = wide ? draw(1, 2) : draw(1, 40), channels = draw(1, 7);
  const int64_t h = wide ? draw(1, 6) : draw(1, 40), w = wide ? draw(250, 700) : draw(1, 40);
  constexpr const char* kTypes[] = {"float32", "float64", "float16", "bfloat16"};
  return std::string("depthwise_conv2d_backprop_filter ") + kTypes[draw(0, 3)] +
         (nhwc ? " NHWC in=" : " NCHW in=") +
         (nhwc ? text({batch, h, w, channels}) : text({batch, channels, h, w})) +
         " filter=" + text({draw(1, 5), draw(1, 9), channels, draw(1, 3)}) +
         " strides=" + text({draw(1, 3), draw(1, 3)}) +
         " dilations=" + text({draw(1, 3), draw(1, 3)}) +
         " pads=" + text({draw(0, 4), draw(0, 4), draw(0, 9), draw(0, 9)}) + " padding=EXPLICIT";
}

class DepthwiseFilterBlocks : public ::testing::TestWithParam<Values> {};

TEST_P(DepthwiseFilterBlocks, OfRandomProblems) {
  std::mt19937_64 random(11);
  int taken = 0;
  for (uint64_t seed = 0; taken < 120 && !HasFailure(); ++seed) {
    const std::string line = DrawLine(random);
    try {
      const Problem problem = ParseProblem(line);
      if (!Takes("block-lanes", problem)) continue;
      CheckAlgorithm("block-lanes", problem, RandomOperands(problem, seed, GetParam()));
      ++taken;
    } catch (const Error&) {
      continue;  // an output without rows
    }
  }
}

INSTANTIATE_TEST_SUITE_P(AllValues, DepthwiseFilterBlocks,
                         ::testing::Values(Values::kOrdinary, Values::kSpecial),
                         [](const auto& instance) {
                           return instance.param == Values::kOrdinary ? "Ordinary" : "Special";
                         });

// An infinity of out_backprop in a corner has no term with the taps that leave the image there.
TEST(DepthwiseFilterBlocksOf, InfinityBesideThePadding) {
  const Problem problem = ParseProblem(
      "depthwise_conv2d_backprop_filter float32 NHWC in=8,40,40,1 filter=3,3,1,1 strides=1,1 "
      "dilations=1,1 pads=1,1,1,1 padding=EXPLICIT");
  const Operands operands = RandomOperands(problem, 3, Values::kOrdinary);
  Tensor out_backprop(DType::kFloat32, operands.second.shape());
  std::memcpy(out_backprop.mutable_raw(), operands.second.raw(),
              static_cast<size_t>(out_backprop.num_bytes()));
  out_backprop.mutable_data<float>()[0] = std::numeric_limits<float>::infinity();
  CheckAlgorithm("block-lanes", problem, {operands.first, out_backprop});
}

}  // namespace
}  // namespace convgrad
