// conv2d's forward and input gradient with lanes along the result's channels: right whenever a
// group has enough of those.
#pragma once

#include "conv/plan/algorithm.h"

namespace convgrad {

extern const Algorithm kConv2DChannelLanes;

}  // namespace convgrad
