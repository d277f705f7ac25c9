// Shapes of tensors whose strides tell in which order their dimensions lie. Dimensions are those of
// NCHW and OIHW whatever the order; a 1-D convolution has three.
#pragma once

#include <cstdint>
#include <vector>

#include "cli/dialects/logged_conv.h"

namespace convgrad::cli {

struct StridedShape {
  std::vector<int64_t> sizes, strides;  // no strides: in the order of the sizes

  // True if the second dimension, of channels, lies innermost.
  bool HasChannelsLast() const;
};

// Sets batch, channels, sizes of images and of the filter, and the formats; no groups. Throws
// Refusal, for three spatial dimensions too.
void SetShapes(const StridedShape& input, const StridedShape& filter, LoggedConv& conv);

// One number for each spatial dimension, or one for both. `name` as the refusal calls them.
struct SpatialPair {
  int64_t h, w;
};
SpatialPair ToPair(const std::vector<int64_t>& numbers, size_t spatial, int64_t of_height_one,
                   const char* name);

}  // namespace convgrad::cli
