// The orders in which frameworks keep the dimensions of a filter, and what a filter's shape in one
// of them is in ours: [height,width,in,out], depthwise [height,width,in,multiplier]. Must not know
// elements.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "tensor/tensor.h"

namespace convgrad {

// kHWIO: TensorFlow. kOIHW: PyTorch, ONNX. kOHWI: PyTorch's channels_last, TensorFlow Lite. In the
// last two, a depthwise filter is that of as many groups as channels, whose one input channel comes
// where I stands: [C*M,1,kh,kw] and [C*M,kh,kw,1], with output channel c*M+m.
enum class FilterFormat { kHWIO, kOIHW, kOHWI };

inline constexpr FilterFormat kAllFilterFormats[] = {FilterFormat::kHWIO, FilterFormat::kOIHW,
                                                     FilterFormat::kOHWI};

const char* NameOf(FilterFormat format);

// Positions of the dimensions of a filter.
struct FilterAxes {
  int height, width, in, out;
};
FilterAxes AxesOf(FilterFormat format);

// Which of our dimensions the dimensions of a filter in `format` are, slowest first; a depthwise
// one's first then counts for two, channel and multiplier, and its dimension of 1 for none.
std::array<int, 4> OrderOf(FilterFormat format, bool depthwise);

// The shape in `format` of a filter that has the shape `ours`, and the index in it of the element
// at `index` of ours.
Shape ShapeIn(FilterFormat format, bool depthwise, const Shape& ours);
Shape IndexIn(FilterFormat format, bool depthwise, const Shape& ours, const Shape& index);

// Our shape of a filter that has the shape `given` in `format`. None where a depthwise one is not
// for `in_c` channels; a filter of 0 channels counts as one with multiplier 1.
std::optional<Shape> ShapeFrom(FilterFormat format, bool depthwise, int64_t in_c,
                               const Shape& given);

}  // namespace convgrad
