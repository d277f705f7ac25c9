// conv2d's filter gradients. All forms follow one canonical order; they differ in what the rows,
// columns and lanes of a tile are.
#pragma once

#include "conv/plan/algorithm.h"

namespace convgrad {

// Rows are input channels of one tap; padding is skipped.
extern const Algorithm kConv2DFilterTapsApart;
// Rows are channels of all taps, for few input channels; padding is multiplied as zeros, and the
// data are refused if that could show (an infinity or a NaN among them).
extern const Algorithm kConv2DFilterTapsJoined;

// Rows are output channels, for those that leave many lanes empty; columns are input channels of
// one tap, or, where they are few, of all taps with padding multiplied as above.
extern const Algorithm kConv2DFilterInputLanes;
extern const Algorithm kConv2DFilterInputLanesJoined;

// One row of taps at a time, for few input channels; padding is skipped.
extern const Algorithm kConv2DFilterTapRows;

// Planes times planes, of 1x1 filters in NCHW that keep pixels where they are.
extern const Algorithm kConv2DFilterPlaneSquares;
extern const Algorithm kConv2DFilterFewChannels;

// Lanes run along blocks of the canonical order, for few channels or groups of few, also of
// depthwise convolutions; padding is multiplied as above.
extern const Algorithm kFilterBlockLanes;

}  // namespace convgrad
