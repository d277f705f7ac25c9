#include "verify/diagnosis/golden_shape.h"

#include <fmt/format.h>

#include <optional>

#include "base/checked.h"
#include "base/error.h"

namespace convgrad {
namespace {

// The format that the golden is in, of a filter whose shape it has in none of those asked for.
std::string OtherFilterFormat(const Problem& problem, const Shape& golden) {
  const Shape ours = problem.FilterShape();
  for (const FilterFormat format : kAllFilterFormats) {
    if (ShapeIn(format, InfoOf(problem.op).depthwise, ours) != golden) continue;
    return fmt::format("it seems to be in {} order: give --filter-format {}, or transpose it",
                       NameOf(format), NameOf(format));
  }
  if (Shape{ours[0], ours[1], ours[3], ours[2]} != golden) return "";
  return fmt::format("it seems to be in HWOI order: transpose it to {}", ToString(ours));
}

std::string OtherLayout(const Problem& problem, const Shape& golden) {
  if (InfoOf(problem.op).direction == Direction::kBackpropFilter) {
    return OtherFilterFormat(problem, golden);
  }
  const bool nhwc = problem.data_format == DataFormat::kNHWC;
  const Shape result = problem.ResultShape();
  const Shape other = nhwc ? Shape{result[0], result[3], result[1], result[2]}
                           : Shape{result[0], result[2], result[3], result[1]};
  if (other != golden) return "";
  return fmt::format("it seems to be in {} order: transpose it to {}", nhwc ? "NCHW" : "NHWC",
                     ToString(result));
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

// The output shape of the forward operation with another padding.
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
