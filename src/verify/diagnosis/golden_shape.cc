#include "verify/diagnosis/golden_shape.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "base/checked.h"
#include "base/error.h"

namespace convgrad {
namespace {

struct Layout4 {
  const char* name;
  std::array<int, 4> axes;  // of our shape, in its order
};

// Orders that other programs keep these tensors in.
constexpr Layout4 kFilterLayouts[] = {
    {"OIHW", {3, 2, 0, 1}}, {"OHWI", {3, 0, 1, 2}}, {"HWOI", {0, 1, 3, 2}}};
constexpr Layout4 kNchw = {"NCHW", {0, 3, 1, 2}};
constexpr Layout4 kNhwc = {"NHWC", {0, 2, 3, 1}};

Shape InLayout(const Shape& shape, const Layout4& layout) {
  Shape other;
  for (const int axis : layout.axes) other.push_back(shape[static_cast<size_t>(axis)]);
  return other;
}

std::string OtherLayout(const Problem& problem, const Shape& golden) {
  const Shape result = problem.ResultShape();
  const auto matches = [&](const Layout4& layout) { return InLayout(result, layout) == golden; };
  const char* name = nullptr;
  if (InfoOf(problem.op).direction == Direction::kBackpropFilter) {
    for (const Layout4& layout : kFilterLayouts) {
      if (name == nullptr && matches(layout)) name = layout.name;
    }
  } else {
    const Layout4& other = problem.data_format == DataFormat::kNHWC ? kNchw : kNhwc;
    if (matches(other)) name = other.name;
  }
  if (name == nullptr) return "";
  return fmt::format("it seems to be in {} order: transpose it to {}", name, ToString(result));
}

std::string OtherTensor(const Problem& problem, const Shape& golden) {
  for (const Role role : {Role::kInput, Role::kFilter, Role::kOutBackprop}) {
    if (problem.ShapeOf(role) != golden) continue;
    const bool is_forward = InfoOf(problem.op).direction == Direction::kForward;
    const char* name = role == Role::kOutBackprop && is_forward ? "output" : NameOf(role);
    return fmt::format("that is the shape of the {}: was another file meant?", name);
  }
  return "";
}

// Of the forward operation with another padding.
std::optional<Shape> OutputWith(const Problem& problem, Padding padding) {
  const ConvGeometry& g = problem.geometry;
  ConvSpec spec;
  spec.op = problem.op;
  spec.dtype = problem.dtype;
  spec.data_format = problem.data_format;
  spec.padding = padding;
  spec.strides = {g.stride_h, g.stride_w};
  spec.dilations = {g.dilation_h, g.dilation_w};
  spec.input = problem.InputShape();
  spec.filter = problem.FilterShape();
  try {
    return MakeProblem(spec).OutputShape();
  } catch (const Error&) {
    return std::nullopt;
  }
}

std::string OtherPadding(const Problem& problem, const Shape& golden) {
  if (InfoOf(problem.op).direction != Direction::kForward) return "";
  for (const Padding padding : {Padding::kSame, Padding::kValid}) {
    if (padding == problem.padding || OutputWith(problem, padding) != golden) continue;
    return fmt::format("padding {} gives that shape, here it is {}", NameOf(padding),
                       NameOf(problem.padding));
  }
  return "";
}

// The same numbers with axes of size 1 left out or added, or flattened.
std::string SameNumbers(const Problem& problem, const Shape& golden) {
  const Shape result = problem.ResultShape();
  if (CheckedProduct(golden) != CheckedProduct(result)) return "";
  return fmt::format("it holds as many numbers: reshape it to {} if their order is the same",
                     ToString(result));
}

}  // namespace

std::string RecogniseShape(const Problem& problem, const Shape& golden) {
  for (const auto recognise : {OtherLayout, OtherTensor, OtherPadding, SameNumbers}) {
    std::string sentence = recognise(problem, golden);
    if (!sentence.empty()) return sentence;
  }
  return "";
}

}  // namespace convgrad
