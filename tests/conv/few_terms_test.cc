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

TEST_P(FewTermsBits, OfPlanesAroundTheCaches) {
  const std::string problem = ProblemOf("conv2d_backprop_input", {3, 48, 48, 5, 160}).ToLine();
  CheckOnRandomProblems(
      "few-terms", 1, 35, [&](Draw&) { return problem; }, RandomOperands, GetParam());
}

INSTANTIATE_TEST_SUITE_P(AllValues, FewTermsBits,
                         ::testing::Values(Values::kOrdinary, Values::kSpecial), NameOfValues);

bool CanTake(const Problem& problem) {
  return Takes("few-terms", problem, SupportedKernels().front());
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

// More, again, of planes that are whole lines and go around the caches by vectors that are none.
TEST(FewTerms, TakesMoreTermsOfPlanesAroundTheCaches) {
  for (const KernelTable& kernels : SupportedKernels()) {
    if (kernels.isa == Isa::kScalar) continue;
    const auto takes = [&](const Planes& planes) {
      return Takes("few-terms", ProblemOf("conv2d", planes), kernels);
    };
    const bool is_short = kernels.vector_bytes < 64;
    EXPECT_EQ(takes({1, 100, 100, 48, 128}), is_short);
    EXPECT_FALSE(takes({1, 100, 100, 49, 128}));
    EXPECT_FALSE(takes({1, 100, 101, 48, 128})) << "lines in two planes";
    EXPECT_FALSE(takes({1, 64, 128, 48, 192})) << "planes at the same places of pages";
    EXPECT_FALSE(takes({1, 100, 100, 48, 64})) << "less than 4 MiB";
  }
}

TEST(FewTerms, LeavesEmptyResultsToOthers) {
  for (const char* layout :
       {"NCHW in=0,4,9,9", "NCHW in=2,4,0,9", "NHWC in=0,9,9,4", "NHWC in=2,9,0,4"}) {
    EXPECT_FALSE(CanTake(ParseProblem(std::string("conv2d float32 ") + layout +
                                      " filter=1,1,4,64 strides=1,1 dilations=1,1 pads=0,0,0,0 "
                                      "padding=EXPLICIT")))
        << layout;
  }
  EXPECT_FALSE(CanTake(ProblemOf("conv2d", {1, 9, 9, 4, 0})));
}

TEST(FewTerms, ChosenForFewTerms) {
  const Isa isa = SupportedKernels().front().isa;
  if (isa != Isa::kAvx512 && isa != Isa::kAvx2) GTEST_SKIP() << "coefficients are of x86-64";
  for (const char* op : {"conv2d", "conv2d_backprop_input"}) {
    Execution alone;
    alone.num_threads = 1;  // several threads' caches hold more
    const auto chosen = [&](const Planes& planes) {
      return PlanRun(ProblemOf(op, planes), alone).algorithm;
    };
    EXPECT_EQ(chosen({1, 56, 56, 1, 64}), "few-terms") << op;
    EXPECT_EQ(chosen({1, 56, 56, 4, 128}), "few-terms") << op;
    EXPECT_EQ(chosen({4, 28, 28, 16, 96}), "few-terms") << op;
    if (isa == Isa::kAvx512) {
      EXPECT_EQ(chosen({1, 19, 19, 21, 40}), "few-terms") << op;
      EXPECT_NE(chosen({4, 256, 256, 16, 4}), "few-terms") << op << ": few results of each line";
    }
    EXPECT_NE(chosen({4, 28, 28, 96, 96}), "few-terms") << op;
  }
}

}  // namespace
}  // namespace convgrad::testing
