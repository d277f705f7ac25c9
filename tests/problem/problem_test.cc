#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>

#include "base/checked.h"
#include "base/error.h"
#include "problem/geometry.h"
#include "support/random_problem.h"

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
      const Range rows = ValidTaps(i, g.stride_h, g.dilation_h, g.pad_top, g.kernel_h, g.in_h);
      const Range cols = ValidTaps(j, g.stride_w, g.dilation_w, g.pad_left, g.kernel_w, g.in_w);
      pairs += rows.size() * cols.size();
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
    EXPECT_LE(problem.ValidTerms(), problem.MaxTerms() * problem.NumResults()) << problem.ToLine();
  }
}

// The largest numbers of products, along one dimension, of one output, one tap and one input
// position.
struct Most {
  int64_t of_output = 0, of_tap = 0, of_input = 0;
};

Most MostByDefinition(int64_t in, int64_t out, int64_t kernel, int64_t stride, int64_t dilation,
                      int64_t pad) {
  std::map<int64_t, int64_t> outputs, taps, inputs;
  for (int64_t pos = 0; pos < out; ++pos) {
    for (int64_t k = 0; k < kernel; ++k) {
      const int64_t x = pos * stride + k * dilation - pad;
      if (x < 0 || x >= in) continue;
      ++outputs[pos];
      ++taps[k];
      ++inputs[x];
    }
  }
  const auto most = [](const std::map<int64_t, int64_t>& counts) {
    int64_t largest = 0;
    for (const auto& [position, count] : counts) largest = std::max(largest, count);
    return largest;
  };
  return {most(outputs), most(taps), most(inputs)};
}

int64_t MaxTermsByDefinition(const Problem& problem) {
  const ConvGeometry& g = problem.geometry;
  const Most rows =
      MostByDefinition(g.in_h, g.out_h, g.kernel_h, g.stride_h, g.dilation_h, g.pad_top);
  const Most cols =
      MostByDefinition(g.in_w, g.out_w, g.kernel_w, g.stride_w, g.dilation_w, g.pad_left);
  switch (InfoOf(problem.op).direction) {
    case Direction::kForward: return rows.of_output * cols.of_output * g.group_in_c;
    case Direction::kBackpropInput: return rows.of_input * cols.of_input * g.group_out_c;
    default: return rows.of_tap * cols.of_tap * g.batch;
  }
}

TEST(Problem, KnowsItsLongestSum) {
  RandomProblems problems(3);
  for (int i = 0; i < 2'000; ++i) {
    const Problem problem = problems.Next();
    const int64_t expected = problem.ValidTerms() == 0 ? 0 : MaxTermsByDefinition(problem);
    ASSERT_EQ(problem.MaxTerms(), expected) << problem.ToLine();
  }
}

TEST(ParseProblem, RefusesWhatIsNoProblem) {
  const std::string good =
      "conv2d float32 NHWC in=1,5,5,2 filter=3,3,2,4 strides=1,1 dilations=1,1 pads=1,1,1,1 "
      "padding=SAME";
  ASSERT_EQ(ParseProblem(good).ToLine(), good);
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string line = good;
    return line.replace(line.find(from), from.size(), to);
  };
  for (const std::string& line :
       {std::string(), std::string("conv2d"), with("conv2d", "conv3d"), with("float32", "int32"),
        with("float32", "float"), with("NHWC", "HWCN"), with("in=", "input="),
        with("1,5,5,2", "1,5,5"), with("1,5,5,2", "1,5,5,2,"), with("1,5,5,2", "1,5,,2"),
        with("1,5,5,2", "1,5,5,x"), with("1,5,5,2", "99999999999999999999,5,5,2"),
        with("1,5,5,2", "1,5,5,3"), with("strides=1,1", "strides=0,1"),
        with("pads=1,1,1,1", "pads=1,1,0,1"), with("SAME", "same"), with(" padding=SAME", ""),
        good + " padding=SAME", good + " more"}) {
    EXPECT_THROW(ParseProblem(line), Error) << line;
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
