// conv2d's forward and input gradient of many small groups.
#pragma once

#include "conv/plan/algorithm.h"

namespace convgrad {

extern const Algorithm kConv2DGroupLanes;

}  // namespace convgrad
