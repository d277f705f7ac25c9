// conv2d's forward and input gradient with lanes along images, or bands of their rows: for groups
// with few or odd numbers of channels.
#pragma once

#include "conv/plan/algorithm.h"

namespace convgrad {

extern const Algorithm kConv2DImageLanes;

}  // namespace convgrad
