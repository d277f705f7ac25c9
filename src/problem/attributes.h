// A convolution's attributes in one form: height and width, whatever the layout and however short
// they were given. Refuses illegal ones (usage). Must not know the shapes of tensors.
#pragma once

#include <cstdint>

#include "problem/geometry.h"

namespace convgrad {

struct Attributes {
  int64_t stride_h, stride_w, dilation_h, dilation_w;
  // Pads of explicit padding, else 0.
  int64_t pad_top, pad_bottom, pad_left, pad_right;
};

Attributes CheckAttributes(const ConvSpec& spec);

constexpr DataFormat OtherFormat(DataFormat format) {
  return format == DataFormat::kNHWC ? DataFormat::kNCHW : DataFormat::kNHWC;
}

// Positions of the dimensions of image tensors.
struct ImageAxes {
  int batch, height, width, channel;
};
constexpr ImageAxes AxesOf(DataFormat format) {
  return format == DataFormat::kNHWC ? ImageAxes{0, 1, 2, 3} : ImageAxes{0, 2, 3, 1};
}

}  // namespace convgrad
