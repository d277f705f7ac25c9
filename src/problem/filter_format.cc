#include "problem/filter_format.h"

namespace convgrad {
namespace {

// A depthwise filter's channels and multipliers are one dimension.
bool IsJoined(FilterFormat format, bool depthwise) {
  return depthwise && format != FilterFormat::kHWIO;
}

Shape Ordered(FilterFormat format, const Shape& hwio) {
  const FilterAxes axes = AxesOf(format);
  Shape shape(4);
  shape[axes.height] = hwio[0];
  shape[axes.width] = hwio[1];
  shape[axes.in] = hwio[2];
  shape[axes.out] = hwio[3];
  return shape;
}

}  // namespace

const char* NameOf(FilterFormat format) {
  constexpr const char* kNames[] = {"HWIO", "OIHW", "OHWI"};
  return kNames[static_cast<int>(format)];
}

FilterAxes AxesOf(FilterFormat format) {
  constexpr FilterAxes kAxes[] = {{0, 1, 2, 3}, {2, 3, 1, 0}, {1, 2, 3, 0}};
  return kAxes[static_cast<int>(format)];
}

std::array<int, 4> OrderOf(FilterFormat format, bool depthwise) {
  if (IsJoined(format, depthwise)) return {2, 3, 0, 1};
  constexpr std::array<int, 4> kOrders[] = {{0, 1, 2, 3}, {3, 2, 0, 1}, {3, 0, 1, 2}};
  return kOrders[static_cast<int>(format)];
}

Shape ShapeIn(FilterFormat format, bool depthwise, const Shape& ours) {
  if (!IsJoined(format, depthwise)) return Ordered(format, ours);
  return Ordered(format, {ours[0], ours[1], 1, ours[2] * ours[3]});
}

Shape IndexIn(FilterFormat format, bool depthwise, const Shape& ours, const Shape& index) {
  if (!IsJoined(format, depthwise)) return Ordered(format, index);
  return Ordered(format, {index[0], index[1], 0, index[2] * ours[3] + index[3]});
}

std::optional<Shape> ShapeFrom(FilterFormat format, bool depthwise, int64_t in_c,
                               const Shape& given) {
  const FilterAxes axes = AxesOf(format);
  const int64_t h = given[axes.height], w = given[axes.width];
  const int64_t in = given[axes.in], out = given[axes.out];
  if (!IsJoined(format, depthwise)) return Shape{h, w, in, out};
  if (in != 1) return std::nullopt;
  if (in_c == 0) return out == 0 ? std::optional(Shape{h, w, 0, 1}) : std::nullopt;
  if (out % in_c != 0) return std::nullopt;
  return Shape{h, w, in_c, out / in_c};
}

}  // namespace convgrad
