// conv2d's forward and input gradient: every type and layout.
#pragma once

#include "conv/plan/algorithm.h"

namespace convgrad {

extern const Algorithm kConv2DImageLanes;
extern const Algorithm kConv2DPixelLanes;
extern const Algorithm kConv2DChannelLanes;

}  // namespace convgrad
