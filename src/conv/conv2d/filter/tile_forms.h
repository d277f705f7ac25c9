// conv2d's filter gradient. All forms follow one canonical order; they differ in what the rows and
// columns of a tile are.
#pragma once

#include "conv/plan/algorithm.h"

namespace convgrad {

// Rows are input channels of one tap; padding is skipped.
extern const Algorithm kConv2DFilterTapsApart;
// Rows are channels of all taps, for few input channels; padding is multiplied as zeros, and the
// other form takes over if that could show (an infinity or a NaN in the data).
extern const Algorithm kConv2DFilterTapsJoined;

// Rows are output channels, columns input channels, of one tap or, where they are few, of all taps
// with padding multiplied as above: for output channels that leave many lanes empty.
extern const Algorithm kConv2DFilterInputLanes;

// A rough count of the cycles of the quickest of these, for a problem with terms.
double LeastCyclesByChannels(const Problem& problem, const KernelTable& kernels);

}  // namespace convgrad
