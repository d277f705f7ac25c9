// Slabs of a tensor: that they are balanced and miss nothing, and what is said of those alike.
#include "conv/axes/slab.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <utility>

#include "support/draw.h"

namespace convgrad::testing {
namespace {

using Kind = std::pair<int64_t, std::pair<int64_t, int64_t>>;  // images, and which rows

Kind KindOf(const Slab& slab) {
  return {slab.num_images(), {slab.row_begin, slab.row_end}};
}

TEST(SlabCuts, HaveEachRowOnceInOrder) {
  Draw draw(7);
  for (int round = 0; round < 3000; ++round) {
    const int64_t first_image = draw(0, 3), first_row = draw(0, 3);
    const Slab whole{first_image, first_image + draw(1, 20), first_row, first_row + draw(1, 30)};
    const int64_t width = draw(1, 9), most = draw(0, 2000), multiple = draw(1, 5);
    const SlabCuts cuts(whole, width, most, multiple);
    ASSERT_GT(cuts.size(), 0);
    int64_t image = whole.image_begin, row = whole.row_begin;
    std::map<Kind, int64_t> kinds;
    for (int64_t i = 0; i < cuts.size(); ++i) {
      const Slab slab = cuts[i];
      ASSERT_EQ(slab.image_begin, image);
      ASSERT_EQ(slab.row_begin, row);
      ASSERT_GT(slab.num_images(), 0);
      ASSERT_GT(slab.num_rows(), 0);
      ASSERT_TRUE(slab.num_images() == 1 || slab.num_rows() == whole.num_rows());
      const int64_t rows = slab.num_images() * slab.num_rows();
      ASSERT_TRUE(rows == 1 || rows * width <= most);
      row = slab.row_end == whole.row_end ? whole.row_begin : slab.row_end;
      if (row == whole.row_begin) image = slab.image_end;
      ++kinds[KindOf(slab)];
    }
    EXPECT_EQ(image, whole.image_end);
    cuts.ForEachKind([&](const Slab& slab, int64_t count) {
      EXPECT_EQ(kinds[KindOf(slab)], count);
      kinds.erase(KindOf(slab));
    });
    EXPECT_TRUE(kinds.empty());
  }
}

// Without a list of them.
TEST(SlabCuts, OfHugeTensorsAreCutAtOnce) {
  const SlabCuts cuts({0, int64_t{1} << 40, 0, 1000}, 1000, 16384);
  EXPECT_EQ(cuts.size(), (int64_t{1} << 40) * 63);
  int64_t images = 0, kinds = 0;
  cuts.ForEachKind([&](const Slab& slab, int64_t count) {
    images += count * slab.num_images();
    ++kinds;
  });
  EXPECT_EQ(kinds, 63);
  EXPECT_EQ(images, cuts.size());
}

}  // namespace
}  // namespace convgrad::testing
