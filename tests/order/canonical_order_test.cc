// The canonical order covers every term once, in order, in chains that are short enough.
#include "order/canonical_order.h"

#include <gtest/gtest.h>

#include <cmath>

namespace convgrad {
namespace {

TEST(TapBlocks, CoverEveryTermOnceInOrder) {
  for (int64_t taps : {0, 1, 2, 9, 25, 49, 961, 70000}) {
    for (int64_t channels : {0, 1, 3, 17, 64, 128, 256, 257, 513, 2048}) {
      int64_t next = 0;
      for (const TapBlock& block : TapBlocks(taps, channels)) {
        const int64_t width = block.channel_end - block.channel_begin;
        const int64_t terms = (block.tap_end - block.tap_begin) * width;
        EXPECT_EQ(next, block.tap_begin * channels + block.channel_begin);
        EXPECT_TRUE(width == channels || block.tap_end == block.tap_begin + 1);
        EXPECT_GT(terms, 0);
        EXPECT_LE(terms, kBlockTerms);
        next += terms;
      }
      EXPECT_EQ(next, taps * channels);
    }
  }
}

TEST(TapBlocks, DoNotPartPairs) {
  for (int64_t channels : {257, 258, 511, 512, 513, 1000, 1025, 2048}) {
    int64_t next = 0;
    for (const TapBlock& block : TapBlocks(2, channels, /*in_pairs=*/true)) {
      EXPECT_EQ(block.channel_begin % 2, 0);
      EXPECT_EQ(next, block.tap_begin * channels + block.channel_begin);
      EXPECT_GT(block.channel_end, block.channel_begin);
      EXPECT_LE(block.channel_end - block.channel_begin, kBlockTerms);
      next += block.channel_end - block.channel_begin;
    }
    EXPECT_EQ(next, 2 * channels);
  }
}

TEST(PixelBlocks, DoNotPartPairs) {
  for (int64_t out_w : {257, 511, 512, 514, 1023}) {
    int64_t next = 0;
    for (const PixelBlock& block : PixelBlocks(1, 1, out_w, /*in_pairs=*/true)) {
      EXPECT_EQ(block.col_begin % 2, 0);
      EXPECT_EQ(block.col_begin, next);
      EXPECT_LE(block.col_end - block.col_begin, kBlockTerms);
      next = block.col_end;
    }
    EXPECT_EQ(next, out_w);
  }
}

TEST(PixelBlocks, CoverEveryPixelOnceInRasterOrder) {
  for (int64_t batch : {0, 1, 2, 7}) {
    for (int64_t out_h : {0, 1, 3, 7, 16, 57}) {
      for (int64_t out_w : {0, 1, 5, 16, 256, 257, 600}) {
        int64_t next = 0;
        for (const PixelBlock& b : PixelBlocks(batch, out_h, out_w)) {
          const int64_t pixels =
              (b.image_end - b.image_begin) * (b.row_end - b.row_begin) * (b.col_end - b.col_begin);
          EXPECT_EQ(next, (b.image_begin * out_h + b.row_begin) * out_w + b.col_begin);
          EXPECT_GT(pixels, 0);
          EXPECT_LE(pixels, kBlockTerms);
          next += pixels;
        }
        EXPECT_EQ(next, batch * out_h * out_w);
      }
    }
  }
}

TEST(PhaseTaps, AreDescendingAndReachThePhase) {
  EXPECT_EQ(PhaseTaps(0, 1, 1, 3), (std::vector<int64_t>{2, 1, 0}));
  EXPECT_EQ(PhaseTaps(0, 2, 1, 3), (std::vector<int64_t>{2, 0}));
  EXPECT_EQ(PhaseTaps(1, 2, 1, 3), (std::vector<int64_t>{1}));
  EXPECT_EQ(PhaseTaps(1, 2, 2, 3), (std::vector<int64_t>{}));
}

TEST(PhaseTaps, AreThoseThatTrialFinds) {
  for (int64_t stride = 1; stride <= 12; ++stride) {
    for (int64_t dilation = 1; dilation <= 12; ++dilation) {
      for (int64_t phase = 0; phase < stride; ++phase) {
        std::vector<int64_t> taps;
        for (int64_t k = 14; k >= 0; --k) {
          if ((phase - k * dilation) % stride == 0) taps.push_back(k);
        }
        EXPECT_EQ(PhaseTaps(phase, stride, dilation, 15), taps);
      }
    }
  }
}

TEST(PhaseTaps, AreFoundAtTheLimitsAtOnce) {
  const int64_t stride = kMaxDimension, dilation = kMaxDimension - 1;  // -1 modulo the stride
  EXPECT_EQ(PhaseTaps(stride - 5, stride, dilation, kMaxDimension), (std::vector<int64_t>{5}));
  EXPECT_EQ(PhaseTaps(stride - 5, stride, dilation, 5), (std::vector<int64_t>{}));
}

TEST(Fold, CompensationKeepsWhatASumLoses) {
  FoldDouble fold;
  for (double term : {1.0, 1e-20, -1.0}) fold.AddBlock(term);
  fold.EndRun();
  EXPECT_EQ(fold.Result(), 1e-20);
}

TEST(Fold, InfinityStaysInfinity) {
  FoldDouble fold;
  fold.AddBlock(HUGE_VAL);
  fold.AddBlock(1);
  fold.EndRun();
  fold.AddBlock(2);
  fold.EndRun();
  EXPECT_EQ(fold.Result(), HUGE_VAL);
}

}  // namespace
}  // namespace convgrad
