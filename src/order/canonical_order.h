// The canonical order "canon-1": which terms make up an element of the result and in which
// expression tree they are added. A function of the mathematical problem alone; every algorithm and
// the reference follow it. docs/design/order.md gives the reasons.
#pragma once

#include <cstdint>
#include <vector>

#include "order/two_sum.h"
#include "problem/geometry.h"

namespace convgrad {

inline constexpr const char* kAlgo = "canon-1";

// A block is one chain of fused multiply-adds in the compute type, from +0; no chain is longer.
inline constexpr int64_t kBlockTerms = 256;
// Filter gradients: this many consecutive blocks make a run.
inline constexpr int64_t kRunBlocks = 16;

// True if the terms of a chain are taken two at a time, the second one first: bfloat16 where a
// group has more than one input channel, so that an instruction which adds two products in this
// order (vdpbf16ps) can follow the chain. Forward and input gradient pair the channels 2i and 2i +
// 1 of a tap, filter gradients the output columns 2i and 2i + 1 of a block's row; a term without
// its partner stands alone.
bool TermsInPairs(const Problem& problem);

// Forward and input gradient. The reduction of one element runs over taps, and inside a tap over
// channels (of the group). A block is a run of whole taps or, when a tap has more than kBlockTerms
// channels, a part of one tap's channels. Taps count whether or not they fall on the input: an
// absent tap leaves a shorter chain.
//   forward:         taps (kh, kw) ascending, channels of the input ascending
//   input gradient:  taps of the element's stride phase, (kh, kw) descending (so out_backprop
//                    positions ascend), channels of out_backprop ascending
struct TapBlock {
  int64_t tap_begin, tap_end;          // positions in the order above
  int64_t channel_begin, channel_end;  // of every tap of the block
};
// `in_pairs`: a cut never parts a pair.
std::vector<TapBlock> TapBlocks(int64_t num_taps, int64_t num_channels, bool in_pairs = false);

// Filter gradient. The reduction runs over output pixels, images ascending, raster order inside; a
// pixel whose tap is off the input leaves a shorter chain. A block is a rectangle of whole images,
// of rows of one image, or of columns of one row.
struct PixelBlock {
  int64_t image_begin, image_end;
  int64_t row_begin, row_end;
  int64_t col_begin, col_end;

  bool operator==(const PixelBlock&) const = default;
  int64_t num_pixels() const {
    return (image_end - image_begin) * (row_end - row_begin) * (col_end - col_begin);
  }
};
std::vector<PixelBlock> PixelBlocks(int64_t batch, int64_t out_h, int64_t out_w,
                                    bool in_pairs = false);

// The list that PixelBlocks makes, an element at a time: there may be millions.
class PixelBlockGrid {
 public:
  PixelBlockGrid(int64_t batch, int64_t out_h, int64_t out_w, bool in_pairs = false);

  // Blocks of an image; 1 where blocks are of several images.
  int64_t of_image() const { return (std::ssize(rows_) - 1) * (std::ssize(cols_) - 1); }
  int64_t size() const;
  PixelBlock operator[](int64_t index) const;

 private:
  int64_t batch_, images_ = 1;                    // of all blocks, of one
  std::vector<int64_t> rows_{0, 0}, cols_{0, 0};  // of an image: where its parts begin, and the end
};

// The taps k of one dimension that reach the input position `pos` from an output position that
// exists for some input size: (pos + pad - k * dilation) divisible by stride. Descending. They
// depend only on (pos + pad) % stride: the stride phase.
std::vector<int64_t> PhaseTaps(int64_t phase, int64_t stride, int64_t dilation, int64_t kernel);

// How block sums are combined. float chains (also for 16-bit types): each block's sum is added in
// order, in double, to a run's sum that starts from +0, run sums likewise to the total, which is
// rounded once. double chains: the same with compensated pairs. Forward and input gradient have one
// run only.
class FoldFloat {
 public:
  void AddBlock(float sum) { run_ += static_cast<double>(sum); }
  void EndRun() {
    total_ += run_;
    run_ = 0;
  }
  double Result() const { return total_; }  // after EndRun

 private:
  double run_ = 0;
  double total_ = 0;
};

class FoldDouble {
 public:
  void AddBlock(double sum) { Add(run_, sum); }
  void EndRun() {
    Add(total_, run_.sum);
    total_.error += run_.error;
    run_ = {};
  }
  // An infinite or NaN sum is the result; its error term means nothing then.
  double Result() const {
    const bool finite = total_.sum - total_.sum == 0;
    return finite ? total_.sum + total_.error : total_.sum;
  }

 private:
  struct Pair {
    double sum = 0;
    double error = 0;
  };
  static void Add(Pair& pair, double term) {
    const TwoSum next(pair.sum, term);
    pair.error += next.lost;
    pair.sum = next.sum;
  }
  Pair run_, total_;
};

}  // namespace convgrad
