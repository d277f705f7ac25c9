// Arithmetics that are known by their errors, where the bits say nothing: transforms instead of the
// definition's terms, and roundings by chance.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "support/arithmetic_testing.h"
#include "support/winograd_by_hand.h"

namespace convgrad::testing {
namespace {

using ::testing::HasSubstr;

TEST(Arithmetic, NamesWinograd) {
  const Layer layer = MakeLayer(Op::kConv2D, DType::kFloat32, {2, 11, 12, 16}, {3, 3, 16, 12}, 6);
  EXPECT_EQ(NameOf(layer, WinogradByHand(layer, Keep, 1).Run()),
            "winograd: All 3168 elements: Winograd F(2,3) in float32");
  EXPECT_THAT(NameOf(layer, WinogradByHand(layer, Keep, 4).Run()),
              HasSubstr("winograd: The errors of 3168 elements look like those of Winograd F(2,3) "
                        "in float32 (correlation 0."));
  EXPECT_THAT(NameOf(layer, WinogradByHand(layer, BF16, 4).Run()),
              HasSubstr("look like those of Winograd F(2,3) on operands rounded to bfloat16 once "
                        "transformed (correlation 1.00)"));
  // Sums of rounded operands in an order of their own have errors of the same size.
  std::mt19937_64 random(6);
  const MadeSum shuffled = [&](Terms t) {
    for (MadeTerm& term : t) term = {BF16(term.x), BF16(term.y), term.at};
    std::shuffle(t.begin(), t.end(), random);
    return InFloat32(t);
  };
  EXPECT_EQ(NameOf(layer, layer.Made(DType::kFloat32, shuffled)), "nothing");
}

TEST(Arithmetic, SaysThatRoundingLooksStochastic) {
  std::mt19937_64 random(8);
  const Layer layer =
      MakeLayer(Op::kConv2DBackpropFilter, DType::kBFloat16, {2, 9, 9, 20}, {1, 1, 20, 30}, 7);
  const auto rounded_by = [&](const auto& goes_up) {
    return layer.Made(DType::kBFloat16, [&](const Terms& t) {
      double sum = 0;
      for (const MadeTerm& term : t) sum += term.x * term.y;
      const double unit = std::ldexp(1.0, std::ilogb(sum) - 7),
                   lower = std::floor(sum / unit) * unit;
      return goes_up((sum - lower) / unit) ? lower + unit : lower;
    });
  };
  std::uniform_real_distribution<double> lot(0, 1);
  EXPECT_THAT(NameOf(layer, rounded_by([&](double part) { return lot(random) < part; })),
              HasSubstr("stochastic-rounding: All 600 elements"));
  EXPECT_EQ(NameOf(layer, rounded_by([&](double) { return lot(random) < 0.5; })), "nothing");
  EXPECT_EQ(NameOf(layer, rounded_by([&](double part) { return part > 0.3; })), "nothing");
}

}  // namespace
}  // namespace convgrad::testing
