// Tells a computation with fewer taps where it can: a convolution whose windows neither meet nor
// leave gaps, such as a patch embedding or a filter as large as the map, is a product of matrices,
// and its tensors already lie like those. No number moves, no sum changes its order.
#pragma once

#include "problem/geometry.h"

namespace convgrad {

// A problem of the same operation on the same memory, with the same bits of every element (canon-1
// cuts its sums alike), where
//   - layouts that differ in name only are NHWC: tensors of one pixel or of one channel;
//   - the columns of windows side by side are channels of one pixel: [h, w, kw * c] of [h, w * kw,
//     c], and rows likewise where input and filter then have one column.
// The problem itself where none of this can be said.
Problem Flattened(const Problem& problem);

// True of a filter of one tap that meets every pixel where it is.
inline bool KeepsPixels(const ConvGeometry& g) {
  return g.kernel_h * g.kernel_w == 1 && g.in_h == g.out_h && g.in_w == g.out_w &&
         g.stride_h == 1 && g.stride_w == 1 && g.pad_top == 0 && g.pad_left == 0;
}

// Returns the same operation with windows side by side as pixels of many channels, [kernel_h,
// kernel_w, channels of the group]: its filter, output and out_backprop lie as they do, its input
// once it is moved (space to depth). It returns the problem itself where windows meet, leave gaps
// or meet padding, or canon-1 would cut sums otherwise.
Problem WithWindowsAsPixels(const Problem& problem);

}  // namespace convgrad
