// Checks of one shape or one sizes vector by itself, before it is compared with others.
#pragma once

#include <cstdint>

#include "problem/geometry.h"

namespace convgrad {

// The dimensions of an image tensor, whatever its layout.
struct ImageSizes {
  int64_t batch, h, w, c;
};
ImageSizes ImageSizesOf(const Shape& shape, DataFormat format);
Shape ToShape(const ImageSizes& sizes, DataFormat format);

// 4 dimensions and not too large; throws data.
void CheckShape(const char* name, const Shape& shape);

// The same for a sizes vector that names a shape: usage when inline, data when from a file. The
// short form has 2 values, height and width.
enum class ShortForm { kRefused, kAllowed };
void CheckSizes(const char* name, const Sizes& sizes, ShortForm short_form);

}  // namespace convgrad
