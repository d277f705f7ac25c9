// TensorFlow's window arithmetic for one spatial dimension, in 64 bits. Sizes, strides, dilations
// and explicit pads are at most kMaxDimension, checked by the caller; then nothing here overflows.
// Must not know tensors, layouts or error texts.
#pragma once

#include <cstdint>

#include "problem/geometry.h"

namespace convgrad {

// An output size follows from these. `pad_before` and `pad_after` count for explicit padding only.
struct Window {
  int64_t in, kernel, stride, dilation;
  Padding padding;
  int64_t pad_before = 0, pad_after = 0;
};

// Size of the filter with its gaps. 1 - dilation, not positive, for a filter without taps.
int64_t EffectiveKernel(int64_t kernel, int64_t dilation);

// The size of the output and the pads that lead to it. SAME puts an odd pad behind. The division
// truncates, so a filter up to 2 * stride - 1 too large gives 0; `out` is negative beyond that.
struct WindowFit {
  int64_t out, pad_before, pad_after;
};
WindowFit FitWindow(const Window& window);

// The input sizes for which `out` >= 1 is the size of the output: first <= in <= last. Empty when
// last < first. `window.in` plays no part.
struct SizeRange {
  int64_t first, last;
};
SizeRange InputSizesFor(int64_t out, const Window& window);

// One dimension of a legal convolution. An (output position, tap) pair is valid when it falls on an
// input position: 0 <= pos * stride + k * dilation - pad < in.
struct SpatialAxis {
  int64_t in, out, kernel, stride, dilation, pad;

  // All counts in a number of steps that is logarithmic in the sizes.
  int64_t ValidPairs() const;
  int64_t MaxTapsOfOutput() const;  // most valid taps of one output position
  int64_t MaxOutputsOfTap() const;  // most valid output positions of one tap
  int64_t MaxPairsOfInput() const;  // most pairs that fall on one input position
};

}  // namespace convgrad
