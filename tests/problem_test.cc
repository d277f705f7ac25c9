#include <gtest/gtest.h>

#include <algorithm>

#include "base/checked.h"
#include "conv/geometry.h"
#include "random_problem.h"

namespace convgrad {
namespace {

TEST(Problem, ReadsBackItsLine) {
  RandomProblems problems(1);
  for (int i = 0; i < 2'000; ++i) {
    const Problem problem = problems.Next();
    const Problem again = ParseProblem(problem.ToLine());
    ASSERT_EQ(again.ToLine(), problem.ToLine());
    ASSERT_EQ(again.ResultShape(), problem.ResultShape()) << problem.ToLine();
    ASSERT_EQ(again.ValidTerms(), problem.ValidTerms()) << problem.ToLine();
  }
}

// Every (output, tap) pair that falls on the input, by definition.
int64_t PairsByDefinition(const Problem& problem) {
  const ConvGeometry& g = problem.geometry;
  int64_t pairs = 0;
  for (int64_t i = 0; i < g.out_h; ++i) {
    for (int64_t j = 0; j < g.out_w; ++j) {
      const TapRange rows = ValidTaps(i, g.stride_h, g.dilation_h, g.pad_top, g.kernel_h, g.in_h);
      const TapRange cols = ValidTaps(j, g.stride_w, g.dilation_w, g.pad_left, g.kernel_w, g.in_w);
      pairs += (rows.last - rows.first) * (cols.last - cols.first);
    }
  }
  return pairs;
}

TEST(Problem, CountsItsTerms) {
  RandomProblems problems(2);
  for (int i = 0; i < 500; ++i) {
    const Problem problem = problems.Next();
    const ConvGeometry& g = problem.geometry;
    EXPECT_EQ(problem.ValidTerms(),
              g.in_c == 0 ? 0 : PairsByDefinition(problem) * g.batch * g.out_c * g.group_in_c)
        << problem.ToLine();
    EXPECT_EQ(problem.Flops(), 2 * problem.ValidTerms());
    // No element has more than the largest, so the result can't have fewer elements than this.
    EXPECT_LE(problem.ValidTerms(), problem.MaxTerms() * *CheckedProduct(problem.ResultShape()))
        << problem.ToLine();
  }
}

TEST(RandomProblems, AreTheSameForASeedAndCoverEverything) {
  RandomProblems first(7), second(7), other(8);
  bool seen_op[6] = {}, seen_empty = false, seen_groups = false, differ = false;
  for (int i = 0; i < 1'000; ++i) {
    const Problem problem = first.Next();
    ASSERT_EQ(problem.ToLine(), second.Next().ToLine());
    differ |= problem.ToLine() != other.Next().ToLine();
    seen_op[static_cast<int>(problem.op)] = true;
    seen_empty |= problem.ResultBytes() == 0;
    seen_groups |= !InfoOf(problem.op).depthwise && problem.geometry.groups > 1;
  }
  EXPECT_TRUE(std::ranges::all_of(seen_op, [](bool seen) { return seen; }));
  EXPECT_TRUE(differ && seen_empty && seen_groups);
}

TEST(ReproLine, IsACommandThatRunsTheProblem) {
  const Problem problem = ParseProblem(
      "depthwise_conv2d_backprop_filter float32 NHWC in=8,56,55,32 filter=3,3,32,2 strides=1,2 "
      "dilations=1,1 pads=1,1,1,1 padding=EXPLICIT");
  EXPECT_EQ(ReproLine(problem),
            "convgrad check depthwise_conv2d_backprop_filter --input fill:integer@8,56,55,32 "
            "--out-backprop fill:integer@8,56,28,64 --filter-sizes 3,3,32,2 --strides 1,2 "
            "--dilations 1,1 --padding EXPLICIT --explicit-paddings 1,1,1,1 --data-format NHWC "
            "--dtype float32");
}

}  // namespace
}  // namespace convgrad
