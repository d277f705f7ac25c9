// The algorithm "few-terms" in NHWC against the reference, bit for bit: forward and input gradient,
// both types and every target; strips of whole rows, of a row's part and of all pixels; pixels that
// are taken one by one, strides, results around the caches; of how many terms and channels it
// takes, and when it is chosen.
#include <gtest/gtest.h>

#include <string>

#include "support/algorithm_testing.h"

namespace convgrad::testing {
namespace {

struct Pixels {
  int64_t batch, h, w, terms, channels;
  int64_t stride = 1;
};

// `h` and `w` are the result's.
Problem ProblemOf(const std::string& op, const Pixels& p, const std::string& type = "float32") {
  const bool forward = op == "conv2d";
  const int64_t in_c = forward ? p.terms : p.channels, out_c = forward ? p.channels : p.terms;
  const std::string stride = std::to_string(p.stride);
  return ParseProblem(op + " " + type +
                      " NHWC in=" + ListOf({p.batch, p.h * p.stride, p.w * p.stride, in_c}) +
                      " filter=" + ListOf({1, 1, in_c, out_c}) + " strides=" + stride + "," +
                      stride + " dilations=1,1 pads=0,0,0,0 padding=EXPLICIT");
}

class FewTermsOfPixels : public ::testing::TestWithParam<Values> {};

// One or some strips of whole rows, of a row's part, or of all pixels; channels of no whole vector.
std::string DrawPixels(Draw& draw) {
  const bool forward = draw(0, 1) == 0, wide = draw(0, 4) == 0, crowd = draw(0, 3) == 0;
  Pixels pixels{draw(1, 3), draw(1, wide ? 2 : 30), wide ? draw(300, 700) : draw(1, 30),
                draw(1, 24), crowd ? 256 * draw(1, 4) : draw(48, 100)};
  if (forward && draw(0, 1) == 0) pixels.stride = draw(2, 3);
  if (wide || crowd) pixels.terms = draw(1, 6);
  return ProblemOf(forward ? "conv2d" : "conv2d_backprop_input", pixels,
                   draw(0, 2) == 0 ? "float64" : "float32")
      .ToLine();
}

TEST_P(FewTermsOfPixels, RandomProblems) {
  CheckOnRandomProblems("few-terms", 120, 33, DrawPixels, RandomOperands, GetParam());
}

TEST_P(FewTermsOfPixels, AroundTheCaches) {
  const std::string problem = ProblemOf("conv2d", Pixels{1, 90, 91, 5, 256}).ToLine();
  CheckOnRandomProblems(
      "few-terms", 1, 34, [&](Draw&) { return problem; }, RandomOperands, GetParam());
}

// Results that leave this machine's last cache, whose pixels begin in the middle of lines.
TEST_P(FewTermsOfPixels, StripsAroundTheCaches) {
  const int64_t row_bytes = int64_t{250} * 51 * sizeof(float);
  const int64_t rows = SupportedKernels().front().last_cache_bytes / row_bytes + 1;
  const std::string problem = ProblemOf("conv2d", Pixels{1, rows, 250, 5, 51}).ToLine();
  CheckOnRandomProblems(
      "few-terms", 1, 35, [&](Draw&) { return problem; }, RandomOperands, GetParam());
}

INSTANTIATE_TEST_SUITE_P(AllValues, FewTermsOfPixels,
                         ::testing::Values(Values::kOrdinary, Values::kSpecial), NameOfValues);

bool CanTake(const Problem& problem) {
  return Takes("few-terms", problem, SupportedKernels().front());
}

// Pixels of some lines; no padding, no tap apart.
TEST(PixelsOfFewTerms, TakesPixelsOfSoManyTermsAndChannels) {
  if (SupportedKernels().front().isa == Isa::kScalar) GTEST_SKIP() << "no vectors";
  for (const char* op : {"conv2d", "conv2d_backprop_input"}) {
    EXPECT_TRUE(CanTake(ProblemOf(op, Pixels{1, 20, 20, 32, 48}))) << op;
    EXPECT_FALSE(CanTake(ProblemOf(op, Pixels{1, 20, 20, 33, 48}))) << op;
    EXPECT_FALSE(CanTake(ProblemOf(op, Pixels{1, 20, 20, 32, 47}))) << op;
    EXPECT_TRUE(CanTake(ProblemOf(op, Pixels{1, 20, 20, 32, 24}, "float64"))) << op;
    EXPECT_FALSE(CanTake(ProblemOf(op, Pixels{1, 20, 20, 32, 23}, "float64"))) << op;
  }
  EXPECT_TRUE(CanTake(ProblemOf("conv2d", Pixels{1, 20, 20, 32, 48, 2})));
  EXPECT_FALSE(CanTake(ProblemOf("conv2d_backprop_input", Pixels{1, 20, 20, 32, 48, 2})));
  EXPECT_FALSE(CanTake(ParseProblem(
      "conv2d float32 NHWC in=1,20,20,4 filter=1,1,4,64 strides=1,1 dilations=1,1 pads=1,1,1,1 "
      "padding=EXPLICIT")));
}

// check(takes, is_short, op) for kernels with vectors, by both passes: takes(pixels) says whether
// the form does, is_short whether vectors are parts of lines.
template <class Check>
void ForVectors(const Check& check) {
  for (const KernelTable& kernels : SupportedKernels()) {
    if (kernels.isa == Isa::kScalar) continue;
    for (const char* op : {"conv2d", "conv2d_backprop_input"}) {
      const auto takes = [&](const Pixels& pixels) {
        return Takes("few-terms", ProblemOf(op, pixels), kernels);
      };
      check(takes, kernels.vector_bytes < 64, op);
    }
  }
}

// More terms, and larger filters, by vectors that write parts of lines.
TEST(PixelsOfFewTerms, AreOfMoreTermsForShortVectors) {
  ForVectors([](const auto& takes, bool is_short, const char* op) {
    EXPECT_EQ(takes({4, 64, 64, 96, 128}), is_short) << op;
    EXPECT_FALSE(takes({4, 64, 64, 97, 128})) << op;
    EXPECT_EQ(takes({1, 64, 64, 32, 1008}), is_short) << op;
    EXPECT_FALSE(takes({1, 64, 64, 33, 1008})) << op;
    EXPECT_TRUE(takes({1, 64, 64, 8, 1024})) << op << ", crowded pixels";
    EXPECT_FALSE(takes({1, 64, 64, 9, 1024})) << op << ", crowded pixels";
  });
}

// A filter of the second cache, of fewer terms, for results that don't go around the caches.
TEST(PixelsOfFewTerms, ReadTheSecondCacheForFewerTerms) {
  ForVectors([](const auto& takes, bool is_short, const char* op) {
    EXPECT_TRUE(takes({1, 20, 20, 20, 1000})) << op;
    EXPECT_EQ(takes({1, 20, 20, 21, 1000}), is_short) << op;
    EXPECT_TRUE(takes({1, 40, 40, 20, 1001})) << op << ", torn lines";
    EXPECT_EQ(takes({1, 40, 40, 20, 1008}), is_short) << op << ", around the caches";
    EXPECT_FALSE(takes({1, 20, 20, 20, 1700})) << op;
  });
}

// Pixels that begin at the same place of a page, by short vectors.
TEST(PixelsOfFewTerms, TakesCrowdedPixelsOneByOne) {
  const auto calls = [](const Pixels& pixels, const KernelTable& kernels) {
    const Problem problem = ProblemOf("conv2d", pixels);
    for (const Algorithm& algorithm : AlgorithmsOf(problem.op)) {
      if (std::string(algorithm.name) != "few-terms") continue;
      return algorithm.plan(problem, kernels, 1)->CountWork().Of(WorkKind::kCall);
    }
    return 0.0;
  };
  for (const KernelTable& kernels : SupportedKernels()) {
    if (kernels.isa == Isa::kScalar) continue;
    const bool is_short = kernels.vector_bytes < 64;
    EXPECT_EQ(calls({1, 20, 20, 8, 512}, kernels) == 400, is_short) << kernels.vector_bytes;
    EXPECT_EQ(calls({1, 20, 20, 8, 1024}, kernels) == 400, is_short);
    EXPECT_LT(calls({1, 20, 20, 8, 528}, kernels), 20);
  }
}

// A strip's results have 128 KiB at most.
TEST(PixelsOfFewTerms, CopiesStripsOfLargeResultsInTornLines) {
  const auto tiles = [](const Pixels& pixels, const KernelTable& kernels) -> std::string {
    const Problem problem = ProblemOf("conv2d", pixels);
    for (const Algorithm& algorithm : AlgorithmsOf(problem.op)) {
      if (std::string(algorithm.name) == "few-terms") {
        return algorithm.plan(problem, kernels, 1)->Tiles();
      }
    }
    return "";
  };
  for (KernelTable kernels : SupportedKernels()) {
    if (kernels.isa == Isa::kScalar) continue;
    kernels.last_cache_bytes = int64_t{12} << 20;
    EXPECT_TRUE(tiles({1, 251, 250, 5, 51}, kernels).ends_with(", copied"));
    EXPECT_FALSE(tiles({1, 245, 250, 5, 51}, kernels).ends_with(", copied")) << "below 12 MiB";
    EXPECT_FALSE(tiles({1, 251, 250, 5, 64}, kernels).ends_with(", copied")) << "whole lines";
    const std::string of_many = tiles({1, 251, 250, 4, 264}, kernels);  // whole tiles of pixels
    const int pixels = std::stoi(of_many.substr(of_many.find("1x") + 2));
    EXPECT_GE(pixels, 125) << of_many;
    EXPECT_LT(pixels, 150) << of_many;
  }
}

TEST(PixelsOfFewTerms, ChosenForPixelsOfFewTerms) {
  if (SupportedKernels().front().isa != Isa::kAvx2) GTEST_SKIP() << "as coefficients are fitted";
  for (const char* op : {"conv2d", "conv2d_backprop_input"}) {
    const auto chosen = [&](const Pixels& pixels) {
      return PlanRun(ProblemOf(op, pixels), {}).algorithm;
    };
    EXPECT_EQ(chosen({1, 56, 56, 3, 128}), "few-terms") << op;
    EXPECT_EQ(chosen({4, 28, 28, 8, 240}), "few-terms") << op;
    EXPECT_NE(chosen({4, 28, 28, 96, 96}), "few-terms") << op;
  }
  EXPECT_EQ(PlanRun(ProblemOf("conv2d", Pixels{2, 28, 28, 8, 240, 2}), {}).algorithm, "few-terms");
}

}  // namespace
}  // namespace convgrad::testing
