// conv2d's forward and input gradient with lanes along pixels: for results with few channels, and
// for planes (NCHW) with a 1x1 filter.
#pragma once

#include "conv/plan/algorithm.h"

namespace convgrad {

extern const Algorithm kConv2DPixelLanes;

}  // namespace convgrad
