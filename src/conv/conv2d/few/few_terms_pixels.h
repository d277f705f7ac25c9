// The plan of few-terms and im2col in NHWC: rows of the product are pixels, columns channels of the
// result.
#pragma once

#include <memory>

#include "conv/plan/plan.h"

namespace convgrad {

// True if each pixel of the result meets one of the source, all channels are one group's, and the
// terms are few enough; `problem` has terms and is one that TapSum describes.
bool CanTakeFewTermsOfPixels(const Problem& problem, const KernelTable& kernels);

// True if each pixel of the result meets a window of the source that has no gaps, all channels are
// one group's, the terms are one block, and vectors shorter than a line; of such a problem, too.
bool CanTakeWindowsOfPixels(const Problem& problem, const KernelTable& kernels);

std::unique_ptr<Plan> PlanFewTermsOfPixels(const Problem& problem, const KernelTable& kernels,
                                           int num_threads);

}  // namespace convgrad
