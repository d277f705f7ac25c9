// The algorithm "few-terms" in NCHW against the reference, bit for bit: forward and input gradient,
// both types and every target; planes of one pixel to several strips, channels that fill no task,
// groups, images; of how many terms it takes, and when it is chosen.
#include <gtest/gtest.h>

#include <string>

#include "support/algorithm_testing.h"

namespace convgrad::testing {
namespace {

struct Planes {
  int64_t batch, h, w, terms, channels;
  int64_t groups = 1;
};

Problem ProblemOf(const std::string& op, const Planes& p, const std::string& type = "float32") {
  const bool forward = op == "conv2d";
  const int64_t in_c = forward ? p.terms : p.channels, out_c = forward ? p.channels : p.terms;
  return ParseProblem(op + " " + type + " NCHW in=" + ListOf({p.batch, in_c * p.groups, p.h, p.w}) +
                      " filter=" + ListOf({1, 1, in_c, out_c * p.groups}) +
                      " strides=1,1 dilations=1,1 pads=0,0,0,0 padding=EXPLICIT");
}

std::string DrawPlanes(Draw& draw) {
  const bool large = draw(0, 3) == 0, many = !large && draw(0, 2) == 0;
  const Planes planes{
      draw(1, 2),  large ? draw(15, 45) : draw(1, 9),  large ? draw(15, 45) : draw(2, 9),
      draw(1, 16), many ? draw(60, 140) : draw(1, 12), draw(0, 4) == 0 ? draw(2, 3) : 1};
  return ProblemOf(draw(0, 1) == 0 ? "conv2d" : "conv2d_backprop_input", planes,
                   draw(0, 2) == 0 ? "float64" : "float32")
      .ToLine();
}

class FewTermsBits : public ::testing::TestWithParam<Values> {};

TEST_P(FewTermsBits, OfRandomPlanes) {
  CheckOnRandomProblems("few-terms", 150, 31, DrawPlanes, RandomOperands, GetParam());
}

INSTANTIATE_TEST_SUITE_P(AllValues, FewTermsBits,
                         ::testing::Values(Values::kOrdinary, Values::kSpecial), NameOfValues);

bool CanTake(const Problem& problem) {
  for (const Algorithm& algorithm : AlgorithmsOf(problem.op)) {
    if (std::string(algorithm.name) == "few-terms") {
      return algorithm.can(problem, SupportedKernels().front());
    }
  }
  return false;
}

// More terms of near tensors than of far ones.
TEST(FewTerms, TakesSoManyTermsAndNoMore) {
  if (SupportedKernels().front().isa == Isa::kScalar) GTEST_SKIP() << "no vectors";
  for (const char* op : {"conv2d", "conv2d_backprop_input"}) {
    EXPECT_TRUE(CanTake(ProblemOf(op, {1, 40, 40, 64, 64}))) << op;
    EXPECT_FALSE(CanTake(ProblemOf(op, {1, 40, 40, 65, 64}))) << op;
    EXPECT_TRUE(CanTake(ProblemOf(op, {1, 100, 100, 16, 64}))) << op;
    EXPECT_FALSE(CanTake(ProblemOf(op, {1, 100, 100, 17, 64}))) << op;
  }
}

TEST(FewTerms, ChosenForFewTerms) {
  const Isa isa = SupportedKernels().front().isa;
  if (isa != Isa::kAvx512 && isa != Isa::kAvx2) GTEST_SKIP() << "coefficients are of x86-64";
  for (const char* op : {"conv2d", "conv2d_backprop_input"}) {
    const auto chosen = [&](const Planes& planes) {
      return PlanRun(ProblemOf(op, planes), {}).algorithm;
    };
    EXPECT_EQ(chosen({1, 56, 56, 1, 64}), "few-terms") << op;
    EXPECT_EQ(chosen({1, 56, 56, 4, 128}), "few-terms") << op;
    EXPECT_EQ(chosen({4, 28, 28, 16, 96}), "few-terms") << op;
    EXPECT_NE(chosen({4, 28, 28, 96, 96}), "few-terms") << op;
  }
}

}  // namespace
}  // namespace convgrad::testing
