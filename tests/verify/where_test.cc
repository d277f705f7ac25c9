// Where bad elements sit, in words and as a picture.
#include "verify/where/where.h"

#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <string>

#include "problem/geometry.h"
#include "verify/where/heat_map.h"

namespace convgrad {
namespace {

std::string Where(const Problem& problem, const std::function<bool(const Shape&)>& is_bad) {
  const Layout layout(problem);
  Whereabouts first, second;
  const int64_t num_elements = Tensor(problem.dtype, problem.ResultShape()).num_elements();
  for (int64_t i = 0; i < num_elements; ++i) {
    if (is_bad(layout.IndexOf(i))) (i % 2 == 0 ? first : second).Add(layout, i);
  }
  first.Join(second);
  return first.Describe(layout);
}

Problem DataResult(Op op) {
  ConvSpec spec;
  spec.op = Op::kConv2D;
  spec.input = Shape{3, 8, 9, 19};
  spec.filter = Shape{3, 3, 19, 19};
  Problem problem = MakeProblem(spec);
  problem.op = op;
  return problem;
}

TEST(Where, NamesThePlaceInAnOutput) {
  for (const Op op : {Op::kConv2D, Op::kConv2DBackpropInput}) {
    const Problem problem = DataResult(op);
    const auto where = [&](const auto& is_bad) { return Where(problem, is_bad); };
    EXPECT_EQ(where([](const Shape&) { return false; }), "");
    EXPECT_EQ(where([](const Shape&) { return true; }), "everywhere");
    EXPECT_EQ(where([](const Shape& at) {
                return at == Shape{1, 2, 3, 4};
              }),
              "one element [1,2,3,4]");
    EXPECT_EQ(where([](const Shape& at) {
                return at == Shape{1, 0, 3, 4};
              }),
              "one element [1,0,3,4] at the border");
    EXPECT_EQ(where([](const Shape& at) { return at[1] == 0 || at[2] == 8; }), "border");
    EXPECT_EQ(where([](const Shape& at) { return at[0] == 2; }), "one image (2)");
    EXPECT_EQ(where([](const Shape& at) { return at[2] == 8; }), "border, one column (8)");
    EXPECT_EQ(where([](const Shape& at) { return at[3] >= 16; }), "channel tail (from 16 of 19)");
    EXPECT_EQ(where([](const Shape& at) { return at[3] == 5; }), "one channel (5)");
    EXPECT_EQ(where([](const Shape& at) { return (at[1] + at[2] + at[3]) % 7 == 0; }), "scattered");
    EXPECT_EQ(where([](const Shape& at) { return (at[1] + at[2]) % 7 == 3 && at[3] % 15 == 1; }),
              "scattered in channels 1..16 of 19");
    EXPECT_EQ(where([](const Shape& at) { return at[3] >= 17; }), "channels 17..18 of 19");
  }
}

TEST(Where, NamesBlocksAndBoxes) {
  ConvSpec spec;
  spec.op = Op::kConv2D;
  spec.input = Shape{2, 8, 9, 4};
  spec.filter = Shape{3, 3, 4, 128};
  const Problem problem = MakeProblem(spec);
  EXPECT_EQ(Where(problem, [](const Shape& at) { return at[3] / 16 == 2; }),
            "one block of 16 channels (32..47)");
  EXPECT_EQ(Where(problem, [](const Shape& at) { return at[3] / 64 == 0; }),
            "one block of 64 channels (0..63)");
  EXPECT_EQ(
      Where(problem, [](const Shape& at) { return at[1] / 4 == 1 && at[2] > 2 && at[2] < 6; }),
      "rows 4..7 of 8, columns 3..5 of 9");
  // Numbers near zero hide in tolerances.
  EXPECT_EQ(Where(problem, [](const Shape& at) { return at[1] > 5 && at[3] % 16 != at[2]; }),
            "nearly all of rows 6..7 of 8");
  EXPECT_EQ(Where(problem,
                  [](const Shape& at) {
                    return at[0] == 1 && at[3] == 9 && at[1] == 2 && at[2] % 4 == 0;
                  }),
            "one image (1), one row (2), every 4th column (from 0), one channel (9)");
  EXPECT_EQ(Where(problem,
                  [](const Shape& at) {
                    return at[0] == 1 && at[3] == 9 && at[1] / 2 == 1 && at[2] / 2 == 1 &&
                           at[1] + at[2] != 6;
                  }),
            "scattered in one image (1), rows 2..3 of 8, columns 2..3 of 9, one channel (9)");
  // Within a block, but not all of it.
  EXPECT_EQ(Where(problem, [](const Shape& at) { return at[3] >= 3 && at[3] <= 5; }),
            "channels 3..5 of 128");
}

TEST(Where, NamesWhatComesAgain) {
  ConvSpec spec;
  spec.op = Op::kConv2D;
  spec.input = Shape{4, 9, 12, 4};
  spec.filter = Shape{1, 1, 4, 64};
  const Problem problem = MakeProblem(spec);
  const auto where = [&](const auto& is_bad) { return Where(problem, is_bad); };
  EXPECT_EQ(where([](const Shape& at) { return at[1] % 2 == 1; }), "every 2nd row (from 1)");
  EXPECT_EQ(where([](const Shape& at) { return at[2] % 3 == 0 && (at[1] + at[3]) % 3 == 1; }),
            "scattered in every 3rd column (from 0)");
  EXPECT_EQ(where([](const Shape& at) { return at[3] % 16 >= 13; }), "channels 13..15 of every 16");
  EXPECT_EQ(where([](const Shape& at) { return at[3] % 8 == 1 || at[3] % 8 == 6; }),
            "channels 1, 6 of every 8");
  EXPECT_EQ(where([](const Shape& at) { return at[3] % 4 == 0 && at[3] >= 16 && at[3] < 40; }),
            "every 4th channel (16 to 36)");
  // Twice is no rule.
  EXPECT_EQ(where([](const Shape& at) { return at[0] == 0 || at[0] == 2; }),
            "scattered in images 0..2 of 4");
}

TEST(Where, IsDataToo) {
  ConvSpec spec;
  spec.op = Op::kConv2D;
  spec.input = Shape{2, 9, 12, 4};
  spec.filter = Shape{1, 1, 4, 24};
  const Layout layout(MakeProblem(spec));
  Whereabouts bad;
  EXPECT_TRUE(bad.LeastBox(layout).axes.empty());
  for (int64_t i = 0; i < 2 * 9 * 12 * 24; ++i) {
    const Shape at = layout.IndexOf(i);
    if (at[1] % 2 == 1 && at[3] >= 3 && at[3] <= 5) bad.Add(layout, i);
  }
  const Box box = bad.LeastBox(layout);
  ASSERT_EQ(box.axes.size(), 4u);
  EXPECT_TRUE(box.is_filled);
  EXPECT_TRUE(box.axes[0].IsWhole());
  EXPECT_EQ(box.axes[1].axis, "row");
  EXPECT_EQ(box.axes[1].period, 2);
  EXPECT_EQ(box.axes[1].of_period, std::vector<int64_t>{1});
  EXPECT_EQ(box.axes[3].axis, "channel");
  EXPECT_EQ(box.axes[3].first, 3);
  EXPECT_EQ(box.axes[3].last, 5);
  EXPECT_EQ(box.axes[3].size, 24);
}

TEST(Picture, ShowsTheTwoAxesThatTellMost) {
  const Layout layout(DataResult(Op::kConv2D));  // 3 images of 8x9, 19 channels
  Whereabouts border, everywhere, one;
  for (int64_t i = 0; i < 3 * 8 * 9 * 19; ++i) {
    const Shape at = layout.IndexOf(i);
    if (at[1] == 0 || at[2] == 8) border.Add(layout, i);
    everywhere.Add(layout, i);
    if (i == 5) one.Add(layout, i);
  }
  const std::optional<HeatMap> picture = border.Picture(layout);
  ASSERT_TRUE(picture.has_value());
  EXPECT_EQ(picture->down, "row");
  EXPECT_EQ(picture->across, "column");
  ASSERT_EQ(picture->shares.size(), 8u);
  for (size_t row = 0; row < 8; ++row) {
    ASSERT_EQ(picture->shares[row].size(), 9u);
    for (size_t col = 0; col < 9; ++col) {
      EXPECT_EQ(picture->shares[row][col], row == 0 || col == 8 ? 1 : 0);
    }
  }
  EXPECT_FALSE(everywhere.Picture(layout).has_value());
  EXPECT_FALSE(one.Picture(layout).has_value());
}

TEST(Picture, ShowsAPatchInOneImageAndChannel) {
  const Layout layout(DataResult(Op::kConv2D));
  const auto in_patch = [](int64_t row, int64_t col) { return row / 2 == 2 && col > 1 && col < 6; };
  Whereabouts patch;
  for (int64_t i = 0; i < 3 * 8 * 9 * 19; ++i) {
    const Shape at = layout.IndexOf(i);
    if (at[0] == 1 && at[3] == 7 && in_patch(at[1], at[2])) patch.Add(layout, i);
  }
  const std::optional<HeatMap> picture = patch.Picture(layout);
  ASSERT_TRUE(picture.has_value());
  EXPECT_EQ(picture->down, "row");
  EXPECT_EQ(picture->across, "column");
  for (int64_t row = 0; row < 8; ++row) {
    for (int64_t col = 0; col < 9; ++col) {
      const double share = picture->shares[static_cast<size_t>(row)][static_cast<size_t>(col)];
      EXPECT_EQ(share, in_patch(row, col) ? 1 : 0) << row << ", " << col;
    }
  }
}

TEST(Picture, IsSmallForLargeTensorsAndCountsShares) {
  const Layout layout(Shape{1000, 999});
  Whereabouts even;
  for (int64_t i = 0; i < 1000 * 999; i += 2) {
    if (layout.IndexOf(i)[0] < 500) even.Add(layout, i);
  }
  const std::optional<HeatMap> picture = even.Picture(layout);
  ASSERT_TRUE(picture.has_value());
  EXPECT_EQ(picture->shares.size(), 16u);
  EXPECT_EQ(picture->shares[0].size(), 40u);
  EXPECT_NEAR(picture->shares[0][7], 0.5, 0.02);
  EXPECT_EQ(picture->shares[15][7], 0);
}

TEST(Where, NamesTheTapOfAFilter) {
  const Problem problem = DataResult(Op::kConv2DBackpropFilter);
  EXPECT_EQ(Where(problem, [](const Shape& at) { return at[0] == 1 && at[1] == 2; }),
            "one tap (row 1, column 2)");
  EXPECT_EQ(Where(problem, [](const Shape& at) { return at[0] == 1; }), "one kernel row (1)");
  EXPECT_EQ(Where(problem, [](const Shape& at) { return at[2] == 3 && at[3] >= 16; }),
            "one input channel (3), channel tail (from 16 of 19)");
}

}  // namespace
}  // namespace convgrad
