// Rough counts of the cycles that a forward convolution or an input gradient takes with its lanes
// along images, pixels or channels, by which one of them is chosen.
#pragma once

#include "kernels/kernel_table.h"
#include "problem/geometry.h"

namespace convgrad {

// The algorithms "image-lanes", "pixel-lanes" and "channel-lanes".
enum class LanesForm { kImages, kPixels, kChannels };

// For one thread, of a problem that the form's algorithm accepts; `in_pairs`: of numbers of
// bfloat16.
double CyclesOf(const Problem& problem, const KernelTable& kernels, LanesForm form, bool in_pairs);

}  // namespace convgrad
